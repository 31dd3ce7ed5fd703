"""Values at the edges: tensors without axes, foreign truth bytes, integers rounded once, numbers that a dtype does not hold, draws."""

import numpy as np
import pytest

import landfall as lf
from landfall import ops


def test_what_has_no_axis_has_no_length():
    for scalar in (lf.tensor(3.0), lf.zeros((2, 3))[0, 0], ops.sum(lf.zeros(4), axes=0)):
        for call in (list, len, iter, tuple, lambda x: [*x], enumerate):
            with pytest.raises(TypeError, match="no axis"):
                call(scalar)
        with pytest.raises(TypeError):
            1.0 in scalar

    def traced(x):
        total = x.sum()
        for call in (list, len, iter):
            with pytest.raises(TypeError, match="no axis"):
                call(total)
        rows = list(x)
        assert len(rows) == len(x) == 3
        return sum(rows[1:], rows[0])

    x = np.arange(6, dtype="f4").reshape(3, 2)
    np.testing.assert_array_equal(lf.compile(traced, x)(x).numpy(), x.sum(0))
    t = lf.from_numpy(x)
    assert [row.tolist() for row in t] == x.tolist() and [float(v) for v in t[0]] == [0, 1]
    assert next(iter(t)).data_ptr == t.data_ptr and list(lf.zeros((0, 3))) == []
    first, *others = t
    assert len(others) == 2 and first.shape == (2,)


BYTES = np.array([0, 1, 2, 255, 128, 0, 3, 1], "u1")


def foreign():
    yield "numpy", BYTES.view("?")
    yield "numpy, strided", np.repeat(BYTES, 2).view("?")[::2]
    torch = pytest.importorskip("torch")
    yield "torch", torch.from_numpy(BYTES.copy()).view(torch.bool)


def test_every_byte_but_0_is_true():
    truths = BYTES != 0
    for name, x in foreign():
        x = lf.from_dlpack(x)
        one = lf.tensor(np.ones(8, "?"))
        got = {
            "float": ops.cast(x, dtype="float32"),
            "half": ops.cast(x, dtype="float16"),
            "int": ops.cast(x, dtype="int64"),
            "byte": ops.cast(x, dtype="uint8"),
            "copy": ops.copy(x),
            "equal": x == one,
            "where": ops.where(x, np.ones(8, "f4"), np.zeros(8, "f4")),
            "list": lf.tensor(x.tolist()),
            "astype": x.astype("float64"),
        }
        for what, value in got.items():
            assert value.tolist() == truths.astype(value.dtype).tolist(), (name, what)
        assert ops.cast(x == x.copy(), dtype="int64").tolist() == [1] * 8
        program = lf.compile(
            lambda x: (~x, x & x, x | ~x, x.any(), x.all(), x.cast(dtype="int64").sum(), ~(~x)), lf.spec(8, "bool")
        )
        inverse, both, either, any_, all_, count, again = (v.numpy() for v in program(x))
        np.testing.assert_array_equal(inverse.view("u1"), ~truths)
        np.testing.assert_array_equal(both.view("u1"), truths)
        np.testing.assert_array_equal(again.view("u1"), truths)
        assert either.all() and any_ and not all_ and count == truths.sum(), name


def test_integers_are_rounded_once():
    rng = np.random.default_rng(0)
    top = rng.integers(24, 63, 4000)
    x = (np.int64(1) << top) + (np.int64(1) << np.maximum(top - 24, 0)) + rng.integers(-2, 3, 4000)
    x = np.concatenate([x, -x, [2**63 - 1, -(2**63), 2**60 + 2**36 + 1]])
    np.testing.assert_array_equal(lf.from_numpy(x).astype("float32").numpy(), x.astype("f4"))
    np.testing.assert_array_equal(lf.from_numpy(x).astype("float64").numpy(), x.astype("f8"))
    # A number of Python beside an array.
    odd = 2**60 + 2**36 + 1
    assert ops.add(np.zeros(1, "f4"), odd).numpy()[0] == np.int64(odd).astype("f4")


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_a_number_that_a_dtype_does_not_hold_is_refused(dtype):
    largest = float(np.finfo(dtype).max)
    x = lf.zeros(3, dtype)
    for number in (2 * largest, -1.5 * largest, int(2 * largest) if dtype == "float16" else 1e39):
        for call in (
            lambda: x + number,
            lambda: ops.maximum(x, number),
            lambda: x.__setitem__(0, number),
            lambda: lf.compile(lambda v: v + number, x),
            lambda: lf.compile(lambda v: v.masked_fill(v.is_nan(), number), x),
        ):
            with pytest.raises(lf.Error, match="hold|largest"):
                call()
    assert (x + largest).numpy()[0] == np.dtype(dtype).type(largest)
    assert np.isinf((x + float("inf")).numpy()).all() and np.isnan((x * float("nan")).numpy()).all()


@pytest.mark.parametrize("name", ["sum", "mean", "max", "min", "prod"])
def test_an_axis_is_named_once(name):
    x = np.ones((2, 3), "f4")
    for axes in ([0, 0], [1, -1], (-2, 0)):
        with pytest.raises(lf.Error, match="named twice"):
            getattr(ops, name)(x, axes=axes)
        with pytest.raises(lf.Error, match="named twice"):
            lf.compile(lambda v: getattr(v, name)(axes=list(axes)), x)
    with pytest.raises(lf.Error, match="once"):
        lf.from_numpy(x).permute(0, 0)
    with pytest.raises(lf.Error, match="named twice|once"):
        lf.compile(lambda v: v.permute(0, 0), x)


def test_draws_of_neighbouring_streams_are_independent():
    n = 1 << 14
    cursor = np.array([3, 0, 0, 2021, 0, 0, 0, 0], "i8")

    def draws(cursor):
        drawn = [cursor.normal(spec=("float32", n), stream=s) for s in (1, 2, 3)]
        return tuple(drawn + [ops.uniform(cursor, spec=("float32", n), low=-1.0, high=1.0, stream=s) for s in (4, 5)])

    made = [v.numpy().astype("f8") for v in lf.compile(draws, cursor)(cursor)]
    eager = ops.uniform(cursor, spec=("float32", n), low=-1.0, high=1.0, stream=5)
    np.testing.assert_array_equal(eager.numpy(), made[4])
    for i, a in enumerate(made):
        for j, b in enumerate(made):
            if i == j:
                continue
            for f in (lambda v: v, np.abs, np.square):
                for g in (lambda v: v, np.abs, np.square):
                    assert abs(np.corrcoef(f(a), g(b))[0, 1]) < 6 / np.sqrt(n), (i, j)
    assert abs(made[0][np.abs(made[1]) > 2].mean()) < 0.3
