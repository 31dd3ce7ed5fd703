"""Random calls of every entry point: they return or raise, and nothing else."""

import faulthandler
import random

import numpy as np
import pytest

import landfall as lf

CALLS = 100_000

# What a call may raise: Landfall's exceptions, and Python's own where an object is not even of the kind that a signature names.
ALLOWED = (lf.Error, TypeError, ValueError, OverflowError)


def capsule():
    """A capsule that was used up."""
    made = lf.zeros(2).__dlpack__(max_version=(1, 0))
    lf.from_dlpack(made)
    return made


def arrays(rng):
    """An array, or what is nearly one."""
    shape = tuple(rng.choice([0, 1, 1, 2, 3, 5]) for _ in range(rng.choice([0, 1, 1, 2, 2, 3, 4])))
    dtype = rng.choice(["f4", "f4", "f4", "f8", "f2", "i4", "i8", "u1", "?", "i1", "c8", ">f4"])
    array = (np.random.default_rng(rng.randrange(2**32)).integers(0, 4, shape)).astype(dtype)
    change = rng.randrange(12)
    if change == 0:
        array.flags.writeable = False
    elif change == 1:
        array = array.T
    elif change == 2 and array.ndim:
        array = array[:: rng.choice([2, -1])]
    elif change == 3:
        array = np.broadcast_to(array, (2, *array.shape))
    if rng.random() < 0.5:
        try:
            return lf.from_numpy(array)
        except lf.Error:
            return array
    return array


def objects(rng):
    """Anything."""
    return rng.choice([
        None, True, False, 0, 1, -1, 2, 7, 2**50, 2**63, -(2**63), 2**200, 0.0, -1.5, float("nan"), float("inf"), "", "f32",
        "cpu", "cuda", "cuda:99", "last", "f32[2, 3]", "f32[999999999999, 999999999999]", "\ud800", b"x", (), (1,), (0, 1), (-1, -2),
        (1, "b"), [1, 2], [[1.0], [2.0, 3.0]], {}, {"b": 1}, object(), int, np.float32(1.5), np.int64(2), np.bool_(True), np.float32,
        np.dtype("f8"), slice(None), slice(1, None, 2), slice(None, None, -1), ..., ("float32", (2, 2)), ("float32", -1),
        (2**62, 2**62, 4), (1,) * 9, capsule, lf.ops.exp, np.array(["b"]), np.array([None]), range(3), iter(()), 1j,
    ])  # fmt: skip


def value(rng):
    """Mostly an array."""
    return arrays(rng) if rng.random() < 0.7 else objects(rng)


def op_call(rng):
    """An op with about as many arguments as it takes."""
    op = getattr(lf.ops, rng.choice(lf.ops.__all__))
    parameters = op.__signature__.parameters.values()
    positional = sum(p.kind is not p.KEYWORD_ONLY for p in parameters)
    number = max(0, positional + rng.choice([0, 0, 0, 0, -1, 1]))
    args = [arrays(rng)] * number if rng.random() < 0.6 else [value(rng) for _ in range(number)]
    keywords = {
        p.name: objects(rng) for p in parameters if p.kind is p.KEYWORD_ONLY and p.name != "out" and rng.random() < 0.3
    }
    # What a keyword sizes is not made too large to compute.
    keywords = {k: v for k, v in keywords.items() if not (isinstance(v, int) and abs(v) > 100)}
    if rng.random() < 0.4:
        keywords["out"] = rng.choice([*args, value(rng), (value(rng), value(rng)), ()])
    if rng.random() < 0.02:
        keywords[rng.choice(["", "axes", "x", "dtype"])] = objects(rng)
    return op, args, keywords


def function_call(rng):
    """A function of the module."""
    name = rng.choice(["empty", "zeros", "tensor", "from_numpy", "from_dlpack", "counters", "synchronize"])
    args = [rng.choice([objects, arrays])(rng) for _ in range(rng.choice([1, 1, 1, 2, 3]))]
    return getattr(lf, name), args, {}


def method_call(rng):
    """A method or operator of a tensor."""
    tensor = lf.tensor(
        np.arange(6.0).reshape(rng.choice([(2, 3), (6,), (1, 6), (3, 2, 1)])), dtype=rng.choice(["f4", "i4", "bool"])
    )
    name = rng.choice([
        "reshape", "permute", "broadcast_to", "contiguous", "copy", "to", "astype", "numpy", "__array__", "tolist", "item", "__bool__",
        "__float__", "__int__", "__len__", "__getitem__", "__setitem__", "__repr__", "__hash__", "__eq__", "__lt__", "__add__",
        "__radd__", "__iadd__", "__sub__", "__mul__", "__truediv__", "__itruediv__", "__pow__", "__rpow__", "__matmul__", "__neg__",
        "__dlpack__", "__dlpack_device__", "__reduce__",
    ])  # fmt: skip
    args = [value(rng) for _ in range(rng.choice([0, 1, 1, 1, 2]))]
    keywords = {}
    if name == "__dlpack__":
        args = []
        keywords = {k: objects(rng) for k in ["stream", "max_version", "dl_device", "copy"] if rng.random() < 0.4}
        keywords.setdefault("max_version", (1, 0))
    return getattr(tensor, name), args, keywords


@pytest.mark.filterwarnings("ignore:Data type alias:DeprecationWarning")
@pytest.mark.parametrize("seed", range(4))
def test_random_calls_return_or_raise(seed):
    faulthandler.enable()
    rng = random.Random(seed)
    returned = 0
    for number in range(CALLS // 4):
        call, args, keywords = rng.choice([op_call, op_call, function_call, method_call])(rng)
        args = [a() if a is capsule else a for a in args]
        try:
            call(*args, **keywords)
            returned += 1
        except ALLOWED:
            pass
        except BaseException as error:
            raise AssertionError(f"call {number} of seed {seed}: {call} {args} {keywords}") from error
    # Enough calls are valid to reach the kernels.
    assert returned > CALLS // 4 // 12, returned
