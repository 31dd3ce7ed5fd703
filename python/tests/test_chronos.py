"""Chronos-2 beside its authors' package: small random models that it saves, and the same inputs to both."""

from pathlib import Path
from typing import Any

import landfall
import numpy as np
import pytest
from landfall.chronos import Chronos, LowRank

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
        far = apart_of_scale(a, b, entry["target"] if isinstance(entry, dict) else entry)
        assert far < 1e-5, far


def apart_of_scale(own: Any, theirs: Any, target: Any) -> float:
    """The largest difference, of the scale of each target and of the forecast: what the network computes is in such units."""
    target = np.atleast_2d(target)
    scale = np.maximum(np.nanstd(target, axis=1), 1e-5 + 1e-7 * np.abs(np.nanmean(target, axis=1)))
    return float((np.abs(own - theirs).max(axis=(1, 2)) / (scale + np.abs(theirs).max(axis=(1, 2)))).max())


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


def series(count: int = 5) -> list[Any]:
    """Inputs to train on, with missing rows, some shorter than the context."""
    rows = [150, 60, 200, 40, 90, 120, 75][:count]
    return [gaps(wave(own, i, 10.0**i), own // 2, slice(3, 14), -3) for i, own in enumerate(rows)]


def grouped(count: int = 4) -> list[Any]:
    """Inputs with two targets and covariates."""
    all_inputs = []
    for i, rows in enumerate([120, 70, 160, 50][:count]):
        entry = covariates(rows, 12, 10 * i)
        entry["target"] = np.stack([gaps(entry["target"], slice(20, 31)), wave(rows, 10 * i + 9)])
        entry["future_covariates"] = {"price": None}
        del entry["past_covariates"]["sky"]
        all_inputs.append(entry)
    return all_inputs


def their_losses(model: Any, inputs: Any, tuned: Any, parameters: Any, monkeypatch: Any, **sizes: Any) -> list[float]:
    """The losses of the authors' model, trained by PyTorch on the batches that their dataset makes of the windows of our steps."""
    from chronos.chronos2.dataset import Chronos2Dataset

    horizon, steps, lr, context = sizes["horizon"], sizes["steps"], sizes["lr"], model.chronos_config.context_length
    patch = model.chronos_config.output_patch_size
    theirs = [entry if isinstance(entry, dict) else torch.tensor(entry, dtype=torch.float32) for entry in inputs]
    batches = iter(Chronos2Dataset(theirs, context, horizon, sizes["batch"], patch, min_past=horizon, mode="train"))
    optimizer = torch.optim.AdamW(parameters, lr=lr, weight_decay=0.0)
    losses = []
    for step in range(steps):
        windows = tuned.windows(step)
        drawn = [group for group, _ in windows] + [at for _, at in windows]
        with monkeypatch.context() as patched:
            patched.setattr(np.random, "randint", lambda *_: drawn.pop(0))
            batch = next(batches)
        assert not drawn
        optimizer.param_groups[0]["lr"] = lr * (1 - step / steps)
        loss = model(**batch).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses


def apart(own: list[float], theirs: list[float]) -> float:
    return float(np.max(np.abs(np.array(own) - theirs) / np.array(theirs)))


def categorical() -> list[Any]:
    """Inputs with a covariate of texts that is known in advance."""
    return [{**covariates(rows, 12, rows), "future_covariates": {"sky": None}} for rows in (80, 55, 110)]


#: Inputs, series of a batch, and rows to forecast.
TRAININGS: dict[str, Any] = {
    "series": (series(), 4, 12),
    "one patch": (series(), 3, 8),
    "groups with covariates": (grouped(), 12, 20),
    "categories": (categorical(), 8, 12),
}


@pytest.mark.parametrize("name", TRAININGS)
def test_a_training_has_the_losses_of_the_authors(tmp_path: Path, monkeypatch: Any, name: str) -> None:
    inputs, batch, horizon = TRAININGS[name]
    theirs = saved(tmp_path).model
    sizes = {"horizon": horizon, "steps": 50, "batch": batch, "lr": 1e-3}
    tuned = Chronos(tmp_path, device="cpu").fit(inputs, **sizes)
    own = [loss for point in tuned.history for loss in point["losses"]]
    expected = their_losses(theirs, inputs, tuned, list(theirs.parameters()), monkeypatch, **sizes)
    assert len(own) == 50
    # Measured: 3.3e-7.
    assert apart(own, expected) < 1e-5
    # It learns: windows differ, so of the mean of some.
    assert np.mean(own[-10:]) < 0.8 * np.mean(own[:10])
    # And the forecasts of what came out are alike, read by the authors' package.
    tuned.save(tmp_path / "tuned")
    forecasts_are_alike(tuned, tmp_path / "tuned", inputs, horizon)


def forecasts_are_alike(ours: Any, folder: Path, inputs: Any, horizon: int) -> None:
    from chronos.chronos2 import Chronos2Pipeline

    given = inputs if not isinstance(inputs[0], dict) else [{"target": entry["target"]} for entry in inputs]
    theirs = Chronos2Pipeline.from_pretrained(folder).predict(
        [_theirs(entry) for entry in given], prediction_length=horizon
    )
    for a, b in zip(ours.forecast(given, horizon), theirs, strict=True):
        assert np.abs(a - b.numpy()).max() < 1e-4 * np.abs(b.numpy()).max()


@pytest.mark.parametrize("name", TRAININGS)
def test_an_adapter_has_the_losses_of_pytorch(tmp_path: Path, monkeypatch: Any, name: str) -> None:
    inputs, batch, horizon = TRAININGS[name]
    theirs = saved(tmp_path).model
    model = Chronos(tmp_path, device="cpu")
    adapter = LowRank(rank=4, alpha=8.0)
    # Nothing moves at a rate of 0: the first values.
    model.fit(inputs, horizon, steps=1, lr=0.0, adapter=adapter).save_adapter(tmp_path / "first")
    factors = safetensors_of(tmp_path / "first" / "adapter_model.safetensors")
    parameters = adapted(theirs, factors, scale=2.0)
    sizes = {"horizon": horizon, "steps": 50, "batch": batch, "lr": 5e-3}
    tuned = model.fit(inputs, adapter=adapter, **sizes)
    own = [loss for point in tuned.history for loss in point["losses"]]
    expected = their_losses(theirs, inputs, tuned, parameters, monkeypatch, **sizes)
    # Measured: 1.4e-6.
    assert apart(own, expected) < 1e-5
    assert np.mean(own[-10:]) < 0.9 * np.mean(own[:10])
    # Merged in the authors' form, and apart.
    tuned.save(tmp_path / "merged")
    forecasts_are_alike(tuned, tmp_path / "merged", inputs, horizon)
    tuned.save_adapter(tmp_path / "adapter")
    given = [wave(90)]
    both = Chronos(tmp_path, adapter=tmp_path / "adapter", device="cpu").forecast(given, 8)[0]
    assert np.array_equal(both, tuned.forecast(given, 8)[0])
    assert not np.array_equal(both, model.forecast(given, 8)[0])


def test_an_adapter_is_read_by_peft_and_one_of_peft_is_read(tmp_path: Path) -> None:
    peft = pytest.importorskip("peft", reason="peft is not installed")
    from chronos.chronos2 import Chronos2Pipeline

    def alike(ours: Any, theirs: Any) -> None:
        given = [wave(90), wave(31, 5)]
        both = Chronos2Pipeline(theirs).predict([_theirs(entry) for entry in given], prediction_length=12)
        for a, b in zip(ours.forecast(given, 12), both, strict=True):
            # Measured: 7.9e-7; 0.28 at least without the adapter.
            assert np.abs(a - b.numpy()).max() < 1e-5 * np.abs(b.numpy()).max()

    theirs = saved(tmp_path / "model").model
    tuned = Chronos(tmp_path / "model", device="cpu").fit(
        [wave(200)], 12, steps=5, lr=5e-3, adapter=LowRank(rank=4, alpha=8.0)
    )
    tuned.save_adapter(tmp_path / "ours")
    alike(tuned, peft.PeftModel.from_pretrained(theirs, tmp_path / "ours").eval().base_model.model)

    fresh = saved(tmp_path / "model").model
    targets = ["self_attention.q", "self_attention.v", "output_patch_embedding.output_layer"]
    adapted = peft.get_peft_model(fresh, peft.LoraConfig(r=2, lora_alpha=6, target_modules=targets)).eval()
    with torch.no_grad():
        for name, weight in adapted.named_parameters():
            if "lora_B" in name:
                weight.add_(0.1 * torch.randn_like(weight))
    adapted.save_pretrained(tmp_path / "theirs")
    alike(Chronos(tmp_path / "model", adapter=tmp_path / "theirs", device="cpu"), adapted.base_model.model)


def safetensors_of(path: Path) -> Any:
    from safetensors.torch import load_file

    return load_file(path)


def adapted(model: Any, factors: Any, scale: float) -> list[Any]:
    """Freezes a model and lets the layers with factors compute `W·x + scale · B·(A·x)`; the factors."""
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    trained = []
    for name, layer in model.named_modules():
        key = f"base_model.model.{name}.lora_A.weight"
        if key not in factors:
            continue
        down = torch.nn.Parameter(factors.pop(key))
        up = torch.nn.Parameter(factors.pop(key.replace("lora_A", "lora_B")))
        assert (up == 0).all() and (down != 0).any()
        trained += [down, up]
        linear = torch.nn.functional.linear

        def forward(x: Any, layer: Any = layer, down: Any = down, up: Any = up) -> Any:
            return linear(x, layer.weight, layer.bias) + scale * linear(linear(x, down), up)

        layer.forward = forward
    assert not factors and trained
    return trained


def test_a_training_goes_on_and_validation_chooses(tmp_path: Path) -> None:
    saved(tmp_path / "model")
    model = Chronos(tmp_path / "model", device="cpu")
    inputs = series(3)
    given: Any = {"validation": inputs, "steps": 12, "batch": 3, "every": 4, "lr": 1e-3, "shortest": 5}
    whole = model.fit(inputs, 8, **given)
    assert [point["step"] for point in whole.history] == [0, 4, 8, 12]
    validations = {point["step"]: point["validation"] for point in whole.history}
    assert whole.chosen == min(validations.items(), key=lambda point: point[1])

    def interrupt(point: dict[str, Any]) -> None:
        if point["step"] == 8:
            raise RuntimeError("that is enough")

    with pytest.raises(RuntimeError, match="that is enough"):
        model.fit(inputs, 8, folder=tmp_path / "run", progress=interrupt, **given)
    rest: list[int] = []
    resumed = model.fit(inputs, 8, folder=tmp_path / "run", progress=lambda point: rest.append(point["step"]), **given)
    assert rest == [12] and resumed.history == whole.history and resumed.chosen == whole.chosen
    for tuned, name in [(whole, "whole"), (resumed, "resumed")]:
        tuned.save(tmp_path / name)
    files = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "resumed")]
    assert files[0] == files[1]
    with pytest.raises(landfall.FileError, match="training of other series"):
        model.fit(series(2), 8, folder=tmp_path / "run", **given)
    # A trained model trains on.
    assert whole.fit(inputs, 8, steps=1, batch=3).history[0]["losses"][0] > 0


def test_what_is_wrong_of_a_training_is_told(tmp_path: Path) -> None:
    saved(tmp_path)
    model = Chronos(tmp_path, device="cpu")
    inputs = [wave(50)]
    for wrong, text in [
        ({"steps": 0}, "steps 0: give a whole number"),
        ({"batch": 2.5}, "batch 2.5"),
        ({"lr": "fast"}, "lr 'fast': give a number"),
        ({"lr": -1.0}, "lr"),
        ({"dtype": "int8"}, "dtype 'int8': give 'float32'"),
        ({"adapter": 8}, "adapter is a int; give a landfall.chronos.LowRank"),
        ({"adapter": LowRank(targets=["moon"])}, "moon"),
        ({"seed": -1}, "seed -1"),
        ({"context": 129}, "the context is 129 rows; it must be 1 to 128"),
        ({"shortest": 60}, "has 50 rows, and a window takes 68"),
        ({"validation": [np.stack([wave(50), wave(50)])]}, "groups of validation have 2 targets"),
    ]:
        with pytest.raises((landfall.ArgumentError, landfall.InvalidValueError), match=text):
            model.fit(inputs, 8, **wrong)
    with pytest.raises(landfall.InvalidValueError, match="the horizon is 33; it must be 1 to 32"):
        model.fit(inputs, 33)
    with pytest.raises(landfall.ArgumentError, match="there is no adapter"):
        model.fit(inputs, 8, steps=1).save_adapter(tmp_path / "adapter")
