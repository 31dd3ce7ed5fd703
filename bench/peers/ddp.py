"""PyTorch's DistributedDataParallel on the step rows, for `landfall-bench` under torchrun to be compared with:

    torchrun --standalone --nproc-per-node 2 bench/peers/ddp.py --dtypes bf16 --rows wide,deep,cross-asset

Each rank trains on the row's batch. Rank 0 prints a line of JSON for each row and mode: microseconds of a step, the median of the samples
of the slowest rank, and the samples that all ranks train on in a second.
"""

import argparse
import json
import os
import statistics
import sys
import time

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda")
parser.add_argument("--dtypes", default="bf16")
parser.add_argument("--rows", default="wide,deep,cross-asset")
parser.add_argument("--modes", default="eager,compile")
parser.add_argument("--samples", type=int, default=9)
parser.add_argument("--seconds", type=float, default=0.5)
asked = parser.parse_args()
out = os.fdopen(os.dup(1), "w", buffering=1)
# The peer reads its own command line when it is imported.
sys.argv = [sys.argv[0], "--device", asked.device, "--threads", "1"]

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

import rows  # noqa: E402
import torch_peer  # noqa: E402

local = int(os.environ["LOCAL_RANK"])
if asked.device == "cuda":
    torch.cuda.set_device(local)
dist.init_process_group("nccl" if asked.device == "cuda" else "gloo")
rank, size = dist.get_rank(), dist.get_world_size()
devices = [local] if asked.device == "cuda" else None
torch_peer.together = lambda model: DistributedDataParallel(model, device_ids=devices, gradient_as_bucket_view=True)


def wait():
    """Until all ranks are here, and their devices idle."""
    if asked.device == "cuda":
        torch.cuda.synchronize()
    dist.barrier()
    if asked.device == "cuda":
        torch.cuda.synchronize()


def seconds(step, steps):
    """Seconds of so many steps on the slowest rank."""
    wait()
    start = time.perf_counter()
    for _ in range(steps):
        step()
    if asked.device == "cuda":
        torch.cuda.synchronize()
    taken = torch.tensor(time.perf_counter() - start, device=asked.device)
    dist.all_reduce(taken, op=dist.ReduceOp.MAX)
    return taken.item()


for row in asked.rows.split(","):
    for dtype in asked.dtypes.split(","):
        for mode in asked.modes.split(","):
            torch_peer.allow_tf32(dtype == "tf32")
            step, _ = torch_peer.training_step(rows.STEPS[row], dtype, mode)
            for _ in range(8):
                step()
            steps, taken = 1, seconds(step, 1)
            while taken < asked.seconds / 4:
                steps *= 2
                taken = seconds(step, steps)
            steps = max(1, round(asked.seconds / taken * steps))
            samples = [seconds(step, steps) / steps * 1e6 for _ in range(asked.samples)]
            us = statistics.median(samples)
            if rank == 0:
                line = dict(row=row, dtype=dtype, peer=f"ddp-{mode}", ranks=size, us=us, least_us=min(samples))
                line["samples_per_s"] = size * rows.STEPS[row]["batch"] / us * 1e6
                print(json.dumps(line), file=out, flush=True)
            del step
            if asked.device == "cuda":
                torch.cuda.empty_cache()
dist.destroy_process_group()
