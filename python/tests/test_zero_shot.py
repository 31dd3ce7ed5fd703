"""Forecaster("zero-shot"): forecasts without a training."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest

from landfall import DataWarning, Forecaster
from landfall.errors import ArgumentError, InvalidValueError, NotFittedError
from series import long_columns, make, values


@pytest.fixture(autouse=True)
def no_warning():
    """A warning that a test does not expect fails it."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataWarning)
        yield


def small(**more):
    return Forecaster("zero-shot", device="cpu", threads=1, **more)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_forecasts_go_on_with_each_series(library):
    frame = make(library, long_columns())
    predicted = small(horizon=24).fit(frame).predict()
    assert list(predicted.columns) == ["unique_id", "ds", "zero-shot", "zero-shot-lo-80", "zero-shot-hi-80"]
    assert values(predicted, "unique_id") == ["a"] * 24 + ["b"] * 24
    wave = 3 * np.sin(2 * np.pi * np.arange(240, 264) / 24)
    found = np.array(values(predicted, "zero-shot")).reshape(2, 24)
    assert np.abs(found - wave - [[10.0], [20.0]]).max() < 0.5
    low, high = (np.array(values(predicted, f"zero-shot-{end}-80")).reshape(2, 24) for end in ("lo", "hi"))
    assert (low < found).all() and (found < high).all()


def test_a_forecast_at_a_date_is_that_of_the_rows_until_then():
    frame = make("pandas", long_columns())
    forecaster = small(horizon=5, quantiles=[0.1, 0.5, 0.9]).fit(frame)
    at = frame.ds[199]
    known = frame[frame.ds <= at]
    assert forecaster.predict(at=at).equals(small(horizon=5, quantiles=[0.1, 0.5, 0.9]).predict(known))
    assert list(forecaster.predict().columns)[2:] == ["zero-shot"] + [f"zero-shot_q{q}" for q in (0.1, 0.5, 0.9)]
    forecaster = small(horizon=24).fit(frame)
    before = forecaster.predict()
    windows = forecaster.cross_validation(frame, n_windows=2, step_size=24)
    assert forecaster.predict().equals(before), "past windows leave the forecaster as it was"
    assert len(windows) == 2 * 2 * 24
    assert (windows["y"] - windows["zero-shot"]).abs().mean() < 0.3


def test_any_horizon_and_a_copy_of_its_own():
    frame = make("pandas", long_columns(names=("a",))).drop(columns="unique_id")
    forecaster = small().fit(frame)
    assert len(forecaster.predict(horizon=300, level=[])) == 300
    copy = pickle.loads(pickle.dumps(forecaster))
    assert copy.predict(horizon=3).equals(forecaster.predict(horizon=3))


def test_what_it_cannot_do_is_said():
    frame = make("pandas", long_columns())
    fitted = small(horizon=3).fit(frame)
    for error, said, call in [
        (ArgumentError, "it trains nothing", lambda: small(epochs=3)),
        (ArgumentError, "it reads no covariates", lambda: small(known_future=["price"])),
        (ArgumentError, "did you mean `horizon`", lambda: small(h=3)),
        (InvalidValueError, "a horizon is needed", lambda: small().fit(frame).predict()),
        (InvalidValueError, "1 to 512 rows", lambda: fitted.predict(horizon=600)),
        (InvalidValueError, "above 0 and below 1", lambda: small(horizon=3, quantiles=[2]).fit(frame).predict()),
        (InvalidValueError, "nothing to resume", fitted.resume),
        (InvalidValueError, "no run to save", lambda: fitted.save("x")),
        (NotFittedError, "cross_validation", lambda: fitted.scores),
        (NotFittedError, "no run", lambda: fitted.folder),
        (NotFittedError, "no series", lambda: small(horizon=3).predict()),
    ]:
        with pytest.raises(error, match=said):
            call()


def test_the_page(tmp_path, monkeypatch):
    from test_documents import blocks, run

    monkeypatch.chdir(tmp_path)
    frame = make("pandas", long_columns(freq="D"))
    frame.to_csv("sales.csv", index=False)
    for block in blocks("zero-shot.md"):
        run(block, "zero-shot.md", {})
