"""Calls from Python beside torch's, in one run: an eager call with a destination, and a whole program.

    python bench/python/calls.py [--device cuda] [--csv FILE]

Eager calls are timed as a host sees them: a batch of calls is issued, the device is waited for, and the time is divided by their
number. The two libraries alternate; medians of the rounds are shown.
"""

import argparse
import csv
import statistics
import time

import landfall as lf
import landfall.torch as lt
import torch


def per_call(run, calls, wait):
    """Microseconds of a call."""
    wait()
    start = time.perf_counter()
    for _ in range(calls):
        run()
    wait()
    return (time.perf_counter() - start) / calls * 1e6


def rows(device):
    """The rows: name, Landfall's call, torch's call."""
    x, y, out = (torch.randn(1024, device=device) for _ in range(3))
    yield "add out= f32[1024]", lambda: lf.ops.add(x, y, out=out), lambda: torch.add(x, y, out=out)
    mine = [lf.from_dlpack(t) for t in (x, y, out)]
    add, (a, b, c) = lf.ops.add, mine
    yield "add out= f32[1024], landfall.Tensor", lambda: add(a, b, out=c), lambda: torch.add(x, y, out=out)
    s, t = (torch.randn(256, 64, device=device) for _ in range(2))
    yield (
        "softmax out= f32[256, 64]",
        lambda: lf.ops.softmax(s, axis=-1, out=t),
        lambda: torch.softmax(s, -1, out=t),
    )
    p, q, r = (torch.randn(64, 64, device=device) for _ in range(3))
    yield "matmul out= f32[64, 64]", lambda: lf.ops.matmul(p, q, out=r), lambda: torch.matmul(p, q, out=r)

    def layers(x, weight, bias):
        for _ in range(8):
            x = (x @ weight + bias).tanh()
        return x

    h, w, v = torch.randn(128, 64, device=device), torch.randn(64, 64, device=device) / 8, torch.randn(64, device=device)
    result = torch.empty(128, 64, device=device)
    program = lf.compile(layers, h, params={"weight": w, "bias": v})
    program.bind(x=h, out=result)
    mode = "reduce-overhead" if device != "cpu" else "default"
    compiled = torch.compile(layers, mode=mode, fullgraph=True)
    if device != "cpu":
        with torch.no_grad():
            [compiled(h, w, v) for _ in range(5)]
        yield "program of 8 layers", lambda: program.run(h), lambda: compiled(h, w, v)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for_capture = layers(h, w, v)
        assert for_capture is not None
        yield "program of 8 layers beside a captured graph", lambda: program.run(h), graph.replay
        op = lt.op("bench::layers", layers, h, w, v)
        op(h, w, v)
        yield "torch op of 8 layers", lambda: op(h, w, v), lambda: layers(h, w, v)
    else:
        yield "program of 8 layers", program.run, lambda: layers(h, w, v)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--csv")
    parser.add_argument("--rounds", type=int, default=11)
    args = parser.parse_args()
    wait = torch.cuda.synchronize if args.device != "cpu" else (lambda: None)
    table = [["row", "device", "landfall_us", "torch_us"]]
    torch.set_grad_enabled(False)
    for name, ours, theirs in rows(args.device):
        calls = 2000
        for run in (ours, theirs):
            per_call(run, 50, wait)
        times = [(per_call(ours, calls, wait), per_call(theirs, calls, wait)) for _ in range(args.rounds)]
        a, b = (statistics.median(column) for column in zip(*times))
        table.append([name, args.device, f"{a:.2f}", f"{b:.2f}"])
        print(f"{name:45} landfall {a:8.2f} us   torch {b:8.2f} us", flush=True)
    if args.csv:
        with open(args.csv, "w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(table)


if __name__ == "__main__":
    main()
