"""Memory shared with other libraries by DLPack: capsules, flags, versions, lifetimes."""

import ctypes
import gc
import threading
import weakref

import numpy as np
import pytest

import landfall as lf

NEWEST = {"max_version": (1, 3)}


class Legacy:
    """An array of a library that speaks DLPack before 1.0."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, stream=None):
        return self.array.__dlpack__()

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def test_capsules_have_the_version_that_consumers_ask_for():
    tensor = lf.zeros(3)
    assert 'object "dltensor_versioned"' in repr(tensor.__dlpack__(**NEWEST))
    assert tensor.__dlpack_device__() == (1, 0)
    for old in [{}, {"max_version": None}, {"max_version": (0, 8)}]:
        with pytest.raises(BufferError, match=r"max_version=\(1, 0\)"):
            tensor.__dlpack__(**old)


def test_a_capsule_is_good_for_one_import():
    tensor = lf.tensor([1.0, 2.0])
    capsule = tensor.__dlpack__(**NEWEST)
    taken = lf.from_dlpack(capsule)
    assert (taken.data_ptr, taken.tolist()) == (tensor.data_ptr, [1.0, 2.0])
    assert 'object "used_dltensor_versioned"' in repr(capsule)
    with pytest.raises(lf.ExchangeError, match="used already"):
        lf.from_dlpack(capsule)

    class Dead:
        __dlpack__ = staticmethod(lambda **_: capsule)
        __dlpack_device__ = staticmethod(lambda: (1, 0))

    with pytest.raises(BufferError, match="used already"):
        lf.ops.exp(Dead())
    foreign = ctypes.pythonapi.PyCapsule_New
    foreign.restype, foreign.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    with pytest.raises(lf.ExchangeError, match="no DLPack capsule"):
        lf.from_dlpack(foreign(1, b"something else", None))


def test_a_tensor_can_be_exported_many_times():
    tensor = lf.tensor([1.0, 2.0])
    arrays = [np.from_dlpack(tensor) for _ in range(5)]
    first = arrays.pop()
    del tensor, arrays
    assert first.tolist() == [1.0, 2.0]


def test_arguments_of_dlpack_are_honoured():
    tensor = lf.tensor([1.0, 2.0])
    copy = lf.from_dlpack(tensor.__dlpack__(**NEWEST, copy=True))
    assert copy.data_ptr != tensor.data_ptr and copy.tolist() == [1.0, 2.0]
    assert lf.from_dlpack(tensor.__dlpack__(**NEWEST, dl_device=(1, 0), copy=False)).data_ptr == tensor.data_ptr
    with pytest.raises(BufferError, match=r"device \(2, 0\)"):
        tensor.__dlpack__(**NEWEST, dl_device=(2, 0))
    with pytest.raises(BufferError, match="no stream 3"):
        tensor.__dlpack__(**NEWEST, stream=3)


def test_what_is_read_only_stays_so_both_ways():
    x = np.arange(3.0)
    x.flags.writeable = False
    tensor = lf.from_numpy(x)
    assert tensor.readonly and not tensor.numpy().flags.writeable and not np.from_dlpack(tensor).flags.writeable
    assert lf.from_dlpack(tensor.__dlpack__(**NEWEST)).readonly
    for target in [x, tensor, tensor[1:]]:
        with pytest.raises(lf.ReadOnlyError, match="read-only"):
            lf.ops.exp(target, out=target)
    with pytest.raises(ValueError):
        tensor[0] = 1
    with pytest.raises(lf.ReadOnlyError):
        tensor += 1
    assert x.tolist() == [0.0, 1.0, 2.0]
    # It may be read.
    assert lf.ops.add(x, tensor).tolist() == [0.0, 2.0, 4.0]


def test_legacy_producers_are_read_and_never_written():
    x = np.arange(3.0)
    old = Legacy(x)
    tensor = lf.from_dlpack(old)
    assert tensor.data_ptr == x.ctypes.data and tensor.readonly
    assert lf.ops.neg(old).tolist() == [0.0, -1.0, -2.0]
    with pytest.raises(lf.ReadOnlyError):
        lf.ops.neg(x, out=old)


def test_what_cannot_be_shared_is_refused_by_name():
    x = np.arange(12.0).reshape(3, 4)
    records = np.zeros(3, np.dtype([("a", "f8"), ("b", "u1")]))
    for array, error, text in [
        (x[::-1], BufferError, "ascontiguousarray"),
        (x[:, ::-2], BufferError, "negative stride"),
        (x.astype(">f8"), BufferError, "newbyteorder"),
        (np.zeros(17, "u1")[1:].view("f8"), BufferError, "not aligned"),
        (records["a"], BufferError, "copy"),
        (records, TypeError, "astype"),
        (x.astype("c16"), TypeError, "complex128"),
        (x.astype("i1"), TypeError, "int8"),
        (x.astype("u2"), TypeError, "uint16"),
        (x.astype("M8[s]"), TypeError, r"datetime64\[s\]"),
        (np.array(["a"]), TypeError, "<U1"),
        (np.array([None]), TypeError, "object"),
        (np.ma.masked_array([1.0, 2.0], [True, False]), BufferError, "filled"),
        (np.zeros((1,) * 9), ValueError, "at most 8 axes"),
    ]:
        with pytest.raises(error, match=text) as caught:
            lf.from_numpy(array)
        assert isinstance(caught.value, lf.Error)
        with pytest.raises(lf.Error, match=text):
            lf.ops.copy(array)


def resident():
    """Bytes of the process in main memory."""
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * 4096


def test_ten_to_the_five_capsules_leave_memory_flat():
    """Made and dropped, imported, exported twice, in threads: owners and deleters run where the last view goes."""
    array = np.arange(64.0)
    tensor = lf.from_numpy(array)
    failures = []

    def work(times):
        try:
            for i in range(times):
                tensor.__dlpack__(**NEWEST)  # dropped unused
                first, second = np.from_dlpack(tensor), lf.from_dlpack(tensor.__dlpack__(**NEWEST))
                assert first[5] == 5.0 and second.data_ptr == tensor.data_ptr
                fresh = lf.from_numpy(np.full(1000, float(i)))
                view = np.from_dlpack(fresh[1:])
                del fresh
                assert view[-1] == i
        except BaseException as error:
            failures.append(error)

    def run(times):
        threads = [threading.Thread(target=work, args=(times,)) for _ in range(4)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        gc.collect()
        assert not failures, failures

    run(500)
    before = resident()
    run(25_000 // 4)
    grown = resident() - before
    # Four capsules each round: 10^5 of them, and 25,000 arrays of 8 KB.
    assert grown < 4 << 20, f"{grown} bytes more after 10^5 capsules"


class Modern(Legacy):
    """An array that is taken in by its `__dlpack__`."""

    def __dlpack__(self, **keywords):
        return self.array.__dlpack__(**keywords)


@pytest.mark.parametrize("owner", [lambda x: x, Modern, Legacy], ids=["array", "capsule", "legacy capsule"])
def test_deleters_run_without_the_interpreters_lock(owner):
    array = np.arange(5.0)
    gone = weakref.ref(array)
    capsule = lf.from_dlpack(owner(array)).__dlpack__(**NEWEST)
    del array
    api = ctypes.pythonapi
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    api.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
    managed = api.PyCapsule_GetPointer(capsule, b"dltensor_versioned")
    api.PyCapsule_SetName(capsule, used := b"used_dltensor_versioned")
    # The third field of DLManagedTensorVersioned. A foreign function is called without the lock.
    deleter = ctypes.c_void_p.from_address(managed + 16).value
    assert gone() is not None
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(deleter)(managed)
    # References that went without the lock are given up at the next call.
    lf.zeros(())
    assert gone() is None
    del capsule, used


def test_views_outlive_their_thread_and_go_in_another():
    held = []
    thread = threading.Thread(target=lambda: held.append(lf.from_numpy(np.arange(4.0))))
    thread.start()
    thread.join()
    assert held[0].tolist() == [0.0, 1.0, 2.0, 3.0]
    other = threading.Thread(target=held.clear)
    other.start()
    other.join()
    assert not held
