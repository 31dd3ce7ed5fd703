"""Chronos-2 beside its authors' package: small random models that it saves, and the same inputs to both."""

from pathlib import Path
from typing import Any

import landfall
import numpy as np
import pytest
from landfall.chronos import Chronos

chronos = pytest.importorskip("chronos", reason="chronos-forecasting is not installed")
torch = pytest.importorskip("torch")

LEVELS = [0.01, 0.05, *(i / 10 for i in range(1, 10)), 0.95, 0.99]


def saved(folder: Path, seed: int = 1, **sizes: Any) -> Any:
    """A small model with random weights, saved by the authors' package."""
    from chronos.chronos2 import Chronos2CoreConfig, Chronos2Model, Chronos2Pipeline

    given = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4, **sizes}
    own = {
        "context_length": given.pop("context_length", 128),
        "output_patch_size": given.get("patch", 8),
        "input_patch_size": given.get("patch", 8),
        "input_patch_stride": given.pop("patch", 8),
        "quantiles": given.pop("quantiles", LEVELS),
        "use_reg_token": True,
        "use_arcsinh": given.pop("use_arcsinh", True),
        "max_output_patches": given.pop("max_output_patches", 4),
    }
    torch.manual_seed(seed)
    # A factor of 0.3 in place of 0.05, so that every weight is felt; from 1 on sinh has no bounds.
    config = Chronos2CoreConfig(
        **given, initializer_factor=0.3, chronos_config=own, architectures=["Chronos2Model"], dropout_rate=0.0
    )
    model = Chronos2Model(config).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith(("layer.bias", "layer_norm.weight")):
                weight.add_(0.3 * torch.randn_like(weight))
    pipeline = Chronos2Pipeline(model)
    pipeline.save_pretrained(folder)
    return pipeline


def wave(rows: int, seed: int = 0, size: float = 1.0) -> Any:
    generator = np.random.default_rng(seed)
    place = np.arange(rows)
    return size * (3.0 + np.sin(place * 0.7 + seed) + place * 0.01 + 0.3 * generator.standard_normal(rows))


def gaps(row: Any, *places: Any) -> Any:
    row = row.copy()
    for place in places:
        row[place] = np.nan
    return row


def covariates(rows: int, horizon: int, seed: int = 0) -> Any:
    kinds = np.array(["sun", "rain", "fog"], dtype=object)
    generator = np.random.default_rng(seed)
    return {
        "target": wave(rows, seed, 10.0),
        "past_covariates": {
            "price": wave(rows, seed + 1),
            "visits": wave(rows, seed + 2, 100.0),
            "sky": kinds[generator.integers(0, 3, rows)],
        },
        "future_covariates": {"price": wave(horizon, seed + 3), "sky": kinds[generator.integers(0, 3, horizon)]},
    }


#: Inputs, horizon, and sizes of the model that differ.
CASES: dict[str, Any] = {
    "one series": ([wave(100)], 12, {}),
    "one value": ([wave(1)], 8, {}),
    "a patch": ([wave(8)], 8, {}),
    "longer than the context": ([wave(500)], 20, {}),
    "lengths": ([wave(rows, rows) for rows in (3, 17, 40, 129, 400)], 16, {}),
    "no multiple of a patch": ([wave(61)], 5, {}),
    "missing rows": ([gaps(wave(100), 3, slice(20, 29), -1)], 12, {}),
    "a missing patch": ([gaps(wave(96), slice(40, 64))], 12, {}),
    "missing at both ends": ([gaps(wave(96), slice(0, 30), slice(88, 96))], 12, {}),
    "a constant": ([np.full(50, 7.0), wave(50)], 12, {}),
    "units": ([wave(90, 2, 1e4), wave(90, 2, 1e-3) - 2e-3], 12, {}),
    "two targets": ([np.stack([wave(80), wave(80, 1)])], 12, {}),
    "targets with missing rows": ([np.stack([gaps(wave(80), slice(0, 40)), gaps(wave(80, 1), 70)])], 12, {}),
    "groups": ([np.stack([wave(r, r + i) for i in range(3)]) for r in (50, 20, 90)], 12, {}),
    "many groups": ([wave(60, i) for i in range(300)], 4, {}),
    "beyond a pass": ([wave(100)], 70, {}),
    "far beyond": ([wave(100), gaps(wave(120, 1), slice(10, 50))], 150, {}),
    "two targets beyond": ([np.stack([wave(80), wave(80, 1)])], 50, {}),
    "covariates": ([covariates(80, 12)], 12, {}),
    "covariates of groups": ([covariates(rows, 20, rows) for rows in (80, 30, 120)], 20, {}),
    "covariates beyond": ([covariates(80, 70)], 70, {}),
    "without arcsinh": ([wave(100)], 40, {"use_arcsinh": False}),
    "one layer, a patch of 4": ([wave(50)], 10, {"num_layers": 1, "patch": 4}),
    "deep": ([wave(50), wave(128)], 10, {"num_layers": 6, "d_kv": 16, "d_ff": 40}),
    "nine levels": ([wave(50)], 40, {"quantiles": [i / 10 for i in range(1, 10)]}),
    "a context of no whole patches": ([wave(200)], 10, {"context_length": 100}),
}


@pytest.mark.parametrize("name", CASES)
def test_forecasts_are_those_of_the_authors(tmp_path: Path, name: str) -> None:
    inputs, horizon, sizes = CASES[name]
    theirs = saved(tmp_path, **sizes)
    ours = Chronos(tmp_path, device="cpu")
    assert ours.quantiles == pytest.approx(theirs.quantiles)
    own = ours.forecast(inputs, horizon)
    expected = theirs.predict([_theirs(entry) for entry in inputs], prediction_length=horizon)
    assert len(own) == len(expected)
    for a, b, entry in zip(own, expected, inputs, strict=True):
        b = b.numpy().astype(np.float64)
        assert a.shape == b.shape == (b.shape[0], len(theirs.quantiles), horizon)
        target = np.atleast_2d(entry["target"] if isinstance(entry, dict) else entry)
        # Of the scale of each target: what the network computes is in such units.
        scale = np.maximum(np.nanstd(target, axis=1), 1e-5 + 1e-7 * np.abs(np.nanmean(target, axis=1)))
        apart = np.abs(a - b).max(axis=(1, 2)) / (scale + np.abs(b).max(axis=(1, 2)))
        assert apart.max() < 1e-5, apart


def _theirs(entry: Any) -> Any:
    return {**entry} if isinstance(entry, dict) else torch.tensor(entry, dtype=torch.float32)


def test_ordinal_categories(tmp_path: Path) -> None:
    """With several targets categories are places, as the authors have it."""
    theirs = saved(tmp_path)
    entry = covariates(60, 12)
    entry["target"] = np.stack([entry["target"], wave(60, 9)])
    entry["future_covariates"]["sky"][3] = "snow"
    own = Chronos(tmp_path, device="cpu").forecast([entry], 12)[0]
    expected = theirs.predict([entry], prediction_length=12)[0].numpy()
    assert np.abs(own - expected).max() < 1e-4


def test_the_forecaster_takes_a_folder(tmp_path: Path) -> None:
    saved(tmp_path)
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"ds": pandas.date_range("2024-01-01", periods=30), "y": wave(30)})
    forecaster = landfall.Forecaster("zero-shot", horizon=6, pretrained=tmp_path, device="cpu")
    own = forecaster.fit(frame).predict()["zero-shot"]
    # Quantiles of random weights cross; those of a forecaster ascend.
    quantiles = np.sort(Chronos(tmp_path, device="cpu").forecast([wave(30)], 6)[0][0], axis=0)
    assert np.allclose(own.to_numpy(), quantiles[LEVELS.index(0.5)], rtol=1e-4)


def test_what_is_wrong_is_told(tmp_path: Path) -> None:
    with pytest.raises(landfall.FileError, match="cannot read .*config.json"):
        Chronos(tmp_path)
    saved(tmp_path)
    model = Chronos(tmp_path, device="cpu")
    for inputs, text in [
        ([{"targets": [1.0]}], "input 0 has 'targets'"),
        ([{"past_covariates": {}}], "input 0 has no target"),
        ([{"target": [1.0, 2.0], "future_covariates": {"a": [1.0]}}], "future covariate 'a' has no past"),
        ([{"target": [1.0, 2.0], "past_covariates": {"a": [1.0]}}], "'a' has 1 rows, and the target 2"),
        ([[[[1.0]]]], "its target has 3 axes"),
        (["text"], "is no numbers"),
        ([[np.nan, np.nan]], "target 0 has no value"),
        ([[1.0, np.inf]], "target 0 has inf in row 1"),
    ]:
        with pytest.raises((landfall.ArgumentError, landfall.InvalidValueError), match=text):
            model.forecast(inputs, 4)
    with pytest.raises(landfall.InvalidValueError, match="the horizon is 0"):
        model.forecast([[1.0]], 0)
