"""A training step of PatchTST/42 (7 channels, batch 128) called from Python, beside torch's in the same run.

    python bench/python/step.py [--device cuda] [--bench PROGRAM] [--csv FILE]      # from the top of the repository

`Forecaster.fit` is timed for two numbers of steps; the difference is that of the steps alone, with all that a fit does between
them. `landfall-bench` (built by `cargo build --release -p landfall-bench`, or PROGRAM) then times the step by itself and torch's
best mode, in turn.
"""

import argparse
import json
import os
import subprocess
import sys
import time

import numpy as np
import pandas as pd
from landfall import Forecaster

ROWS, COLUMNS = 14_400, list("abcdefg")


def frame():
    rng = np.random.default_rng(0)
    hour = np.arange(ROWS)[:, None]
    values = np.sin(2 * np.pi * hour / 24 + np.arange(7)) + rng.normal(0, 0.3, (ROWS, 7))
    df = pd.DataFrame(values, columns=COLUMNS)
    df.insert(0, "ds", pd.date_range("2020-01-01", periods=ROWS, freq="h"))
    return df


def fit(df, steps, device):
    forecaster = Forecaster(
        preset="patchtst-42",
        horizon=96,
        target=COLUMNS,
        batch=128,
        max_steps=steps,
        device=device,
        progress=False,
    )
    start = time.perf_counter()
    forecaster.fit(df)
    return time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--few", type=int, default=100)
    parser.add_argument("--many", type=int, default=2100)
    parser.add_argument("--threads", default=str(os.cpu_count()))
    parser.add_argument("--bench", default="target/release/landfall-bench")
    parser.add_argument("--csv")
    args = parser.parse_args()
    df = frame()
    fit(df, args.few, args.device)
    few, many = fit(df, args.few, args.device), fit(df, args.many, args.device)
    step = (many - few) / (args.many - args.few) * 1e6
    line = [args.bench, "--rows", "etth1", "--dtypes", "f32", "--device", args.device, "--peers", "torch", "--json"]
    ran = subprocess.run([*line, "--threads", args.threads], capture_output=True, text=True, check=False)
    if ran.returncode:
        sys.exit(ran.stderr)
    row = json.loads(ran.stdout)["rows"][0]
    peers = {peer["name"]: peer["us"] for peer in row["peers"]}
    lines = ["device,fit_us,step_us,torch_us,torch_mode,fit_of_few_s,fit_of_many_s"]
    if not peers:
        sys.exit(ran.stderr)
    best = min(peers, key=peers.get)
    lines.append(
        f"{args.device},{step:.1f},{row['ours']['us']:.1f},{peers[best]:.1f},{best},{few:.2f},{many:.2f}"
    )
    print("\n".join(lines))
    if args.csv:
        with open(args.csv, "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
