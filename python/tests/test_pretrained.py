"""Weights of transformers and of the official PatchTST, read and written: forecasts agree to 1e-5 in scaled units.

The program is that of the package, or the one that LANDFALL_PROGRAM names; LANDFALL_SHARED names the folder with the official
implementation's trace.
"""

from __future__ import annotations

import csv
import math
import os
import pathlib
import subprocess
import sys

import pytest

np = pytest.importorskip("numpy")
torch = pytest.importorskip("torch")
tomllib = pytest.importorskip("tomllib")

PROGRAM = [os.environ["LANDFALL_PROGRAM"]] if "LANDFALL_PROGRAM" in os.environ else [sys.executable, "-m", "landfall._program"]
SHARED = pathlib.Path(os.environ.get("LANDFALL_SHARED", pathlib.Path(__file__).parents[3] / "shared"))
TOLERANCE = 1e-5
COLUMNS = ["load", "wind", "sun"]


def run(*words, code=0) -> subprocess.CompletedProcess:
    done = subprocess.run([*PROGRAM, *map(str, words)], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == code, f"{words}\n{done.stdout}\n{done.stderr}"
    return done


def refused(*words) -> str:
    return run(*words, code=2).stderr.strip().splitlines()[-1]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Values of an hourly file, and the file."""
    rng = np.random.default_rng(5)
    hours = np.arange(700)
    waves = [10 * np.sin(hours * math.tau / 24), np.cos(hours / 40), 100 * np.sin(hours * math.tau / 168)]
    values = np.stack([50 + waves[0], 3 + waves[1], 200 + waves[2]], 1) + rng.normal(size=(700, 3)) * [1, 0.2, 9]
    path = tmp_path_factory.mktemp("data") / "d.csv"
    start = np.datetime64("2021-01-01T00")
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["date", *COLUMNS])
        writer.writerows([str(start + hour).replace("T", " ") + ":00", *map(repr, map(float, row))] for hour, row in zip(hours, values))
    return values, path


def scaler(folder):
    table = tomllib.loads((folder / "config.toml").read_text())["scaler"][0]
    return np.array(table["mean"]), np.array(table["std"])


def forecast(folder):
    """The program's forecast of a run, scaled: [horizon, columns]."""
    rows = list(csv.reader(run("forecast", folder, "--device", "cpu").stdout.splitlines()))
    values = np.array([[float(cell) for cell in row[1:]] for row in rows[1:]])
    mean, std = scaler(folder)
    return (values - mean) / std


def error(model, folder, values, context):
    """Largest difference of a model's forecast from the program's. The model is computed in f64."""
    mean, std = scaler(folder)
    window = torch.tensor((values[-context:] - mean) / std)[None]
    with torch.no_grad():
        expected = model.double().eval()(window)
    expected = getattr(expected, "prediction_outputs", expected)[0].numpy()
    return np.abs(forecast(folder) - expected).max()


def train(model, values, context, horizon, steps):
    """Some steps of Adam, in place."""
    values = torch.tensor((values - values.mean(0)) / values.std(0), dtype=torch.float32)
    adam = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=1e-3)
    generator = torch.Generator().manual_seed(1)
    model.train()
    for _ in range(steps):
        starts = torch.randint(0, len(values) - context - horizon, (16,), generator=generator)
        windows = torch.stack([values[s : s + context + horizon] for s in starts])
        adam.zero_grad()
        out = model(windows[:, :context])
        out = getattr(out, "prediction_outputs", out)
        torch.nn.functional.mse_loss(out, windows[:, context:]).backward()
        adam.step()


# Hugging Face


def hugging_face(**options):
    transformers = pytest.importorskip("transformers")
    sizes = dict(
        num_input_channels=3,
        context_length=96,
        prediction_length=12,
        patch_length=16,
        patch_stride=8,
        num_hidden_layers=2,
        d_model=32,
        num_attention_heads=4,
        ffn_dim=64,
        pooling_type=None,
    )
    torch.manual_seed(3)
    return transformers.PatchTSTForPrediction(transformers.PatchTSTConfig(**{**sizes, **options}))


CONFIGURATIONS = {
    "post-norm": dict(pre_norm=False),
    "pre-norm": dict(pre_norm=True),
    "layer norm": dict(norm_type="layernorm", positional_encoding_type="random"),
    "tanh": dict(activation_function="gelu_new", pre_norm=False),
    "the mean over patches": dict(pooling_type="mean"),
    "not scaled": dict(scaling=None),
    # 96 - 12 is 7 times 12; 100 - 12 leaves 4 rows at the start.
    "granite's patches": dict(context_length=100, patch_length=12, patch_stride=12, pooling_type="mean"),
    "dropouts": dict(path_dropout=0.2, ff_dropout=0.2, head_dropout=0.1),
}


@pytest.mark.parametrize("steps", [0, 20], ids=["random", "trained"])
@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_transformers_to_landfall(name, steps, data, tmp_path):
    values, path = data
    model = hugging_face(**CONFIGURATIONS[name])
    context, horizon = model.config.context_length, model.config.prediction_length
    if steps:
        train(model, values, context, horizon, steps)
    model.save_pretrained(tmp_path / "hf")
    told = run("import", tmp_path / "hf", "--data", path, "--out", tmp_path / "run", "--device", "cpu")
    worst = error(model, tmp_path / "run", values, context)
    print(f"{name}, {steps} steps: {worst:.1e}")
    assert worst <= TOLERANCE
    assert ("head_dropout 0.1" in told.stderr) == (name == "dropouts"), told.stderr
    assert ("mean over the patches" in told.stderr) == (model.config.pooling_type == "mean"), told.stderr


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_weights_in_other_dtypes(dtype, data, tmp_path):
    values, path = data
    model = hugging_face().to(getattr(torch, dtype))
    model.save_pretrained(tmp_path / "hf")
    run("import", tmp_path / "hf", "--data", path, "--out", tmp_path / "run", "--device", "cpu")
    worst = error(model, tmp_path / "run", values, 96)
    print(f"{dtype}: {worst:.1e}")
    assert worst <= TOLERANCE


def test_the_older_form_of_weights(data, tmp_path):
    values, path = data
    model = hugging_face()
    model.save_pretrained(tmp_path / "hf")
    (tmp_path / "hf" / "model.safetensors").unlink()
    torch.save(model.state_dict(), tmp_path / "hf" / "pytorch_model.bin")
    run("import", tmp_path / "hf", "--data", path, "--out", tmp_path / "run", "--device", "cpu")
    assert error(model, tmp_path / "run", values, 96) <= TOLERANCE


def test_fine_tuning_evaluating_and_back(data, tmp_path):
    """train --init, evaluate, export, from_pretrained: the model that comes back is the run's."""
    transformers = pytest.importorskip("transformers")
    values, path = data
    hugging_face(pre_norm=False).save_pretrained(tmp_path / "hf")
    common = ("--data", path, "--init", tmp_path / "hf", "--device", "cpu", "--max-steps", 20, "--out", tmp_path / "run")
    run("train", *common)
    config = tomllib.loads((tmp_path / "run" / "config.toml").read_text())
    # Sinusoids are not trained there, and not here.
    assert (config["context"], config["horizon"], config["freeze"]) == (96, 12, ["W_pos"])
    run("evaluate", tmp_path / "run", "--device", "cpu")
    # What the default recipe chose may be another network; the export is of the PatchTST alone, or refused.
    run("train", *common[:-1], tmp_path / "second", "--config", tmp_path / "run" / "config.toml", "--lr", "1e-4")
    direct = tmp_path / "direct"
    run("import", tmp_path / "hf", "--data", path, "--out", direct, "--device", "cpu")
    run("export", direct, "--hugging-face", tmp_path / "back")
    back = transformers.PatchTSTForPrediction.from_pretrained(tmp_path / "back")
    assert error(back, direct, values, 96) <= TOLERANCE


NETWORK = """
[network]
patch = 16
stride = 8
d-model = 32
heads = 4
layers = 2
d-ff = 64
"""


def trained(data, tmp_path, network="", flags=()):
    _, path = data
    (tmp_path / "c.toml").write_text(NETWORK + network)
    common = ("--preset", "patchtst-42", "--config", tmp_path / "c.toml", "--data", path, "--horizon", 12)
    rest = ("--max-steps", 20, "--schedule", "constant", "--lr", "1e-3", "--device", "cpu", "--out", tmp_path / "run")
    run("train", *common, *rest, *(flags or ("--context", 96)))
    return tmp_path / "run"


@pytest.mark.parametrize(
    "network, flags",
    [
        ("residual-attention = false\npadding = false\n", ()),
        ("residual-attention = false\npadding = false\nnorm = 'layer'\norder = 'pre'\ngelu = 'tanh'\n", ()),
        ("residual-attention = false\npadding = false\nrevin = false\n", ("--context", 96, "--dropout", 0)),
        ("residual-attention = false\npadding = false\ndrop-first-rows = true\n", ("--context", 99)),
    ],
)
def test_landfall_to_transformers(network, flags, data, tmp_path):
    transformers = pytest.importorskip("transformers")
    folder = trained(data, tmp_path, network, flags)
    run("export", folder, "--hugging-face", tmp_path / "hf")
    model, loading = transformers.PatchTSTForPrediction.from_pretrained(tmp_path / "hf", output_loading_info=True)
    assert not loading["missing_keys"] and not loading["unexpected_keys"], loading
    worst = error(model, folder, data[0], model.config.context_length)
    print(f"{network!r}: {worst:.1e}")
    assert worst <= TOLERANCE


# The official implementation


class Attention(torch.nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.W_Q, self.W_K, self.W_V = (torch.nn.Linear(d, d) for _ in range(3))
        self.sdp_attn = torch.nn.Module()
        self.sdp_attn.scale = torch.nn.Parameter(torch.tensor((d // heads) ** -0.5), requires_grad=False)
        self.to_out = torch.nn.Sequential(torch.nn.Linear(d, d), torch.nn.Dropout(0.0))

    def forward(self, x, previous):
        def split(y):
            return y.unflatten(-1, (self.heads, -1)).transpose(1, 2)

        q, k, v = split(self.W_Q(x)), split(self.W_K(x)), split(self.W_V(x))
        scores = q @ k.transpose(-1, -2) * self.sdp_attn.scale
        scores = scores if previous is None else scores + previous
        return self.to_out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2)), scores


class Swap(torch.nn.Module):
    def forward(self, x):
        return x.transpose(1, 2)


class EncoderLayer(torch.nn.Module):
    def __init__(self, d, heads, d_ff):
        super().__init__()
        self.self_attn = Attention(d, heads)
        self.ff = torch.nn.Sequential(torch.nn.Linear(d, d_ff), torch.nn.GELU(), torch.nn.Dropout(0.0), torch.nn.Linear(d_ff, d))
        self.norm_attn, self.norm_ffn = (torch.nn.Sequential(Swap(), torch.nn.BatchNorm1d(d), Swap()) for _ in range(2))

    def forward(self, x, previous):
        attended, scores = self.self_attn(x, previous)
        x = self.norm_attn(x + attended)
        return self.norm_ffn(x + self.ff(x)), scores


class Official(torch.nn.Module):
    """The published model (Nie et al. 2023) under the names of its authors' program: [B, L, C] to [B, H, C]."""

    def __init__(self, context, horizon, patch, stride, d, heads, layers, d_ff, residual=True, padding=True, revin=True):
        super().__init__()
        self.sizes, self.options = (patch, stride), (residual, padding, revin)
        patches = (context - patch) // stride + 1 + padding
        self.model = torch.nn.Module()
        backbone = self.model.backbone = torch.nn.Module()
        backbone.W_P = torch.nn.Linear(patch, d)
        backbone.W_pos = torch.nn.Parameter(torch.empty(patches, d).uniform_(-0.02, 0.02))
        backbone.encoder = torch.nn.Module()
        backbone.encoder.layers = torch.nn.ModuleList(EncoderLayer(d, heads, d_ff) for _ in range(layers))
        self.model.head = torch.nn.Module()
        self.model.head.linear = torch.nn.Linear(d * patches, horizon)

    def forward(self, x):
        (patch, stride), (residual, padding, revin) = self.sizes, self.options
        x = x.transpose(1, 2)
        if revin:
            mean, std = x.mean(-1, keepdim=True), (x.var(-1, keepdim=True, unbiased=False) + 1e-5).sqrt()
            x = (x - mean) / std
        if padding:
            x = torch.nn.functional.pad(x, (0, stride), mode="replicate")
        backbone, channels = self.model.backbone, x.shape[1]
        x = (backbone.W_P(x.unfold(-1, patch, stride)) + backbone.W_pos).flatten(0, 1)
        scores = None
        for layer in backbone.encoder.layers:
            x, scores = layer(x, scores if residual else None)
        x = x.unflatten(0, (-1, channels)).transpose(-1, -2).flatten(-2)
        x = self.model.head.linear(x)
        return (x * std + mean if revin else x).transpose(1, 2)


SMALL = dict(context=96, horizon=12, patch=16, stride=8, d=32, heads=4, layers=3, d_ff=64)


@pytest.mark.parametrize("form", ["w.pth", "w.safetensors", "parallel.pth"])
@pytest.mark.parametrize("steps", [0, 20], ids=["random", "trained"])
def test_official_to_landfall(form, steps, data, tmp_path):
    values, path = data
    torch.manual_seed(2)
    model = Official(**SMALL)
    if steps:
        train(model, values, 96, 12, steps)
    state = model.state_dict()
    if form.startswith("parallel"):
        state = {f"module.{name}": value for name, value in state.items()}
    if form.endswith("safetensors"):
        pytest.importorskip("safetensors.torch").save_file(state, tmp_path / form)
    else:
        torch.save(state, tmp_path / form)
    told = run("import", tmp_path / form, "--data", path, "--out", tmp_path / "run", "--device", "cpu")
    assert "context 96, stride 8, padding true" in told.stderr
    worst = error(model, tmp_path / "run", values, 96)
    print(f"{form}, {steps} steps: {worst:.1e}")
    assert worst <= TOLERANCE


def test_official_options_are_told(data, tmp_path):
    values, path = data
    torch.manual_seed(2)
    model = Official(**{**SMALL, "context": 101, "stride": 4}, residual=False, padding=False, revin=False)
    torch.save(model.state_dict(), tmp_path / "w.pth")
    (tmp_path / "c.toml").write_text("[network]\npadding = false\nrevin = false\nresidual-attention = false\n")
    words = ("import", tmp_path / "w.pth", "--data", path, "--config", tmp_path / "c.toml", "--device", "cpu")
    run(*words, "--context", 101, "--stride", 4, "--out", tmp_path / "run")
    assert error(model, tmp_path / "run", values, 101) <= TOLERANCE
    said = refused(*words, "--context", 104, "--stride", 4, "--out", tmp_path / "other")
    assert "--context 104 and 22 patches of" in said and "a context of 100 to 103" in said, said


@pytest.mark.parametrize("form", ["w.pth", "w.safetensors"])
def test_landfall_to_official(form, data, tmp_path):
    folder = trained(data, tmp_path)
    told = run("export", folder, "--official", tmp_path / form)
    assert "--seq_len 96 --pred_len 12 --patch_len 16 --stride 8 --padding_patch end" in told.stdout
    if form.endswith("safetensors"):
        state = pytest.importorskip("safetensors.torch").load_file(tmp_path / form)
    else:
        state = torch.load(tmp_path / form, weights_only=True)
    model = Official(**{**SMALL, "layers": 2})
    model.load_state_dict(state, strict=True)
    worst = error(model, folder, data[0], 96)
    print(f"{form}: {worst:.1e}")
    assert worst <= TOLERANCE


def test_this_official_model_is_the_official_one():
    """Its forecasts with the weights of the official implementation's run are those that this run gave."""
    golden = SHARED / "golden"
    if not golden.is_dir():
        pytest.skip(f"{golden} is not there (LANDFALL_SHARED names the folder)")
    load = pytest.importorskip("safetensors.torch").load_file
    model = Official(336, 96, 16, 8, 16, 4, 3, 128)
    model.load_state_dict(load(golden / "patchtst42_etth1_h96.final.safetensors"), strict=True)
    want = load(golden / "patchtst42_etth1_h96.predict.safetensors")
    with open(SHARED / "data" / "ETTh1.csv") as file:
        values = np.array([[float(cell) for cell in row[1:]] for row in list(csv.reader(file))[1:]])
    training = values[: 12 * 30 * 24]
    values = (values - training.mean(0)) / training.std(0)
    windows = np.stack([values[int(s) : int(s) + 336] for s in want["windows_start"]])
    with torch.no_grad():
        got = model.double().eval()(torch.tensor(windows))
    worst = (got - want["prediction"].reshape(got.shape)).abs().max().item()
    print(f"golden: {worst:.1e}")
    assert worst <= TOLERANCE


# Refusals


@pytest.mark.parametrize(
    "options, said",
    [
        (dict(channel_attention=True), "channel_attention is true; channels attend"),
        (dict(share_embedding=False), "share_embedding is false; all channels share"),
        (dict(share_projection=False), "share_projection is false; all channels share"),
        (dict(use_cls_token=True), "use_cls_token is true; it is not supported"),
        (dict(pooling_type="max"), 'pooling_type is "max"; null and "mean" are supported'),
        (dict(scaling="mean"), 'scaling is "mean"; "std" and null are supported'),
        (dict(scaling=True), 'scaling is true; "std" and null are supported'),
        (dict(loss="nll"), 'loss is "nll" with distribution_output "student_t"; a head of a distribution is not supported'),
        (dict(activation_function="relu"), 'activation_function is "relu"; gelu'),
        (dict(norm_eps=1e-6), "norm_eps is 1e-6; norms have 1e-5 here"),
        (dict(bias=False), "bias is false; the feed-forward layers have a bias here"),
    ],
)
def test_what_cannot_be_expressed_is_named(options, said, data, tmp_path):
    hugging_face(**options).save_pretrained(tmp_path / "hf")
    told = refused("import", tmp_path / "hf", "--data", data[1], "--out", tmp_path / "run")
    assert said in told, told
    assert not (tmp_path / "run").exists()


def test_what_contradicts_the_weights_is_named(data, tmp_path):
    hugging_face().save_pretrained(tmp_path / "hf")
    words = ("train", "--data", data[1], "--init", tmp_path / "hf", "--out", tmp_path / "run")
    config = tmp_path / "hf" / "config.json"
    why = "the weights are of that model"
    assert refused(*words, "--context", 64) == f"error: --context 64 and context_length 96 of {config}: {why}; leave it out"
    told = refused(*words, "--preset", "patchtst-42")
    assert f"--preset patchtst-42, with --context 336, and context_length 96 of {config}: {why}" in told
    assert "--model nlinear" in refused(*words, "--model", "nlinear")
    transformers = pytest.importorskip("transformers")
    transformers.PatchTSTModel(hugging_face().config).save_pretrained(tmp_path / "bare")
    assert 'architectures is ["PatchTSTModel"]' in refused("import", tmp_path / "bare", "--data", data[1])
    torch.save(hugging_face(), tmp_path / "whole.pth")
    told = refused("import", tmp_path / "whole.pth", "--data", data[1])
    assert "which is not loaded; save names and tensors alone" in told, told
    torch.save({"epoch": 3, "model": hugging_face().state_dict()}, tmp_path / "dict.pth")
    assert "`epoch` is an integer, no tensor" in refused("import", tmp_path / "dict.pth", "--data", data[1])
    torch.save(hugging_face().state_dict(), tmp_path / "old.pth", _use_new_zipfile_serialization=False)
    assert "that of torch before 1.6" in refused("import", tmp_path / "old.pth", "--data", data[1])


def test_what_others_cannot_express_is_named(data, tmp_path):
    folder = trained(data, tmp_path)
    told = refused("export", folder, "--hugging-face", tmp_path / "hf")
    assert "Hugging Face's PatchTST cannot express residual-attention = true" in told and not (tmp_path / "hf").exists()
