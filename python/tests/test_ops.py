"""Every op of the table through Python: references, destinations, signatures, documentation."""

import inspect
import pickle
import pydoc
import threading
import time

import numpy as np
import pytest

import landfall as lf
from landfall._landfall import _reference, _samples

# Relative spacing of each dtype's numbers, and that of the arithmetic behind it.
EPSILON = {"float32": 2**-23, "float64": 2**-52, "bfloat16": 2**-7, "float16": 2**-10}
ARITHMETIC = {"float32": 2**-23, "float64": 2**-52, "bfloat16": 2**-23, "float16": 2**-23}
SMALLEST = {"float32": 2**-126, "float64": 2**-1022, "bfloat16": 2**-126, "float16": 2**-14}

LARGEST = {"float32": 2.0**128, "float64": np.inf, "bfloat16": 2.0**128, "float16": 65504}

# The nudge from which a condition is measured: far above the rounding of f64, far below where a function bends.
NUDGE = 1e-6


def random(spec, rng):
    """An argument of a sample, in f64 or as integers."""
    dtype, shape, kind, numbers = spec
    if kind == "range":
        data = rng.uniform(*numbers, shape)
    elif kind == "int":
        data = rng.integers(*map(int, numbers), shape)
    elif kind == "exact":
        data = np.array(numbers, dtype="f8").reshape(shape)
    else:
        data = rng.standard_normal(shape) * rng.choice([0.0, 1000.0, 1.0], p=[1 / 16, 1 / 16, 14 / 16], size=shape)
    if dtype == "bool":
        return np.asarray(data > 0)
    if dtype == "uint8":
        data = abs(data)
    return np.asarray(data).astype("f8" if dtype in EPSILON else dtype)


def results(given):
    """The results of a call as a list."""
    return list(given) if isinstance(given, tuple) else [given]


def condition(name, args, keywords, want, rng):
    """How much each number of each result changes when all floats change by a relative 1."""
    total = [np.zeros(w.shape) for w in want]
    for _ in range(3):
        nudged = [
            lf.tensor(a.astype("f8").numpy() * (1 + NUDGE * rng.uniform(-1, 1, a.shape))) if a.dtype in EPSILON else a
            for a in args
        ]
        # Arguments whose dtype an op fixes keep it, and are not nudged.
        try:
            other = _reference(name, nudged, keywords)
        except lf.Error:
            nudged = [n if a.dtype != "float64" else a for n, a in zip(nudged, args)]
            nudged = [lf.tensor(n, dtype=a.dtype) for n, a in zip(nudged, args)]
            other = _reference(name, nudged, keywords)
        for t, o, w in zip(total, other, want):
            with np.errstate(invalid="ignore"):
                t += np.abs(o.numpy().astype("f8") - w.numpy().astype("f8")) / NUDGE
    return total


def check(name, args, keywords, got, rng):
    """Compares the results of a call with the reference's."""
    want = _reference(name, args, keywords)
    assert [g.shape for g in got] == [w.shape for w in want]
    changes = None
    for i, (g, w) in enumerate(zip(got, want)):
        if g.dtype not in EPSILON:
            assert g.dtype == w.dtype
            np.testing.assert_array_equal(g.numpy(), w.numpy())
            continue
        exact, seen = w.numpy(), g.astype("f8").numpy()
        bound = 16 * EPSILON[g.dtype] * np.abs(exact)
        same = close(seen, exact, bound, g.dtype)
        if not same.all():
            changes = changes or condition(name, args, keywords, want, rng)
            arithmetic = max(ARITHMETIC[x.dtype] for x in [*args, g] if x.dtype in EPSILON)
            bound = EPSILON[g.dtype] * np.abs(exact) + 64 * arithmetic * (changes[i] + np.abs(exact))
            same = close(seen, exact, bound, g.dtype)
        if not same.all():
            at = np.argmin(same)
            raise AssertionError(f"{name}{keywords}: {seen.flat[at]} for {exact.flat[at]}, within {bound.flat[at]}")


def close(seen, exact, bound, dtype):
    """Which numbers are within the bound, equal once rounded, or both beyond the dtype."""
    rounded = lf.tensor(exact, dtype=dtype).astype("f8").numpy()
    with np.errstate(invalid="ignore"):
        near = np.abs(seen - exact) <= bound + SMALLEST[dtype]
    beyond = np.isinf(seen) & (np.abs(exact) > 0.99 * LARGEST[dtype])
    return (seen == rounded) | (np.isnan(seen) & np.isnan(exact)) | near | beyond


def cases(name):
    """Samples that must succeed, with random arguments, the same in every run."""
    rng = np.random.default_rng(list(name.encode()))
    for keywords, specs, refused in _samples(name):
        if refused is None:
            yield keywords, [lf.tensor(random(spec, rng), dtype=spec[0]) for spec in specs], rng


@pytest.mark.parametrize("name", lf.ops.__all__)
def test_results_are_those_of_the_reference(name):
    seen = 0
    for keywords, args, rng in cases(name):
        before = [a.copy() for a in args]
        got = results(getattr(lf.ops, name)(*args, **keywords))
        check(name, before, keywords, got, rng)
        seen += 1
    assert seen, f"{name} has no sample"


@pytest.mark.parametrize("name", lf.ops.__all__)
def test_results_land_in_the_destinations(name):
    """The same bytes, in the memory of numpy arrays, which are returned; nothing beside them is written."""
    for keywords, args, _ in cases(name):
        op = getattr(lf.ops, name)
        updated = [a.copy() for a in args]
        plain = results(op(*updated, **keywords))
        held = [i for r in plain for i, a in enumerate(updated) if r is a]
        if held:
            continue
        guarded = [lf.zeros(p.size + 2, p.dtype) for p in plain]
        [g.__setitem__(slice(None), 1) for g in guarded]
        outs = [g[1 : p.size + 1].reshape(p.shape) for g, p in zip(guarded, plain)]
        out = outs[0] if len(outs) == 1 else tuple(outs)
        assert op(*args, **keywords, out=out) is out
        for o, p, g in zip(outs, plain, guarded):
            assert pickle.dumps(o) == pickle.dumps(p), f"{name}{keywords}"
            assert g[0].item() == g[-1].item() == 1


def test_updated_arguments_are_written_where_they_lie():
    target, value = np.arange(3.0), np.array([5.0, 6.0, 7.0])
    assert lf.ops.assign(target, value, np.array(True)) is target
    assert target.tolist() == [5.0, 6.0, 7.0]
    assert lf.ops.assign(target, np.zeros(3), np.array(True), out=target) is target
    with pytest.raises(lf.AliasError):
        lf.ops.assign(target, value, np.array(True), out=np.zeros(3))
    target.flags.writeable = False
    with pytest.raises(lf.ReadOnlyError):
        lf.ops.assign(target, value, np.array(True))
    assert not target.any()


@pytest.mark.parametrize("name", lf.ops.__all__)
def test_what_must_be_refused_is_refused(name):
    rng = np.random.default_rng(1)
    for keywords, specs, refused in _samples(name):
        if refused is not None:
            args = [lf.tensor(random(spec, rng), dtype=spec[0]) for spec in specs]
            with pytest.raises(lf.Error) as caught:
                getattr(lf.ops, name)(*args, **keywords)
            # Shapes that the engine's other calls want equal are broadcast here, or cannot be.
            broadcast = refused == "their shapes must be equal" and "cannot be broadcast" in str(caught.value)
            assert refused in str(caught.value) or broadcast


def test_numpy_arrays_are_arguments_and_destinations():
    x = np.random.default_rng(0).standard_normal((4, 6)).astype("f4")
    before = lf.counters()
    y = np.empty((6, 4), "f4").T
    assert lf.ops.softmax(x, axis=-1, out=y) is y
    e = np.exp(x - x.max(-1, keepdims=True))
    np.testing.assert_allclose(y, e / e.sum(-1, keepdims=True), rtol=1e-6)
    largest, place = np.empty(4, "f4"), np.empty((4, 6), "f4")
    assert lf.ops.max(x, axes=1, out=largest) is largest
    np.testing.assert_array_equal(largest, x.max(1))
    indices = np.empty((4, 6), "i8")
    out = (place, indices)
    assert lf.ops.sort(x, axis=-1, out=out) is out
    np.testing.assert_array_equal(place, np.sort(x))
    np.testing.assert_array_equal(indices, np.argsort(x))
    after = lf.counters()
    assert after["host_transfers"] == before["host_transfers"]
    assert after["synchronizations"] == before["synchronizations"]


def test_numbers_broadcast_in_the_arrays_dtype():
    x = lf.tensor([1, 2, 3])
    assert (x + 2).tolist() == [3, 4, 5]
    assert lf.ops.where(np.array([True, False, True]), 7, x).tolist() == [7, 2, 7]
    assert lf.ops.maximum(lf.tensor([0.5, 2.0], dtype="bf16"), 1).dtype == "bfloat16"
    out = np.zeros((2, 3), "f4")
    lf.ops.mul(np.arange(3, dtype="f4"), np.array([[2.0], [3.0]], "f4"), out=out)
    assert out.tolist() == [[0, 2, 4], [0, 3, 6]]
    for number in [0.5, 2**70]:
        with pytest.raises(lf.Error):
            x + number
    with pytest.raises(lf.ArgumentError, match="landfall.tensor"):
        lf.ops.add(1, 2)


def test_keywords_take_the_objects_of_python():
    x = lf.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert lf.ops.sum(x, axes=(0, 1)).item() == lf.ops.sum(x, axes=[-1, -2]).item() == 10.0
    assert lf.ops.sum(x, axes=-1).tolist() == lf.ops.sum(x, axes=np.int64(1)).tolist() == [3.0, 7.0]
    assert lf.ops.cast(x, dtype=np.int32).dtype == lf.ops.cast(x, dtype="i32").dtype == "int32"
    assert lf.ops.fill(spec=("float32", (2, 1)), value=3).tolist() == lf.ops.fill(spec="f32[2, 1]", value=3.0).tolist()
    assert lf.ops.iota(spec=(np.float64, 3), start=1).tolist() == [1.0, 2.0, 3.0]
    assert lf.ops.cumsum(x, axis=-1, reverse=np.True_).tolist() == [[3.0, 2.0], [7.0, 4.0]]


def test_wrong_calls_say_what_is_wrong():
    x = np.ones((2, 3), "f4")
    for call, error, text in [
        (lambda: lf.ops.softmax(x, axis=2), ValueError, "axis is 2, the rank is 2"),
        (lambda: lf.ops.softmax(x, axis="last"), ValueError, "axis is last"),
        (lambda: lf.ops.softmax(x, axis=1.5), ValueError, "axis is 1.5"),
        (lambda: lf.ops.softmax(x, axis=[1]), ValueError, "axis is"),
        (lambda: lf.ops.softmax(x, axes=1), TypeError, 'no keyword "axes"; it has axis, out'),
        (lambda: lf.ops.softmax(x=x), TypeError, "by position"),
        (lambda: lf.ops.softmax(), TypeError, r"takes 1 argument \(x\), got 0"),
        (lambda: lf.ops.matmul(x), TypeError, "lhs, rhs"),
        (lambda: lf.ops.matmul(x, x), ValueError, "must be equal"),
        (lambda: lf.ops.softmax(x.astype("i4")), TypeError, "i32"),
        (lambda: lf.ops.add(x, x.astype("f8")), TypeError, "dtypes must be equal"),
        (lambda: lf.ops.softmax([1.0]), TypeError, "landfall.tensor"),
        (lambda: lf.ops.softmax(x, out=[1.0]), TypeError, "out 0 is a list"),
        (lambda: lf.ops.add(x, x, out=np.ones((3, 2), "f4")), ValueError, r"must be f32\[2, 3\]"),
        (lambda: lf.ops.add(x, x, out=np.ones((2, 3))), ValueError, "f64"),
        (lambda: lf.ops.add(x, x, out=(x, x)), TypeError, "outputs"),
        (lambda: lf.ops.add(x, np.ones((4, 3), "f4")), ValueError, "broadcast"),
        (lambda: lf.ops.cast(x, dtype="float8"), TypeError, "no dtype"),
        (lambda: lf.ops.cast(x, dtype=None), TypeError, "no dtype"),
        (lambda: lf.ops.gelu(x, approximation="exact"), ValueError, "erf, tanh"),
        (lambda: lf.zeros(2, device="gpu"), RuntimeError, "no device"),
        (lambda: lf.zeros(-1), ValueError, "sizes from 0"),
        (lambda: lf.zeros("ab"), ValueError, "size"),
        (lambda: lf.zeros((2,) * 9), ValueError, "at most 8"),
        (lambda: lf.zeros(2**60), ValueError, r"more than 2\^48 elements"),
        (lambda: lf.zeros(2**46), MemoryError, "bytes"),
        (lambda: lf.zeros(3)[3], IndexError, "out of range of axis 0 of size 3"),
        (lambda: lf.zeros(3)[True], TypeError, "neither"),
        (lambda: lf.zeros(3)[::-1], IndexError, "negative step"),
        (lambda: lf.zeros((2, 3)).reshape(4, -1), ValueError, "elements"),
        (lambda: lf.zeros((2, 3)).T.reshape(6), ValueError, "copy"),
        (lambda: lf.zeros((2, 3)).permute(0, 0), ValueError, "once"),
        (lambda: lf.ops.gather(lf.zeros(3), np.array([7]), axis=0).tolist(), IndexError, "out of range"),
    ]:
        with pytest.raises(error, match=text) as caught:
            call()
        assert isinstance(caught.value, lf.Error), caught.value
        assert ".rs:" not in str(caught.value)


def test_overlap_is_found_and_said():
    x = np.arange(10, dtype="f4")
    with pytest.raises(lf.AliasError, match="bytes 8..40 and 0..32") as caught:
        lf.ops.add(x[:8], x[1:9], out=x[2:])
    error = caught.value
    assert (error.op, error.shapes, error.byte_ranges) == ("add", ["f32[8]", "f32[8]"], [(8, 40), (0, 32)])
    with pytest.raises(lf.AliasError):
        lf.ops.neg(x[:6].reshape(2, 3), out=x[:6].reshape(3, 2).T)
    with pytest.raises(lf.AliasError, match="never overlaps itself"):
        lf.ops.neg(x[:4], out=np.lib.stride_tricks.as_strided(x, (4,), (0,)))
    with pytest.raises(lf.AliasError, match="outputs 0 and 1"):
        y = np.empty((2, 3), "f4")
        lf.ops.layer_norm(np.ones((2, 3), "f4"), np.ones(3, "f4"), np.ones(3, "f4"), out=(y, y[0, :2], y[0, 1:]))
    assert x.tolist() == list(range(10))
    # Exactly the argument itself is in place, however it was reached.
    tensor = lf.from_numpy(x)
    lf.ops.neg(x[2:5], out=tensor[2:5])
    assert x.tolist() == [0, 1, -2, -3, -4, 5, 6, 7, 8, 9]


@pytest.mark.parametrize("name", lf.ops.__all__)
def test_signature_and_documentation_are_the_tables(name):
    op = getattr(lf.ops, name)
    signature = inspect.signature(op)
    assert list(signature.parameters)[-1] == "out"
    text = pydoc.render_doc(op, renderer=pydoc.plaintext)
    assert f"{name}{signature}" in text
    for section in ["Keywords:", "Memory:"]:
        assert section in text
    for parameter in signature.parameters:
        assert f"        {parameter}" in text
    assert "```" not in text and "crate::" not in text and "[`" not in text
    assert pickle.loads(pickle.dumps(op)) is op
    assert (op.__name__, op.__module__, repr(op)) == (name, "landfall.ops", f"<op {name}>")


def test_help_gives_formula_shapes_and_alias_rule():
    text = lf.ops.softmax.__doc__
    for part in [
        "exp(x[.., i, ..] − m)",
        "any shape of rank 1 or more",
        "may be x itself",
        "float32",
        "axis: an axis of x",
    ]:
        assert part in text


def test_calls_release_the_interpreters_lock():
    size, seconds = 64, 0.0
    while seconds < 0.3:
        size = size * 3 // 2
        x = np.ones((size, size), "f4")
        out = np.empty_like(x)
        start = time.monotonic()
        lf.ops.matmul(x, x, out=out)
        seconds = time.monotonic() - start
    ticks, running = 0, True

    def tick():
        nonlocal ticks
        while running:
            time.sleep(0.001)
            ticks += 1

    thread = threading.Thread(target=tick)
    thread.start()
    before = ticks
    lf.ops.matmul(x, x, out=out)
    during = ticks - before
    running = False
    thread.join()
    # With the lock held the other thread would run once or twice, before and after the one call.
    assert during > 5, (during, seconds)
