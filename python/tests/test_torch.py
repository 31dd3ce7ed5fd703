"""torch tensors: shared memory both ways, destinations, and what is refused."""

import numpy as np
import pytest

import landfall as lf
from dtypes import DTYPES

torch = pytest.importorskip("torch")

TORCH_DTYPES = [getattr(torch, name) for name in [*DTYPES, "bfloat16"]]


@pytest.mark.parametrize("dtype", TORCH_DTYPES, ids=str)
def test_there_and_back_is_the_same_memory(dtype):
    before = lf.counters()
    for x in [torch.arange(6).reshape(2, 3).to(dtype), torch.arange(12).reshape(4, 3).to(dtype).t()[:, ::2]]:
        tensor = lf.from_dlpack(x)
        assert tensor.dtype == str(dtype).removeprefix("torch.") and tensor.shape == tuple(x.shape)
        back = torch.from_dlpack(tensor)
        assert back.data_ptr() == tensor.data_ptr == x.data_ptr()
        assert back.dtype == dtype and back.stride() == x.stride() and torch.equal(back, x)
    after = lf.counters()
    assert (after["host_transfers"], after["synchronizations"]) == (
        before["host_transfers"],
        before["synchronizations"],
    )


def test_results_land_in_torch_memory():
    x = torch.randn(5, 7)
    y = torch.empty(5, 7)
    assert lf.ops.softmax(x, axis=-1, out=y) is y
    torch.testing.assert_close(y, torch.softmax(x, -1))
    # A strided destination, and arguments of three libraries.
    wide = torch.zeros(5, 14)
    lf.ops.add(x, np.ones((5, 7), np.float32), out=wide[:, ::2])
    torch.testing.assert_close(wide[:, ::2], x + 1)
    assert not wide[:, 1::2].any()
    pointer = x.data_ptr()
    want = x.relu()
    lf.ops.relu(x, out=x)
    assert x.data_ptr() == pointer and torch.equal(x, want)


def test_overlapping_views_are_found():
    x = torch.arange(10.0)
    with pytest.raises(lf.AliasError, match="bytes 8..40 and 0..32"):
        lf.ops.neg(x[:8], out=x[2:])
    # Two libraries, one memory.
    with pytest.raises(lf.AliasError):
        lf.ops.neg(x.numpy()[:8], out=lf.from_dlpack(x)[1:9])
    assert x.tolist() == list(range(10))


def test_scalars_and_empty_tensors():
    assert lf.from_dlpack(torch.tensor(2.5)).item() == 2.5
    assert lf.ops.exp(torch.zeros(0, 3)).shape == (0, 3)


def test_what_would_lose_a_gradient_or_has_no_memory_is_refused():
    with pytest.raises(lf.ExchangeError, match="detach"):
        lf.ops.exp(torch.nn.Parameter(torch.ones(3)))
    negated = torch.tensor([1 + 2j]).conj().imag
    assert negated.is_neg()
    with pytest.raises(lf.ExchangeError, match="resolve_neg"):
        lf.ops.exp(negated)
    assert lf.ops.copy(negated.resolve_neg()).tolist() == [-2.0]
    with pytest.raises(lf.DTypeError, match="complex"):
        lf.ops.exp(torch.ones(2, dtype=torch.complex64))
    with pytest.raises((lf.Error, BufferError, RuntimeError, ValueError)):
        lf.ops.exp(torch.ones(2, device="meta"))
    with pytest.raises((lf.Error, BufferError, RuntimeError, NotImplementedError)):
        lf.ops.exp(torch.eye(3).to_sparse())


def test_shared_memory_outlives_either_side():
    tensor = lf.from_dlpack(torch.full((1000,), 3.0))
    back = torch.from_dlpack(tensor)
    del tensor
    assert back.sum().item() == 3000.0
