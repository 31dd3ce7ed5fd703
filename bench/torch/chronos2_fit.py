"""Steps a second and memory of a Chronos-2 that is trained further, by `Chronos.fit` and by its authors' model in PyTorch, on one GPU.

    python bench/torch/chronos2_fit.py [DTYPES ROWS] > records.csv      (needs torch, chronos-forecasting and landfall-ml)

A model of Chronos-2's size with random weights, batches of 256 series, 64 rows ahead; all weights are trained. Theirs as their `fit` sets
the Trainer: AdamW in one kernel, TF32 products in float32 (rows tf32 and float32, of which ours computes the second strictly), automatic
casts in bfloat16, and the same rows of every batch on the device beforehand; ours draws and moves a batch for each step. Memory is what
the driver says is taken on the device.
"""

import sys
import tempfile
import time

import numpy as np
import torch
from chronos2 import BATCH, HORIZON, LARGE, saved, waves
from landfall.chronos import Chronos

WARM, STEPS = 10, 20


def taken():
    torch.cuda.synchronize()
    free, total = torch.cuda.mem_get_info()
    return total - free


def ours(folder, values, rows, dtype):
    times = []
    before = taken()
    Chronos(folder, device="cuda", dtype="float32" if dtype == "tf32" else dtype).fit(
        list(values),
        HORIZON,
        steps=WARM + STEPS,
        every=WARM,
        batch=BATCH,
        context=rows,
        shortest=rows,
        dtype=dtype,
        progress=lambda point: times.append((point["step"], time.perf_counter(), point["losses"], taken())),
    )
    (first, start, *_), (last, end, losses, memory) = times[0], times[-1]
    return (last - first) / (end - start), memory - before, losses[-1]


def theirs(model, values, rows, dtype):
    torch.backends.cuda.matmul.allow_tf32 = True
    before = taken()
    model = model.cuda().float().train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6, weight_decay=0.0, fused=True)
    data = torch.tensor(values, dtype=torch.float32, device="cuda")
    patches = HORIZON // 16
    times = []
    for step in range(WARM + STEPS):
        if step == WARM:
            torch.cuda.synchronize()
            times.append(time.perf_counter())
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=dtype == "bfloat16"):
            batch = data[torch.randperm(len(data), device="cuda")[:BATCH]]
            loss = model(
                context=batch[:, :rows], future_target=batch[:, rows : rows + HORIZON], num_output_patches=patches
            ).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        value = loss.item()
    times.append(time.perf_counter())
    memory = taken() - before
    model.cpu()
    del optimizer, data, loss
    torch.cuda.empty_cache()
    return STEPS / (times[1] - times[0]), memory, value


def main(dtypes="bfloat16,tf32,float32", lengths="512,2048"):
    print("dtype,rows,what,of,value,beside", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        model = saved(folder, LARGE, "cpu")
        for dtype in dtypes.split(","):
            for rows in map(int, lengths.split(",")):
                values = waves(2 * BATCH, rows + HORIZON)
                mine, beside = ours(folder, values, rows, dtype), theirs(model, values, rows, dtype)
                for what, of, a, b in zip(("steps a second", "GB", "loss"), (1, 1e9, 1), mine, beside, strict=True):
                    print(f"{dtype},{rows},{what},landfall,{a / of:.4g},{b / of:.4g}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
