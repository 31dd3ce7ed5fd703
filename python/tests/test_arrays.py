"""`landfall.Tensor`: its memory, views, elements and operators."""

import pickle

import numpy as np
import pytest

import landfall as lf
from dtypes import DTYPES


def transfers():
    """Copies and waits that the CPU has counted."""
    counted = lf.counters()
    return counted["host_transfers"], counted["synchronizations"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3), (2, 0, 3), (1, 1, 4), (2, 1, 2, 1, 2, 1, 2, 1)])
def test_numpy_there_and_back_is_the_same_memory(dtype, shape):
    x = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
    before = transfers()
    for tensor in [lf.from_numpy(x), lf.from_dlpack(x)]:
        assert (tensor.shape, tensor.dtype, tensor.device) == (shape, dtype, "cpu")
        for back in [tensor.numpy(), np.asarray(tensor), np.from_dlpack(tensor)]:
            assert back.dtype == x.dtype and back.shape == shape
            assert x.size == 0 or back.ctypes.data == tensor.data_ptr == x.ctypes.data
            np.testing.assert_array_equal(back, x)
    assert transfers() == before


def test_strided_numpy_views_are_the_same_memory():
    x = np.arange(24.0).reshape(2, 3, 4)
    for view in [x.T, x[:, ::2], x[1:, :, 1::2], x[:, None, 1], np.broadcast_to(x[:1], x.shape)]:
        tensor = lf.from_numpy(view)
        assert tensor.data_ptr == view.ctypes.data
        np.testing.assert_array_equal(tensor.numpy(), view)
        assert tensor.tolist() == view.tolist()
        assert tensor.readonly is not view.flags.writeable


def test_bfloat16_of_ml_dtypes_is_shared_by_its_pointer():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = np.arange(6).reshape(2, 3).T.astype(ml_dtypes.bfloat16)
    tensor = lf.from_numpy(x)
    back = tensor.numpy()
    assert tensor.dtype == "bfloat16" and back.dtype == x.dtype
    assert back.ctypes.data == tensor.data_ptr == x.ctypes.data
    np.testing.assert_array_equal(back, x)
    out = np.zeros_like(x)
    assert lf.ops.add(x, x, out=out) is out
    np.testing.assert_array_equal(out.astype("f4"), 2 * x.astype("f4"))
    assert np.asarray(lf.ops.exp(x)).dtype == x.dtype


def test_memory_lives_as_long_as_any_view_of_it():
    tensor = lf.from_numpy(np.full(1000, 7.0))[10:]
    array = tensor.numpy()
    del tensor
    again = lf.from_dlpack(np.from_dlpack(lf.from_numpy(array)))
    del array
    assert again.tolist() == [7.0] * 990


def test_views_by_index_are_those_of_numpy():
    x = np.arange(60).reshape(3, 4, 5)
    tensor = lf.from_numpy(x)
    keys = [
        0, -1, (1, 2, 3), (slice(None), 1), (slice(1, None), slice(None, None, 2)), (..., 2), (0, ..., -1), None,
        (None, 1, None), (slice(5, 9),), (slice(2, 1), 3), ..., (), (np.int64(2),), (slice(-2, None), slice(1, -1), slice(0, 5, 3)),
    ]  # fmt: skip
    for key in keys:
        np.testing.assert_array_equal(tensor[key].numpy(), x[key])
        assert x[key].size == 0 or np.shares_memory(tensor[key].numpy(), x)
    np.testing.assert_array_equal(tensor.reshape(4, -1).numpy(), x.reshape(4, -1))
    np.testing.assert_array_equal(tensor.reshape((60,)).numpy(), x.reshape(60))
    np.testing.assert_array_equal(tensor.permute(1, -1, 0).numpy(), x.transpose(1, 2, 0))
    np.testing.assert_array_equal(tensor.T.numpy(), x.T)
    np.testing.assert_array_equal(
        tensor[:, :1].broadcast_to((2, 3, 4, 5)).numpy(), np.broadcast_to(x[:, :1], (2, 3, 4, 5))
    )
    assert [row.tolist() for row in tensor] == x.tolist()
    assert len(tensor) == 3


def test_assignment_to_an_index_writes_the_memory():
    x = np.zeros((3, 4), np.float32)
    tensor = lf.from_numpy(x)
    tensor[1] = np.arange(4, dtype=np.float32)
    tensor[:, 0] = 9
    tensor[2, 1:3] += 0.5
    assert x.tolist() == [[9, 0, 0, 0], [9, 1, 2, 3], [9, 0.5, 0.5, 0]]


def test_what_makes_tensors():
    assert lf.tensor([[1, 2], [3, 4]]).dtype == "int64"
    assert lf.tensor([1.5]).dtype == "float32"
    assert lf.tensor([1, 2], dtype="bf16").tolist() == [1.0, 2.0]
    assert lf.tensor(np.arange(3, dtype="i4"), dtype=np.float64).tolist() == [0.0, 1.0, 2.0]
    assert lf.tensor(2**62 + 1).item() == 2**62 + 1
    assert lf.zeros((2, 3), dtype=np.dtype("i8")).tolist() == [[0] * 3] * 2
    assert lf.empty(4, dtype="bool").shape == (4,)
    x = np.ones(3)
    copy = lf.tensor(x)
    x[:] = 2
    assert copy.tolist() == [1.0] * 3
    assert lf.from_dlpack(x, copy=True).data_ptr != x.ctypes.data


def test_elements_as_numbers():
    assert lf.tensor(3).item() == int(lf.tensor([3])) == 3
    assert float(lf.tensor([[2.5]])) == 2.5
    assert lf.tensor(True).item() is True and bool(lf.tensor([0.0])) is False
    with pytest.raises(lf.ShapeError, match="2 elements"):
        bool(lf.zeros(2))
    with pytest.raises(TypeError, match="no length"):
        len(lf.tensor(1))


def test_operators_are_the_ops():
    x, y = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32), np.array([2.0, 0.5], np.float32)
    a, b = lf.from_numpy(x), lf.from_numpy(y)
    for got, want in [
        (a + b, x + y), (a - 1, x - 1), (1 - a, 1 - x), (a * y, x * y), (y * a, y * x), (a / b, x / y), (2 / a, 2 / x),
        (a**2, x**2), (2**a, 2**x), (-a, -x), (abs(-a), x), (a @ a, x @ x), (x @ a, x @ x), (np.float32(2) * a, 2 * x),
        (a < 3, x < 3), (a == y, x == y), (a != a, x != x), (a >= b, x >= y),
    ]:  # fmt: skip
        assert isinstance(got, lf.Tensor)
        np.testing.assert_array_equal(got.numpy(), want)
    held = a
    a += 1
    a *= b
    assert a is held
    np.testing.assert_array_equal(a.numpy(), (np.array([[1, 2], [3, 4]]) + 1) * y)
    np.testing.assert_array_equal(x, a.numpy())
    assert (a == None) is False  # noqa: E711
    with pytest.raises(TypeError):
        a + "one"
    with pytest.raises(TypeError):
        a + None
    assert {a: 1}[a] == 1


def test_numpy_functions_take_tensors():
    tensor = lf.tensor([1.0, 4.0])
    assert np.sqrt(tensor).tolist() == [1.0, 2.0]
    assert np.asarray(tensor, dtype="f8").dtype == "f8"
    assert np.array(tensor).ctypes.data != tensor.data_ptr


@pytest.mark.parametrize("dtype", [*DTYPES, "bfloat16"])
def test_pickling_copies_the_contents(dtype):
    tensor = lf.tensor([[0, 1, 2], [3, 4, 5]], dtype=dtype)[:, ::2]
    back = pickle.loads(pickle.dumps(tensor))
    assert (back.dtype, back.shape, back.tolist()) == (tensor.dtype, tensor.shape, tensor.tolist())
    assert back.data_ptr != tensor.data_ptr


def test_text_shows_elements_dtype_and_device():
    text = "Tensor([[1.000000 2.000000]\n        [3.000000 4.000000]], dtype=float32, device=cpu)"
    assert repr(lf.tensor([[1.0, 2.0], [3.0, 4.0]])) == text
    assert repr(lf.zeros((0, 3), "i4")) == "Tensor([], shape=(0, 3), dtype=int32, device=cpu)"
