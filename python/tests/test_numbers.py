"""Python's integers beside int64 are exact in eager calls and in traced functions, and refused where a dtype does not hold them."""

import numpy as np
import pytest

import landfall as lf

BIG = np.array([2**53, 2**53 + 1, -(2**53) - 1, 2**60 + 1, 2**63 - 1, -(2**63), 5])
NUMBERS = [2**53 + 1, -(2**53) - 1, 2**60 + 1, 2**63 - 1, -(2**63), 3]

FUNCTIONS = {
    "==": lambda a, n: a == n,
    "<": lambda a, n: a < n,
    ">=": lambda a, n: a >= n,
    "+": lambda a, n: a + n,
    "r-": lambda a, n: n - a,
    "*": lambda a, n: a * n,
}
OPS = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
}


@pytest.mark.parametrize("number", NUMBERS)
def test_operators(number):
    with np.errstate(over="ignore"):
        for name, f in FUNCTIONS.items():
            want = f(BIG, np.int64(number))
            np.testing.assert_array_equal(lf.compile(lambda a, f=f: f(a, number), BIG)(BIG).numpy(), want, err_msg=name)
            np.testing.assert_array_equal(f(lf.tensor(BIG), number).numpy(), want, err_msg=f"eager {name}")
        want = BIG % np.int64(number)
    np.testing.assert_array_equal(lf.compile(lambda a: a % number, BIG)(BIG).numpy(), want)
    np.testing.assert_array_equal(lf.ops.rem(BIG, number).numpy(), want)


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("name", OPS)
def test_ops(name, number):
    op = getattr(lf.ops, name)
    with np.errstate(over="ignore"):
        for call, want in [
            (lambda a: op(a, number), OPS[name](BIG, np.int64(number))),
            (lambda a: op(number, a), OPS[name](np.int64(number), BIG)),
        ]:
            np.testing.assert_array_equal(lf.compile(call, BIG)(BIG).numpy(), want)
            np.testing.assert_array_equal(call(BIG).numpy(), want)


@pytest.mark.parametrize("number", NUMBERS)
def test_choices_and_constants(number):
    truth = BIG > 0
    for call in (lambda c, a: lf.ops.where(c, a, number), lambda c, a: lf.ops.where(c, number, a)):
        want = call(truth, BIG).numpy()
        np.testing.assert_array_equal(lf.compile(call, truth, BIG)(truth, BIG).numpy(), want)
    np.testing.assert_array_equal(lf.ops.where(truth, BIG, number).numpy(), np.where(truth, BIG, number))
    filled = lf.compile(lambda c, a: a.masked_fill(c, value=number), truth, BIG)(truth, BIG)
    np.testing.assert_array_equal(filled.numpy(), np.where(truth, number, BIG))
    try:
        full = lf.ops.fill(spec=("int64", 3), value=number).tolist()
    except lf.AttributeValueError as error:
        # A constant of an op is a float: what that does not hold is said, and never rounded.
        assert int(float(number)) != number and str(number) in str(error) and "exactly" in str(error)
    else:
        assert full == [number] * 3


@pytest.mark.parametrize("dtype, number", [("int64", 2**63), ("int64", -(2**63) - 1), ("int32", 2**31), ("uint8", 256),
                                           ("uint8", -1), ("bool", 2), ("int64", 0.5), ("int64", 2.0**63), ("int32", float("nan"))])
def test_what_a_dtype_does_not_hold(dtype, number):
    x = np.ones(3, dtype)
    shown = str(number).split("e")[0].split(".")[0]
    for call in (
        lambda: lf.ops.maximum(x, number),
        lambda: lf.compile(lambda a: lf.ops.maximum(a, number), x),
        lambda: lf.compile(lambda a: a == number, x),
    ):
        with pytest.raises(lf.DTypeError, match=f"(?i){shown}.*{dtype}"):
            call()


def test_integers_beside_floats_are_rounded():
    for dtype in ("f4", "f8"):
        x = np.ones(2, dtype)
        for number in (2**53 + 1, 2**70, -(2**64)):
            want = x * np.asarray(number, dtype)
            np.testing.assert_array_equal((lf.tensor(x) * number).numpy(), want)
            np.testing.assert_array_equal(lf.compile(lambda a, n=number: a * n, x)(x).numpy(), want)
    assert lf.ops.clamp(np.array([1e30, 5.0]), high=2**70).tolist() == [2.0**70, 5.0]
    with pytest.raises(lf.AttributeValueError, match="axis is"):
        lf.ops.softmax(np.ones(3, "f4"), axis=2**70)
