"""Forecaster("zero-shot"): forecasts without a training."""

from __future__ import annotations

import pathlib
import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest

from landfall import DataWarning, Forecaster, save
from landfall.errors import ArgumentError, FileError, InvalidValueError, NotFittedError
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


#: Of a network that is too small to be good.
RECIPE = """
seed = 1
steps = 2

[network]
patch = 8
context = 64
horizon = 16
width = 24
layers = 1
heads = 3

[optimizer]
lr = 1e-3
warm_up = 1
constant = 0.5
betas = { first = 0.9, second = 0.98 }
weight_decay = 0.01
clip = 1.0
average = 0.5
dtype = "f32"

[simulation]
seed = 1
without = []
rows = 96
series = 64
steps = 2

[validation]
seed = 7
series = 16
horizon = 8
every = 2

[crops]
hidden_crops = 0.3
hidden_rows = 0.2
logarithms = 0.5
decay = 8.0

[[crops.lengths]]
windows = 16
shortest = 3
context = 64
horizon = 16
"""


def test_own_weights_are_taken(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pathlib.Path("r.toml").write_text(RECIPE, encoding="utf-8")
    pretrain = [sys.executable, "-m", "landfall._program", "pretrain", "r.toml", "--out", "p", "--device", "cpu"]
    subprocess.run(pretrain, check=True, capture_output=True, timeout=120)
    frame = make("pandas", long_columns())
    own = small(horizon=5, pretrained="p/weights.safetensors").fit(frame)
    forecast = own.predict()
    assert not forecast.equals(small(horizon=5).fit(frame).predict())
    assert forecast.equals(small(horizon=5, pretrained=tmp_path / "p" / "weights.safetensors").predict(frame))
    # They may be the network of the default recipe's ensemble, too.
    member = Forecaster(
        candidates="none", ensemble="pretrained", pretrained=tmp_path / "p" / "weights.safetensors", horizon=5, device="cpu"
    ).fit(frame)
    assert np.allclose(values(member.predict(), "auto"), values(forecast, "zero-shot"), atol=1e-4)
    past = own.cross_validation(frame, n_windows=1)
    assert not past.equals(small(horizon=5).fit(frame).cross_validation(frame, n_windows=1))
    # A pickle has the path, wherever it is opened.
    pickled = pickle.dumps(own)
    monkeypatch.chdir(tmp_path.parent)
    copy = pickle.loads(pickled)
    assert copy.predict().equals(forecast)
    (tmp_path / "p" / "weights.safetensors").unlink()
    with pytest.raises(FileError, match="weights.safetensors"):
        copy.predict()
    with pytest.raises(FileError, match="nothing is there; bring the weights of the run back"):
        member.predict()


def test_it_is_trained_further():
    frame = make("pandas", long_columns())
    tuned = Forecaster(init="zero-shot", horizon=5, max_steps=2, context=16, device="cpu").fit(frame)
    assert len(tuned.predict()) == 5 * frame["unique_id"].nunique()
    assert tuned.scores["step"] == 2
    with pytest.raises(InvalidValueError, match="leave the model out"):
        Forecaster("dlinear", init="zero-shot", horizon=5).fit(frame)


def test_weights_that_are_none_are_refused(tmp_path):
    (tmp_path / "none.safetensors").write_bytes(b"none")
    save(tmp_path / "other.safetensors", {"a": np.zeros(2, "f4")})
    for error, said, call in [
        (FileError, "missing.safetensors", lambda: small(pretrained=tmp_path / "missing.safetensors")),
        (FileError, "none.*not a whole safetensors file", lambda: small(pretrained=tmp_path / "none.safetensors")),
        (FileError, "no forecaster of unknown series", lambda: small(pretrained=tmp_path / "other.safetensors")),
        (ArgumentError, "pretrained 3: give the path", lambda: small(pretrained=3)),
        (FileError, "w.safetensors", lambda: Forecaster("auto", pretrained="w.safetensors")),
        (InvalidValueError, 'pretrained and ensemble="ets"', lambda: Forecaster(ensemble="ets", pretrained="w.safetensors")),
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
