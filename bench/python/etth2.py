"""`fit` of PatchTST on ETTh2: Landfall's and neuralforecast's, with the same settings, each in a process of its own.

    python bench/python/etth2.py ETTh2.csv --steps 500 --threads 2

needs both packages, and pandas. Prints a row for each: seconds and processor seconds of `fit`, the largest memory of
the process and how much of it came with `fit`, and the errors on the test windows, of standardised values. The seven
columns are seven series, on which both train channel by channel; 8,640 rows train, 2,880 validate, 2,880 test.
Landfall's `fit` also scores the test windows; neuralforecast's does not, so those are scored after it, untimed.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import resource
import subprocess
import sys
import time
import warnings

TRAIN, HELD_OUT, HORIZON, CONTEXT, BATCH, RATE, SEED = 8640, 2880, 96, 336, 128, 1e-4, 1


def frame(path: str):
    """The benchmark's rows in long form, each column standardised by its training rows."""
    import pandas as pd

    table = pd.read_csv(path, parse_dates=["date"]).iloc[: TRAIN + 2 * HELD_OUT].set_index("date")
    train = table.iloc[:TRAIN]
    scaled = (table - train.mean()) / train.std(ddof=0)
    long = scaled.reset_index().melt(id_vars="date", var_name="unique_id", value_name="y")
    return long.rename(columns={"date": "ds"})


def landfall(df, steps: int, threads: int):
    """Landfall's fit, and what gives its errors."""
    from landfall import Forecaster

    forecaster = Forecaster(
        preset="patchtst-42",
        horizon=HORIZON,
        context=CONTEXT,
        batch=BATCH,
        max_steps=steps,
        lr=RATE,
        schedule="constant",
        split="ett",
        seed=SEED,
        device="cpu",
        threads=threads,
        progress=False,
    )
    return lambda: forecaster.fit(df), lambda: (forecaster.scores["mse"], forecaster.scores["mae"])


def neuralforecast(df, steps: int, threads: int):
    """neuralforecast's fit, and what gives its errors."""
    import torch
    from neuralforecast import NeuralForecast
    from neuralforecast.losses.pytorch import MSE
    from neuralforecast.models import PatchTST

    torch.set_num_threads(threads)

    def made():
        # The sizes of the preset patchtst-42, and its dropout.
        model = PatchTST(
            h=HORIZON,
            input_size=CONTEXT,
            encoder_layers=3,
            n_heads=4,
            hidden_size=16,
            linear_hidden_size=128,
            dropout=0.3,
            fc_dropout=0.3,
            head_dropout=0.0,
            attn_dropout=0.0,
            patch_len=16,
            stride=8,
            revin=True,
            loss=MSE(),
            max_steps=steps,
            learning_rate=RATE,
            num_lr_decays=0,
            val_check_steps=steps,
            batch_size=7,
            windows_batch_size=BATCH,
            scaler_type="identity",
            random_seed=SEED,
            accelerator="cpu",
            enable_progress_bar=False,
            enable_model_summary=False,
            logger=False,
            enable_checkpointing=False,
        )
        return NeuralForecast(models=[model], freq="h")

    before_test = df[df.groupby("unique_id").cumcount() < TRAIN + HELD_OUT]

    def errors():
        crossed = made().cross_validation(df, val_size=HELD_OUT, test_size=HELD_OUT, n_windows=None, step_size=1)
        error = crossed["PatchTST"] - crossed["y"]
        return float((error**2).mean()), float(error.abs().mean())

    return lambda: made().fit(before_test, val_size=HELD_OUT), errors


def peak() -> float:
    """The largest memory of this process so far, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(name: str, path: str, steps: int, threads: int) -> dict[str, float]:
    """Times one library, in this process."""
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    df = frame(path)
    fit, errors = {"landfall": landfall, "neuralforecast": neuralforecast}[name](df, steps, threads)
    before, begin, processor = peak(), time.perf_counter(), time.process_time()
    fit()
    row = {"seconds": time.perf_counter() - begin, "cpu": time.process_time() - processor, "peak": peak()}
    row["grown"] = row["peak"] - before
    row["mse"], row["mae"] = errors()
    return row


def main() -> None:
    """Measures both, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", help="ETTh2.csv")
    parser.add_argument("--steps", type=int, default=500, help="updates of each fit")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="threads of each library")
    parser.add_argument("--only", choices=["landfall", "neuralforecast"], help="measure one, and print its row as JSON")
    args = parser.parse_args()
    if args.only:
        print(json.dumps(measure(args.only, args.file, args.steps, args.threads)))
        return
    print(f"{args.steps} steps of {BATCH} windows, {args.threads} threads")
    print(f"{'':16}{'fit s':>9}{'cpu s':>9}{'peak MiB':>10}{'of fit':>9}{'MSE':>9}{'MAE':>9}")
    for name in ("landfall", "neuralforecast"):
        words = [args.file, "--steps", str(args.steps), "--threads", str(args.threads), "--only", name]
        environment = {**os.environ, "OMP_NUM_THREADS": str(args.threads)}
        done = subprocess.run([sys.executable, __file__, *words], capture_output=True, text=True, env=environment)
        if done.returncode:
            sys.exit(f"{name} failed:\n{done.stderr}")
        row = json.loads(done.stdout.splitlines()[-1])
        numbers = f"{row['seconds']:9.1f}{row['cpu']:9.1f}{row['peak']:10.0f}{row['grown']:9.0f}"
        print(f"{name:16}{numbers}{row['mse']:9.4f}{row['mae']:9.4f}", flush=True)


if __name__ == "__main__":
    main()
