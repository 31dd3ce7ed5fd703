"""Trains on files as they are shipped, with a horizon and nothing else, and judges the test windows.

    python run.py LANDFALL FOLDER [--seeds 1,2,3,4,5] [--table T.csv] [--out RESULTS.csv]

LANDFALL is the program, FOLDER holds the files of the table: by default eight public files as Python packages ship them
(vega-datasets, sktime, statsmodels). T.csv has the columns file, horizon, season, series, date.
"""

import argparse
import csv
import json
import math
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

from judge import judge

TABLE = [
    ("Airline", 12, 12, "", "Date"),
    ("us-employment", 12, 12, "", "month"),
    ("ShampooSales", 6, 12, "", "Time"),
    ("stocks", 3, 12, "symbol", "date"),
    ("co2", 26, 52, "", "date"),
    ("seattle-weather", 14, 7, "", "date"),
    ("sunspots", 11, 11, "", "YEAR"),
    ("Lynx", 11, 10, "", ""),
]
FEW = 20


def read_table(path):
    """The rows of a table of files; TABLE where none is given."""
    if not path:
        return TABLE
    with open(path, newline="", encoding="utf-8") as file:
        rows = csv.DictReader(file)
        return [(r["file"], int(r["horizon"]), int(r["season"]), r["series"], r["date"]) for r in rows]


def one(program, path, horizon, season, series, date, seed):
    """The judged errors of one run, its seconds and its forecaster."""
    with tempfile.TemporaryDirectory() as folder:
        run, predictions = f"{folder}/run", f"{folder}/p.csv"
        words = ["train", "--data", path, "--horizon", str(horizon), "--seed", str(seed), "--out", run, "--json"]
        begin = time.perf_counter()
        done = subprocess.run([program, *words], capture_output=True, text=True, check=True)
        seconds = time.perf_counter() - begin
        words = ["evaluate", run, "--predictions", predictions]
        subprocess.run([program, *words], capture_output=True, text=True, check=True)
        found = json.loads(done.stdout.splitlines()[-1])
        result = judge(path, horizon, season, series or None, date, predictions)
    return {
        "seed": seed,
        "mse": result["forecast"]["mse"],
        "mae": result["forecast"]["mae"],
        "ratio": result["forecast"]["ratio"],
        "windows": result["windows"],
        "period": found["seasonal_period"],
        "winner": found["winner"],
        "seconds": seconds,
    }


def write_table(path, rows):
    """Writes rows of one set of names as a CSV file."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--seeds", default="1,2,3,4,5")
    parser.add_argument("--table")
    parser.add_argument("--out")
    args = parser.parse_args()
    table = read_table(args.table)
    rows, medians = [], []
    print(f"{'file':16} {'windows':>7} {'median':>7} {'worst':>7} {'limit':>5} {'s':>6}  forecaster")
    for name, horizon, season, series, date in table:
        path = str(args.folder / f"{name}.csv")
        runs = [one(args.program, path, horizon, season, series, date, int(s)) for s in args.seeds.split(",")]
        rows += [{"file": name, "horizon": horizon, "season": season, **run} for run in runs]
        ratios = [run["ratio"] for run in runs]
        median, limit = statistics.median(ratios), 1.15 if runs[0]["windows"] < FEW else 1.05
        medians.append(median)
        worst = max(runs, key=lambda run: run["ratio"])
        mark = "" if median <= limit else "  ABOVE"
        seconds = statistics.median(run["seconds"] for run in runs)
        winners = ", ".join(sorted({run["winner"] for run in runs}))
        print(
            f"{name:16} {runs[0]['windows']:7} {median:7.3f} {worst['ratio']:7.3f} {limit:5} {seconds:6.1f}  {winners}{mark}",
            flush=True,
        )
    print(f"geometric mean of the medians {math.exp(statistics.mean(map(math.log, medians))):.3f}")
    if args.out:
        write_table(args.out, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
