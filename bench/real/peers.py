"""Scores forecasts of other libraries on the windows that the judge scores, with their times.

    python peers.py FOLDER [--models ets,theta,patchtst] [--table T.csv] [--out RESULTS.csv] [--accelerator gpu]

AutoETS and AutoTheta (statsforecast) are refitted for every test window on all rows before it, as their users do. PatchTST
(neuralforecast) at its defaults, with the context of its own recipe (twice the seasonal period or three horizons, whichever
is longer) as it has no default for it, is trained once on the rows before the test rows and then forecasts every window.
Needs the packages statsforecast or neuralforecast. Errors are computed by judge.py from a file of predictions.
"""

import argparse
import csv
import logging
import math
import pathlib
import statistics
import sys
import tempfile
import time
import warnings

import numpy as np
import pandas as pd

from judge import judge, read
from run import read_table, write_table

START = pd.Timestamp("2000-01-01")


def test_windows(rows, horizon):
    """First predicted rows of the test windows of a series."""
    return range(rows - math.floor(0.2 * rows), rows - horizon + 1)


def columns_of(series):
    """Every series and column as (name, number of the column, values)."""
    return [(name, c, values[c]) for name, values in series.items() for c in range(values.shape[0])]


def statistical(model, series, horizon, season):
    """Forecasts by series, column and window: [windows, horizon]."""
    from statsforecast.models import AutoETS, AutoTheta

    made = {"ets": AutoETS, "theta": AutoTheta}[model]
    found = {}
    for name, column, values in columns_of(series):
        forecasts = []
        for origin in test_windows(len(values), horizon):
            seen = np.ascontiguousarray(values[:origin])
            forecasts.append(made(season_length=season).forecast(y=seen, h=horizon)["mean"])
        found[name, column] = np.array(forecasts)
    return found


def patchtst(series, horizon, season, seed, accelerator):
    """The same by neuralforecast's PatchTST, trained once."""
    from neuralforecast import NeuralForecast
    from neuralforecast.models import PatchTST

    rows = [
        pd.DataFrame({"unique_id": f"{name}/{c}", "ds": pd.date_range(START, periods=len(v), freq="D"), "y": v})
        for name, c, v in columns_of(series)
    ]
    frame = pd.concat(rows)
    shortest = min(len(v) for _, _, v in columns_of(series))
    room = max(1, (math.floor(0.7 * shortest) - horizon) // 2)
    context = min(room, max(2 * season, 3 * horizon))
    model = PatchTST(
        h=horizon,
        input_size=context,
        patch_len=min(16, context),
        stride=min(8, context),
        random_seed=seed,
        enable_progress_bar=False,
        enable_model_summary=False,
        logger=False,
        enable_checkpointing=False,
        accelerator=accelerator,
    )
    network = NeuralForecast(models=[model], freq="D")
    before = pd.concat(g.iloc[: len(g) - math.floor(0.2 * len(g))] for _, g in frame.groupby("unique_id", sort=False))
    network.fit(before.reset_index(drop=True))
    # Every window is a series of its own that ends where the window begins, so that one call forecasts all.
    ends = [
        frame[frame.unique_id == f"{name}/{c}"].iloc[origin - context : origin].assign(unique_id=f"{n:03}/{w:05}")
        for n, (name, c, values) in enumerate(columns_of(series))
        for w, origin in enumerate(test_windows(len(values), horizon))
    ]
    predicted = network.predict(df=pd.concat(ends)).sort_values(["unique_id", "ds"])
    column = predicted.unique_id.str.slice(0, 3).astype(int)
    return {
        (name, c): predicted.PatchTST[column == n].to_numpy().reshape(-1, horizon)
        for n, (name, c, _) in enumerate(columns_of(series))
    }


def write(path, series, names, forecasts, horizon):
    """Writes predictions in the form that the judge reads."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        head = ["series"] if len(series) > 1 else []
        writer.writerow([*head, "window", "step", "row", *(x for n in names for x in (n, f"{n}_actual"))])
        for name, values in series.items():
            for window, origin in enumerate(test_windows(values.shape[1], horizon)):
                for step in range(horizon):
                    cells = []
                    for column in range(len(names)):
                        cells += [forecasts[name, column][window, step], values[column, origin + step]]
                    first = [name] if len(series) > 1 else []
                    writer.writerow([*first, window, step + 1, origin + step, *cells])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--models", default="ets,theta,patchtst")
    parser.add_argument("--table")
    parser.add_argument("--out")
    parser.add_argument("--accelerator", default="cpu", help="where PatchTST trains: cpu or gpu")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    table = read_table(args.table)
    rows = []
    print(f"{'file':16} {'model':9} {'mse':>9} {'ratio':>7} {'s':>7}", flush=True)
    for file, horizon, season, by, date in table:
        path = str(args.folder / f"{file}.csv")
        series, names = read(path, by or None, date or None)
        for model in args.models.split(","):
            begin = time.perf_counter()
            if model == "patchtst":
                forecasts = patchtst(series, horizon, season, 1, args.accelerator)
            else:
                forecasts = statistical(model, series, horizon, season)
            seconds = time.perf_counter() - begin
            with tempfile.TemporaryDirectory() as folder:
                predictions = f"{folder}/p.csv"
                write(predictions, series, names, forecasts, horizon)
                scored = judge(path, horizon, season, by or None, date or None, predictions)["forecast"]
            rows.append({"file": file, "model": model, "mse": scored["mse"], "ratio": scored["ratio"], "seconds": seconds})
            print(f"{file:16} {model:9} {scored['mse']:9.4f} {scored['ratio']:7.3f} {seconds:7.1f}", flush=True)
    for model in args.models.split(","):
        ratios = [r["ratio"] for r in rows if r["model"] == model]
        print(f"{model}: geometric mean {math.exp(statistics.mean(map(math.log, ratios))):.3f}")
    if args.out:
        write_table(args.out, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
