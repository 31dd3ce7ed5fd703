"""A pass of Chronos-2 and of Chronos-Bolt as an ONNX model: what onnxruntime forecasts by it is what the library does."""

from pathlib import Path
from typing import Any

import landfall
import numpy as np
import pytest
import test_chronos
import test_chronos_bolt
from landfall.chronos import Chronos
from test_chronos import apart_of_scale, gaps, wave

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

#: What saves a model, its sizes, rows of the context and rows to forecast.
CASES: dict[str, Any] = {
    "chronos-2": (test_chronos.saved, {}, 128, 32),
    "chronos-2, a part of a patch": (test_chronos.saved, {"use_arcsinh": False}, 61, 5),
    "chronos-bolt": (test_chronos_bolt.saved, {}, 128, 16),
    "chronos-bolt, gated": (
        test_chronos_bolt.saved,
        {"feed_forward_proj": "gated-gelu", "use_reg_token": False},
        61,
        5,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_onnxruntime_forecasts_alike(tmp_path: Path, name: str) -> None:
    save, sizes, rows, horizon = CASES[name]
    save(tmp_path, **sizes)
    model, path = Chronos(tmp_path, device="cpu"), tmp_path / "pass.onnx"
    model.export_onnx(path, context=rows, horizon=horizon)
    onnx.checker.check_model(str(path), full_check=True)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    shorter = np.concatenate([np.full(rows - 9, np.nan), wave(9, 4)])
    given = [wave(rows), gaps(wave(rows, 1, 1e4), slice(20, 40), -2), shorter, np.full(rows, 7.0)]
    forecast = session.run(["quantiles"], {"context": np.stack(given)})[0]
    assert forecast.shape == (4, horizon, len(model.quantiles))
    for own, expected, series in zip(forecast, model.forecast(given, horizon), given, strict=True):
        assert apart_of_scale(own.T[None], expected, series) < 1e-5


def test_groups_and_covariates_forecast_alike(tmp_path: Path) -> None:
    rows, horizon = 61, 13
    test_chronos.saved(tmp_path)
    model, path = Chronos(tmp_path, device="cpu"), tmp_path / "pass.onnx"
    model.export_onnx(path, context=rows, horizon=horizon, members=4)
    onnx.checker.check_model(str(path), full_check=True)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])

    def group(seed: int) -> dict[str, Any]:
        past = {"visits": wave(rows, seed + 2, 100.0), "price": gaps(wave(rows, seed + 3), slice(9, 14))}
        return {
            "target": np.stack([gaps(wave(rows, seed), -1, 30), wave(rows, seed + 1, 1e4)]),
            "past_covariates": past,
            "future_covariates": {"price": wave(horizon, seed + 4)},
        }

    given = [group(0), group(7), group(11)]
    context = np.stack([np.vstack([g["target"], *g["past_covariates"].values()]) for g in given])
    future = np.full((3, 4, horizon), np.nan)
    future[:, 3] = [g["future_covariates"]["price"] for g in given]
    forecast = session.run(["quantiles"], {"context": context, "future": future})[0]
    assert forecast.shape == (3, 4, horizon, len(model.quantiles))
    for own, expected, entry in zip(forecast, model.forecast(given, horizon), given, strict=True):
        for target in range(2):
            both = own[target].T[None], expected[target : target + 1]
            assert apart_of_scale(*both, entry["target"][target]) < 1e-5
    # What is known of the future is seen.
    unknown = session.run(["quantiles"], {"context": context, "future": np.full_like(future, np.nan)})[0]
    assert np.abs(unknown - forecast)[:, :2].max() > 1e-3


def test_what_a_pass_has_not_is_told(tmp_path: Path) -> None:
    test_chronos_bolt.saved(tmp_path)
    model, path = Chronos(tmp_path, device="cpu"), tmp_path / "pass.onnx"
    with pytest.raises(landfall.InvalidValueError, match="the horizon is 17; it must be 1 to 16"):
        model.export_onnx(path, horizon=17)
    with pytest.raises(landfall.InvalidValueError, match="the context is 129 rows; it must be 1 to 128"):
        model.export_onnx(path, context=129)
    with pytest.raises(landfall.InvalidValueError, match="a group has 2 series; it must be 1"):
        model.export_onnx(path, members=2)
    path.write_text("something of mine")
    with pytest.raises(landfall.FileError, match="exists already"):
        model.export_onnx(path)
    assert path.read_text() == "something of mine"
