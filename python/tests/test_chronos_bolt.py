"""Chronos-Bolt beside its authors' package: small random models that it saves, and the same inputs to both."""

import json
import warnings
from pathlib import Path
from typing import Any

import landfall
import numpy as np
import pytest
from landfall.chronos import Chronos
from test_chronos import apart_of_scale, gaps, wave

chronos = pytest.importorskip("chronos", reason="chronos-forecasting is not installed")
torch = pytest.importorskip("torch")

LEVELS = [i / 10 for i in range(1, 10)]


def saved(folder: Path, seed: int = 1, **sizes: Any) -> Any:
    """A small model with random weights, saved by the authors' package."""
    from chronos.chronos_bolt import ChronosBoltModelForForecasting, ChronosBoltPipeline
    from transformers import T5Config

    own = {
        "context_length": sizes.pop("context_length", 128),
        "prediction_length": sizes.pop("prediction_length", 16),
        "input_patch_size": sizes.get("patch", 8),
        "input_patch_stride": sizes.pop("patch", 8),
        "quantiles": sizes.pop("quantiles", LEVELS),
        "use_reg_token": sizes.pop("use_reg_token", True),
    }
    given = {
        "d_model": 32,
        "d_kv": 8,
        "d_ff": 64,
        "num_layers": 2,
        "num_heads": 4,
        "decoder_start_token_id": 0,
        **sizes,
    }
    torch.manual_seed(seed)
    config = T5Config(
        **given,
        chronos_config=own,
        architectures=["ChronosBoltModelForForecasting"],
        chronos_pipeline_class="ChronosBoltPipeline",
        dropout_rate=0.0,
    )
    model = ChronosBoltModelForForecasting(config).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            # So that every weight is felt, and biases of attention are of the size of its products.
            if name.endswith(("layer.bias", "layer_norm.weight")):
                weight.add_(0.3 * torch.randn_like(weight))
            elif "relative_attention_bias" in name:
                weight.copy_(torch.randn_like(weight))
            elif "patch_embedding" in name:
                weight.mul_(0.3)
    model.save_pretrained(folder)
    return ChronosBoltPipeline(model)


#: Inputs, horizon, and sizes of the model that differ.
CASES: dict[str, Any] = {
    "one series": ([wave(100)], 12, {}),
    "one value": ([wave(1)], 16, {}),
    "a patch": ([wave(8)], 16, {}),
    "no multiple of a patch": ([wave(61)], 5, {}),
    "the context": ([wave(128)], 16, {}),
    "longer than the context": ([wave(500)], 16, {}),
    "lengths": ([wave(rows, rows) for rows in (3, 17, 40, 129, 400)], 16, {}),
    "missing rows": ([gaps(wave(100), 3, slice(20, 29), -1)], 12, {}),
    "a missing patch": ([gaps(wave(96), slice(40, 64))], 12, {}),
    "missing at both ends": ([gaps(wave(96), slice(0, 30), slice(88, 96))], 12, {}),
    "nothing known in the context": ([gaps(wave(200), slice(72, 200))], 12, {}),
    "a constant": ([np.full(50, 7.0), wave(50)], 12, {}),
    "units": ([wave(90, 2, 1e4), wave(90, 2, 1e-3) - 2e-3], 12, {}),
    "many series": ([wave(60, i) for i in range(300)], 4, {}),
    "beyond a pass": ([wave(100)], 40, {}),
    "far beyond": ([wave(100), gaps(wave(120, 1), slice(10, 50))], 90, {}),
    "lengths beyond": ([wave(rows, rows) for rows in (1, 30, 128, 300)], 33, {}),
    "a constant beyond": ([np.full(50, 7.0)], 20, {}),
    "without a token": ([wave(100), wave(30, 1)], 12, {"use_reg_token": False}),
    "without a token, missing": ([gaps(wave(96), slice(8, 24), slice(40, 64))], 40, {"use_reg_token": False}),
    "three levels": ([wave(50)], 40, {"quantiles": [0.1, 0.5, 0.9]}),
    "uneven levels": ([wave(50)], 40, {"quantiles": [0.01, 0.05, 0.3, 0.5, 0.6, 0.95]}),
    "one level": ([wave(50)], 40, {"quantiles": [0.5]}),
    "gated": ([wave(100), wave(20, 3)], 20, {"feed_forward_proj": "gated-gelu"}),
    "gated by another function": ([wave(100)], 12, {"feed_forward_proj": "gated-silu"}),
    "gelu": ([wave(100)], 12, {"feed_forward_proj": "gelu"}),
    "a decoder of three layers": ([wave(100)], 20, {"num_decoder_layers": 3, "num_layers": 1}),
    "deep": ([wave(50), wave(128)], 10, {"num_layers": 6, "d_kv": 16, "d_ff": 40}),
    "few buckets": ([wave(400)], 12, {"relative_attention_num_buckets": 6, "relative_attention_max_distance": 7}),
    "many patches": ([wave(700)], 12, {"patch": 4, "context_length": 640, "relative_attention_max_distance": 100}),
    "a horizon of no whole patches": ([wave(100)], 30, {"prediction_length": 13}),
    "a context of no whole patches": ([wave(200)], 30, {"context_length": 100}),
    "another first token": ([wave(100)], 12, {"decoder_start_token_id": 1}),
}


@pytest.mark.parametrize("name", CASES)
def test_forecasts_are_those_of_the_authors(tmp_path: Path, name: str) -> None:
    inputs, horizon, sizes = CASES[name]
    theirs = saved(tmp_path, **sizes)
    ours = Chronos(tmp_path, device="cpu")
    assert ours.quantiles == pytest.approx(theirs.quantiles)
    assert ours.context_length == theirs.model_context_length
    own = ours.forecast(inputs, horizon)
    with warnings.catch_warnings():
        # Of horizons beyond a pass.
        warnings.simplefilter("ignore", UserWarning)
        given = [torch.tensor(rows, dtype=torch.float32) for rows in inputs]
        expected = theirs.predict(given, prediction_length=horizon).numpy().astype(np.float64)
    assert len(own) == len(expected)
    for a, b, rows in zip(own, expected, inputs, strict=True):
        assert a.shape == (1, len(theirs.quantiles), horizon)
        apart = apart_of_scale(a, b[None], rows)
        assert apart < 1e-5, apart


def test_the_forecaster_takes_a_folder(tmp_path: Path) -> None:
    saved(tmp_path)
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"ds": pandas.date_range("2024-01-01", periods=30), "y": wave(30)})
    forecaster = landfall.Forecaster("zero-shot", horizon=6, pretrained=tmp_path, device="cpu")
    own = forecaster.fit(frame).predict()["zero-shot"]
    # Quantiles of random weights cross; those of a forecaster ascend.
    quantiles = np.sort(Chronos(tmp_path, device="cpu").forecast([wave(30)], 6)[0][0], axis=0)
    assert np.allclose(own.to_numpy(), quantiles[LEVELS.index(0.5)], rtol=1e-4)


def test_bfloat16_is_near(tmp_path: Path) -> None:
    saved(tmp_path)
    given = [wave(100), gaps(wave(60, 1), slice(20, 40))]
    exact = Chronos(tmp_path, device="cpu").forecast(given, 16)
    rounded = Chronos(tmp_path, device="cpu", dtype="bfloat16").forecast(given, 16)
    for a, b, rows in zip(exact, rounded, given, strict=True):
        assert 0 < apart_of_scale(b, a, rows) < 0.05


def test_what_is_saved_is_read_by_the_authors(tmp_path: Path) -> None:
    from chronos.chronos_bolt import ChronosBoltPipeline

    saved(tmp_path / "first", feed_forward_proj="gated-gelu")
    ours = Chronos(tmp_path / "first", device="cpu")
    ours.save(tmp_path / "second")
    theirs = ChronosBoltPipeline.from_pretrained(tmp_path / "second")
    expected = theirs.predict([torch.tensor(wave(90), dtype=torch.float32)], prediction_length=16).numpy()
    assert apart_of_scale(ours.forecast([wave(90)], 16)[0], expected, wave(90)) < 1e-5


def test_an_adapter_is_merged(tmp_path: Path) -> None:
    """One as the PEFT library writes it, of a part of stacked weights and of a product that stands alone."""
    from safetensors.torch import save_file

    theirs, adapter, factors = saved(tmp_path), tmp_path / "adapter", {}
    for layer in ("encoder.block.1.layer.0.SelfAttention.k", "decoder.block.0.layer.1.EncDecAttention.q"):
        down, up = 0.2 * torch.randn(2, 32), 0.2 * torch.randn(32, 2)
        names = [f"base_model.model.{layer}.lora_{factor}.weight" for factor in "AB"]
        factors.update(zip(names, (down, up), strict=True))
        with torch.no_grad():
            theirs.model.get_submodule(layer).weight.add_(1.5 * up @ down)
    adapter.mkdir()
    save_file(factors, adapter / "adapter_model.safetensors")
    targets = ["encoder.block.1.layer.0.SelfAttention.k", "block.0.layer.1.EncDecAttention.q"]
    options = {"peft_type": "LORA", "r": 2, "lora_alpha": 3.0, "target_modules": targets}
    (adapter / "adapter_config.json").write_text(json.dumps(options))
    own = Chronos(tmp_path, adapter=adapter, device="cpu").forecast([wave(90)], 16)[0]
    expected = theirs.predict([torch.tensor(wave(90), dtype=torch.float32)], prediction_length=16).numpy()
    assert apart_of_scale(own, expected, wave(90)) < 1e-5
    assert apart_of_scale(Chronos(tmp_path, device="cpu").forecast([wave(90)], 16)[0], expected, wave(90)) > 1e-3


def test_what_a_bolt_has_not_is_told(tmp_path: Path) -> None:
    saved(tmp_path)
    model = Chronos(tmp_path, device="cpu")
    covariate = {"price": wave(50)}
    for entry in [
        np.stack([wave(50), wave(50)]),
        {"target": wave(50), "past_covariates": covariate},
        {"target": wave(50), "past_covariates": covariate, "future_covariates": {"price": wave(4)}},
    ]:
        with pytest.raises(
            landfall.InvalidValueError, match="has 2 series; a Chronos-Bolt forecasts each series for itself"
        ):
            model.forecast([entry], 4)
    with pytest.raises(landfall.InvalidValueError, match="a chronos-bolt is not trained further"):
        model.fit([wave(50)], 8)
    saved(tmp_path, feed_forward_proj="gated-tanh")
    with pytest.raises(landfall.FileError, match='feed_forward_proj is "gated-tanh"; relu, gelu, gelu_new and silu'):
        Chronos(tmp_path)
