"""torch tensors on a GPU: shared memory, destinations, streams. Skipped where there is none."""

import pickle

import numpy as np
import pytest

import landfall as lf
from dtypes import DTYPES

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("torch sees no GPU", allow_module_level=True)

TORCH_DTYPES = [getattr(torch, name) for name in [*DTYPES, "bfloat16"]]

# Clock cycles for which a producer or consumer is late: some 50 ms.
LATE = 100_000_000


def waits():
    """Copies from or to the host, and waits, that the GPU has counted."""
    counted = lf.counters("cuda")
    return counted["host_transfers"], counted["synchronizations"]


@pytest.mark.parametrize("dtype", TORCH_DTYPES, ids=str)
def test_there_and_back_is_the_same_memory(dtype):
    lf.counters("cuda")
    for x in [
        torch.arange(6, device="cuda").reshape(2, 3).to(dtype),
        torch.ones(4, 3, device="cuda").to(dtype).t()[:, ::2],
    ]:
        before = waits()
        tensor = lf.from_dlpack(x)
        assert (tensor.device, tensor.dtype, tensor.shape) == (
            "cuda:0",
            str(dtype).removeprefix("torch."),
            tuple(x.shape),
        )
        back = torch.from_dlpack(tensor)
        assert back.data_ptr() == tensor.data_ptr == x.data_ptr() and back.stride() == x.stride()
        assert waits() == before
        assert torch.equal(back, x)


def test_results_land_in_torch_memory_without_waiting():
    x = torch.randn(64, 128, device="cuda")
    y = torch.empty_like(x)
    lf.ops.softmax(x, axis=-1, out=y)
    before = waits()
    assert lf.ops.softmax(x, axis=-1, out=y) is y
    lf.ops.relu(x, out=x)
    assert waits() == before
    assert bool((x >= 0).all())
    torch.testing.assert_close(y.sum(-1), torch.ones(64, device="cuda"))


@pytest.mark.parametrize("side", [False, True], ids=["default stream", "side stream"])
def test_work_is_ordered_with_late_producers_and_consumers(side):
    stream = torch.cuda.Stream() if side else torch.cuda.current_stream()
    with torch.cuda.stream(stream):
        for round in range(5):
            x, y = torch.zeros(1 << 20, device="cuda"), torch.zeros(1 << 20, device="cuda")
            torch.cuda._sleep(LATE)
            x.fill_(round)
            lf.ops.affine(x, mul=2.0, add=1.0, out=y)
            # Read before, and overwritten after, what was issued between.
            z = y.clone()
            torch.cuda._sleep(LATE)
            x.fill_(-1)
            assert z.min().item() == z.max().item() == 2 * round + 1


def test_tensors_of_the_engine_reach_a_late_consumer():
    for _ in range(5):
        made = lf.ops.exp(lf.zeros(1 << 20, device="cuda"))
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            torch.cuda._sleep(LATE)
            x = torch.from_dlpack(made)
            del made
            # What reuses the memory comes behind the consumer's work.
            total = x.sum()
            del x
        lf.ops.fill(spec=("float32", 1 << 20), value=9.0, out=lf.empty(1 << 20, device="cuda"))
        torch.cuda.current_stream().wait_stream(stream)
        assert total.item() == 1 << 20


def test_memory_goes_back_in_stream_order():
    for _ in range(20):
        x = torch.full((1 << 20,), 3.0, device="cuda")
        y = lf.ops.affine(x, mul=1.0, add=0.0)
        del x
        torch.full((1 << 20,), 7.0, device="cuda")
        assert lf.ops.max(y).item() == lf.ops.min(y).item() == 3.0


def test_copies_between_devices_are_asked_for():
    x = np.arange(6, dtype="f4").reshape(2, 3)
    there = lf.tensor(x, device="cuda")
    assert there.device == "cuda:0" and there.to("cpu").tolist() == there.tolist() == x.tolist()
    assert pickle.loads(pickle.dumps(there)).device == "cuda:0"
    with pytest.raises(lf.DeviceError, match="to\\("):
        there.numpy()
    with pytest.raises(lf.DeviceError):
        lf.ops.add(there, x)
    with pytest.raises(lf.DeviceError):
        lf.ops.exp(there, out=np.empty_like(x))
    assert lf.from_dlpack(there.__dlpack__(max_version=(1, 0), dl_device=(1, 0))).tolist() == x.tolist()


def test_overlap_is_found():
    x = torch.zeros(10, device="cuda")
    with pytest.raises(lf.AliasError):
        lf.ops.neg(x[:8], out=x[2:])


def test_an_index_out_of_range_is_said_when_the_result_is_read():
    rows = lf.ops.gather(torch.zeros(3, 2, device="cuda"), torch.tensor([7], device="cuda"), axis=0)
    with pytest.raises(lf.IndexOutOfRangeError, match="out of range"):
        rows.tolist()


def test_a_captured_call_reports_an_index_out_of_range():
    """A graph of torch's that replays a call: `synchronize` says what a replay found, however many calls were captured."""
    x, index = torch.arange(6.0, device="cuda"), torch.tensor([1, 2], device="cuda")
    out = torch.empty(2, device="cuda")
    lf.ops.gather(x, index, axis=0, out=out)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        # More than there are records of single launches.
        for _ in range(1500):
            lf.ops.gather(x, index, axis=0, out=out)
    graph.replay()
    torch.cuda.synchronize()
    lf.synchronize("cuda")
    assert out.tolist() == [1.0, 2.0]
    index[1] = 99
    graph.replay()
    torch.cuda.synchronize()
    with pytest.raises(lf.IndexOutOfRangeError, match="index 99"):
        lf.synchronize("cuda")
    index[1] = 3
    graph.replay()
    torch.cuda.synchronize()
    lf.synchronize("cuda")
    assert out.tolist() == [1.0, 3.0]
