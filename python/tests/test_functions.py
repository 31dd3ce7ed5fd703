"""Functions that are compiled when they are called: programs by shape, how many are kept, threads, and lengths in buckets."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import landfall as lf

RNG = np.random.default_rng(0)


def normal(*shape):
    return RNG.normal(size=shape).astype("f4")


def counted(function):
    """A function, and a list that has an entry for each time that it was traced."""
    traced = []

    def f(*args, **named):
        traced.append([value.shape for value in args])
        return function(*args, **named)

    return f, traced


def test_one_program_for_each_shape_and_dtype():
    weight = normal(4, 3)
    f, traced = counted(lambda x, weight: x.cast("float32") @ weight)
    jitted = lf.jit(f, params={"weight": weight})
    for rows in (5, 2, 5, 2, 1, 5):
        x = normal(rows, 4)
        np.testing.assert_allclose(jitted(x).numpy(), x @ weight, rtol=1e-5, atol=1e-6)
    assert len(traced) == len(jitted.programs) == 3
    np.testing.assert_allclose(jitted(x.astype("f8")).numpy(), x @ weight, rtol=1e-5, atol=1e-6)
    assert len(jitted.programs) == 4
    assert [p.inputs["args0"] for p in jitted.programs[-2:]] == [("float32", (5, 4)), ("float64", (5, 4))]
    # All read the parameters where they lie.
    weight *= 3
    for rows in (1, 2):
        x = normal(rows, 4)
        np.testing.assert_allclose(jitted(x).numpy(), x @ weight, rtol=1e-5, atol=1e-6)
    out = np.empty((2, 3), "f4")
    assert jitted(x, out=out) is out
    np.testing.assert_allclose(out, x @ weight, rtol=1e-5, atol=1e-6)
    assert "4 programs" in repr(jitted)
    jitted.clear()
    assert jitted.programs == []


def test_arguments_by_name_and_other_parameters():
    weight = normal(3)
    jitted = lf.jit(lambda x, shift, weight: x * weight + shift, params={"weight": weight})
    x, shift = normal(2, 3), normal(3)
    expected = x * weight + shift
    np.testing.assert_allclose(jitted(x, shift).numpy(), expected, rtol=1e-6)
    np.testing.assert_allclose(jitted(x, shift=shift).numpy(), expected, rtol=1e-6)
    np.testing.assert_allclose(jitted(shift=shift, x=x).numpy(), expected, rtol=1e-6)
    # Another array for a parameter is one of this call.
    np.testing.assert_allclose(jitted(x, shift, weight=2 * weight).numpy(), 2 * x * weight + shift, rtol=1e-6)
    np.testing.assert_allclose(jitted(x, shift).numpy(), expected, rtol=1e-6)
    with pytest.raises(TypeError, match="shift"):
        jitted(x)
    with pytest.raises(lf.ArgumentError, match="takes 2 arrays by position, 3 were given"):
        jitted(x, shift, x)


def test_programs_of_specs():
    jitted = lf.jit(lambda x: x.exp())
    program = jitted.program(lf.spec((2, 3), np.float32))
    x = normal(2, 3)
    assert jitted.program(x) is program
    assert jitted.program(lf.spec((2, 3), "float64")) is not program
    np.testing.assert_allclose(jitted(x).numpy(), np.exp(x), rtol=1e-6)
    assert len(jitted.programs) == 2


def test_the_least_recently_used_goes_first():
    f, traced = counted(lambda x: x + 1)
    jitted = lf.jit(f, limit=2)
    for size in (1, 2, 1, 3, 1):
        jitted(normal(size))
    assert [p.inputs["args0"][1] for p in jitted.programs] == [(3,), (1,)]
    assert [shape for [shape] in traced] == [(1,), (2,), (3,)]
    jitted(normal(2))
    assert len(traced) == 4 and len(jitted.programs) == jitted.limit == 2
    everything = lf.jit(f, limit=None)
    for size in range(1, 101):
        everything(normal(size))
    assert len(everything.programs) == 100
    for limit in (0, 1.5, True):
        with pytest.raises(lf.ArgumentError, match="a number of programs from 1, or None"):
            lf.jit(f, limit=limit)


def test_a_call_that_fails_leaves_nothing():
    jitted = lf.jit(lambda x: x @ x)
    for _ in range(2):
        with pytest.raises(lf.ShapeError, match="matmul"):
            jitted(normal(2, 3))
    assert jitted.programs == []
    assert jitted(normal(2, 2)).shape == (2, 2)


def test_many_threads_compile_once():
    f, traced = counted(lambda x: (x * 2).sum(axes=-1))
    jitted = lf.jit(f)
    arrays = [normal(rows, 8) for rows in range(1, 5)] * 16
    start = threading.Barrier(8)

    def work(part):
        start.wait(timeout=60)
        return [jitted(x).numpy().copy() for x in part]

    with ThreadPoolExecutor(8) as pool:
        parts = [arrays[i::8] for i in range(8)]
        for part, results in zip(parts, pool.map(work, parts)):
            for x, result in zip(part, results):
                np.testing.assert_allclose(result, (2 * x).sum(-1), rtol=1e-5, atol=1e-5)
    assert len(traced) == 4


def test_a_function_in_a_function():
    inner = lf.jit(lambda x: x.exp())
    program = lf.compile(lambda x: inner(x) + 1, normal(3))
    x = normal(3)
    np.testing.assert_allclose(program(x).numpy(), np.exp(x) + 1, rtol=1e-6)
    assert inner.programs == []
    bound = lf.jit(lambda x, w: x * w, params={"w": x})
    with pytest.raises(lf.ArgumentError, match="a function with params"):
        lf.compile(lambda x: bound(x), normal(3))


def attention(x, mask, weight):
    """Of each row, with padding left out by the mask."""
    scores = (x @ weight).where(mask, -1e30)
    return {"weights": scores.softmax(axis=-1), "mean": (scores.softmax(axis=-1).unsqueeze(-1) * x).sum(axes=1)}


def test_buckets():
    weight = normal(4)
    f, traced = counted(attention)
    buckets = lf.Buckets({"x": 1, "mask": -1}, [32, 8, 16], value={"mask": False})
    jitted = lf.jit(lambda x, mask, weight: f(x, mask, weight=weight), params={"weight": weight}, buckets=buckets)
    for length in (5, 7, 8, 9, 13, 31, 32, 5):
        x, mask = normal(2, length, 4), np.ones((2, length), bool)
        mask[1, length // 2 :] = False
        exact = lf.compile(attention, x, mask, params={"weight": weight})(x, mask)
        result = jitted(x, mask)
        assert result["weights"].shape == (2, length)
        for name in exact:
            np.testing.assert_allclose(result[name].numpy(), exact[name].numpy(), rtol=1e-5, atol=1e-6)
        out = {"weights": np.empty((2, length), "f4"), "mean": np.empty((2, 4), "f4")}
        assert jitted(x, mask=mask, out=out) is out
        np.testing.assert_array_equal(out["weights"], result["weights"].numpy())
    # An argument by name is the same one by position.
    assert sorted(p.inputs["x"][1][1] for p in jitted.programs) == [8, 16, 32]


def test_the_padding_is_what_the_function_sees():
    x = normal(2, 3)
    total = lf.jit(lambda x: x.sum(axes=1), buckets=lf.Buckets({"x": 1}, [8], value=1))
    np.testing.assert_allclose(total(x).numpy(), x.sum(1) + 5, rtol=1e-5)
    # Batches too, of two axes.
    both = lf.jit(lambda x: x * 2, buckets=[lf.Buckets({"x": 0}, [4, 16]), lf.Buckets({"x": 1}, [8])])
    for rows, columns in [(1, 3), (4, 8), (5, 2)]:
        x = normal(rows, columns)
        np.testing.assert_array_equal(both(x).numpy(), 2 * x)
    assert [p.inputs["x"][1] for p in both.programs] == [(4, 8), (16, 8)]


@pytest.mark.parametrize(
    "call, error, text",
    [
        (lambda f: f(normal(2, 9)), lf.ShapeError, "of length 9 .*; the largest bucket is 8"),
        (lambda f: f(y=normal(2, 9)), lf.ArgumentError, "buckets name the argument x; the arguments are y"),
        (lambda f: f([[1.0]]), lf.ArgumentError, "it must be a landfall.Tensor, a numpy array"),
        (lambda f: f(normal(2)), lf.ShapeError, r"buckets name axis 1 of x, which has the shape \(2,\)"),
        (lambda f: lf.Buckets({"x": 0}, []), lf.ArgumentError, "and sizes from 1"),
        (lambda f: lf.Buckets({}, [1]), lf.ArgumentError, "an axis for each argument"),
    ],
)
def test_what_has_no_bucket(call, error, text):
    with pytest.raises(error, match=text):
        call(lf.jit(lambda x: x * 2, buckets=lf.Buckets({"x": 1}, [4, 8])))


def test_arguments_of_buckets_are_of_one_length():
    f = lf.jit(lambda x, y: x + y, buckets=lf.Buckets({"x": 0, "y": 0}, [4]))
    with pytest.raises(lf.ShapeError, match="of one length"):
        f(normal(3), normal(1))
