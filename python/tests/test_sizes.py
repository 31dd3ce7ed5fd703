"""Sizes, places and counts at the ends of what numbers hold: calls are right with them or raise, and the process lives."""

import ctypes
import inspect
import itertools
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import landfall as lf

ENDS = [-(2**63), -(2**63) + 1, -(2**31), -1, 0, 1, 2**31, 2**32 + 1, 2**40, 2**48, 2**56, 2**62, 2**63 - 1]
BEYOND = [2**63, 2**64, 2**200, -(2**63) - 1]

ARRAYS = [
    np.ones((2, 4, 4), "f4"), np.ones((4, 4), "f4"), np.ones(4, "f4"), np.ones((2, 4, 4, 4), "f4"), np.zeros((2, 4), "i8"), np.zeros(4, "i8"),
    np.ones((2, 4, 4), "?"), np.zeros((2, 4, 4), "i8"), np.ones(8, "i8"), np.ones((), "f4"), np.array(1.0, "f8"),
]  # fmt: skip


def test_a_process_outlives_sizes_that_no_memory_holds():
    program = textwrap.dedent("""
        import resource, sys
        import numpy as np
        resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
        sys.path[:0] = [sys.argv[1]]
        import landfall as lf
        import test_sizes
        x = np.ones(2, "f4")
        for times in test_sizes.ENDS[6:]:
            for call in [lambda a: a.tile(axis=0, times=times), lambda a: a.repeat_interleave(axis=0, times=times),
                         lambda a: a.pad(axis=0, before=times, after=times)]:
                try:
                    lf.compile(call, x)
                except lf.OutOfMemoryError:
                    assert times < 2**56, times
                except lf.Error:
                    pass
                else:
                    raise AssertionError(f"{times} were had")
        print(test_sizes.eager_calls(), "calls")
    """)
    done = subprocess.run(
        [sys.executable, "-c", program, __file__.rsplit("/", 1)[0]], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0 and int(done.stdout.split()[0]) > 500, (done.returncode, done.stdout, done.stderr[-2000:])


def eager_calls():
    """Each op with every integer keyword at every end; the number of calls."""
    calls = 0
    for name in lf.ops.__all__:
        op = getattr(lf.ops, name)
        parameters = op.__signature__.parameters.values()
        keywords = [p for p in parameters if p.kind is p.KEYWORD_ONLY and p.name != "out" and whole(p)]
        positional = sum(p.kind is not p.KEYWORD_ONLY and p.kind is not p.VAR_POSITIONAL for p in parameters)
        args = next((a for a in itertools.product(ARRAYS, repeat=min(positional, 3)) if returns(op, *a)), None)
        if args is None:
            continue
        for keyword, end in itertools.product(keywords, ENDS + BEYOND):
            for given in [end, (end,), (end, end), ("float32", (end, end))]:
                returns(op, *args, **{keyword.name: given})
                calls += 1
    return calls


def whole(parameter):
    """Whether a keyword may be an integer, or several."""
    default = parameter.default
    return default is None or default is inspect.Parameter.empty or isinstance(default, (int, tuple, str)) and default is not True


def returns(call, *args, **keywords):
    """Whether it returns; what it raises is an error of the package, or Python's of a wrong class."""
    try:
        call(*args, **keywords)
    except (lf.Error, TypeError, OverflowError):
        return False
    return True


@pytest.mark.parametrize("end", ENDS + BEYOND)
def test_tensors_at_the_ends(end):
    x = lf.tensor(np.arange(12.0).reshape(3, 4))
    for key in [end, (0, end), slice(end, None), slice(None, end), slice(None, None, max(end, 1)), (..., slice(end, end))]:
        want = None
        try:
            want = x.numpy()[key]
        # numpy takes no integer of more than 64 bits.
        except (IndexError, OverflowError):
            with pytest.raises(IndexError):
                x[key]
            continue
        assert np.array_equal(np.asarray(x[key]), want), key
        assert np.array_equal(lf.compile(lambda a, key=key: a[key], x)(x).numpy(), want), key
    for shape in [(end,), (end, 12), (end, -1), (end, 0), (end, end, 0), (-1, end, end)]:
        for call in [x.reshape, lf.zeros((0, 3)).reshape]:
            returns(call, *shape)
        for call in [x.broadcast_to, lf.tensor([1.0]).broadcast_to]:
            if returns(call, shape) and abs(end) > 2**40:
                view = call(shape)
                assert view.shape == shape
                if 0 not in shape:
                    with pytest.raises(lf.OutOfMemoryError):
                        lf.ops.copy(view)
                    with pytest.raises(lf.OutOfMemoryError):
                        view.tolist()
    for shape in [(end,), (end, end), (end, end, 0), (0, end, end)]:
        if abs(end) > 2**40:
            for make in [lf.empty, lf.zeros]:
                with pytest.raises((lf.Error, OverflowError)):
                    make(shape)
    returns(x.permute, end, 0)
    returns(x.permute, 0, end)


class Tensor(ctypes.Structure):
    """`DLTensor`."""

    _fields_ = [
        ("data", ctypes.c_void_p), ("kind", ctypes.c_int32), ("ordinal", ctypes.c_int32), ("rank", ctypes.c_int32),
        ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p), ("byte_offset", ctypes.c_uint64), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
    ]  # fmt: skip


def capsule(shape, strides, fields=None, **more):
    """A capsule of a library that says this of its memory, and what must live as long."""
    list_of = lambda numbers: (ctypes.c_int64 * max(len(numbers), 1))(*numbers)  # noqa: E731
    held = [np.arange(16.0, dtype="f4"), list_of(shape), list_of(strides or ())]
    address = ctypes.addressof
    said = dict(data=held[0].ctypes.data, kind=1, rank=len(shape), code=2, bits=32, lanes=1, shape=address(held[1]))
    said["strides"] = address(held[2]) if strides else None
    held.append(Tensor(**(said | (fields or {}) | more)))
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return new(address(held[-1]), b"dltensor", None), held


@pytest.mark.parametrize(
    "shape, strides, fields",
    [
        ((2**62, 4), None, {}),
        ((2**40, 2**40), None, {}),
        ((2**40, 2**40, 0), None, {}),
        ((2, 2), (2**62, 1), {}),
        ((2, 2), (2**63 - 1, 2**63 - 1), {}),
        ((3,), (2**61,), {}),
        ((2, 2), (-2, 1), {}),
        ((2,), (-(2**63),), {}),
        ((-1,), None, {}),
        ((-(2**63), 0), None, {}),
        ((1,) * 9, None, {}),
        ((2,), None, dict(rank=-1)),
        ((2,), None, dict(rank=2**31 - 1)),
        ((2,), None, dict(shape=None)),
        ((2,), None, dict(data=None)),
        ((2,), None, dict(data=None, byte_offset=64)),
        ((2,), None, dict(byte_offset=2**64 - 64)),
        ((2,), None, dict(data=2**64 - 4)),
        ((2,), None, dict(lanes=4)),
        ((2,), None, dict(bits=2)),
    ],
)
def test_what_other_libraries_say_is_checked(shape, strides, fields):
    given, held = capsule(shape, strides, fields)
    with pytest.raises(lf.Error):
        lf.from_dlpack(given)
    del held


def test_what_other_libraries_may_say_is_taken():
    given, held = capsule((2, 3), (1, 2), byte_offset=4)
    assert lf.from_dlpack(given).tolist() == [[1.0, 3.0, 5.0], [2.0, 4.0, 6.0]]
    # Strides of axes of one element, or of no elements at all, lead nowhere.
    for shape, strides in [((1, 2), (-(2**63), 1)), ((2**40, 0), (2**62, -1)), ((1,), (2**63 - 1,))]:
        given, held = capsule(shape, strides)
        assert lf.from_dlpack(given).shape == shape
    del held
