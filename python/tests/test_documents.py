"""Every block of Python in the documents, and of a notebook, runs, in the order of its page, on small data."""

import itertools
import json
import pathlib
import re

import numpy as np
import pytest

import landfall as lf

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"


def blocks(page):
    text = (DOCS / page).read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def run(block, page, names):
    exec(compile(block, page, "exec"), names)


def test_arrays():
    names = {}
    for block in blocks("python-arrays.md"):
        run(block, "python-arrays.md", names)
    assert np.allclose(names["y"].sum(axis=-1), 1)


def test_coming_from_pytorch(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in blocks("coming-from-pytorch.md"):
        run(block, "coming-from-pytorch.md", names)
    assert (tmp_path / "weights.safetensors").exists()


def test_attention_of_the_page_is_that_of_pytorch():
    torch = pytest.importorskip("torch")
    names = {}
    run(blocks("coming-from-pytorch.md")[0], "coming-from-pytorch.md", names)
    x, w = torch.from_numpy(names["x"]), torch.from_numpy(names["w"])
    q, k, v = (part.reshape(2, 10, 4, 8).transpose(1, 2) for part in (x @ w).chunk(3, dim=-1))
    y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    expected = y.transpose(1, 2).reshape(2, 10, 32).numpy()
    assert np.allclose(names["first"], expected, atol=1e-5) and np.allclose(names["second"], expected, atol=1e-5)


def test_coming_from_transformer_engine():
    torch = pytest.importorskip("torch")
    names = {}
    for block in blocks("coming-from-transformerengine.md"):
        run(block, "coming-from-transformerengine.md", names)
    x, probs, mask = (names[name].detach() for name in ("x", "probs", "routing_map"))
    torch.testing.assert_close(names["y"].detach(), x * (probs * mask).sum(1, keepdim=True))
    assert names["router"].grad.abs().max() > 0 and names["z"].shape == x.shape
    assert "bytes 0..16384 and 0..16384" in names["refused"]


def test_the_notebook_of_jax():
    pytest.importorskip("jax")
    names = {}
    for cell in json.loads((DOCS / "moe_in_jax.ipynb").read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            assert cell["execution_count"]
            run("".join(cell["source"]), "moe_in_jax.ipynb", names)
    assert max(names["same"]) < 1e-5
    assert "bytes 0..128 and 0..128" in names["refused"]
    assert np.mean(names["losses"][-80:]) < names["single"] / 4


def test_the_library(tmp_path, monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    draw = lambda *shape: random.normal(size=shape).astype("float32")  # noqa: E731
    text = blocks("python.md")
    names = {"a": draw(4, 4), "b": draw(4, 4), "q": draw(2, 3, 8), "k": draw(2, 3, 8), "v": draw(2, 3, 8)}
    for block in text:
        if block.startswith("lf.ops.matmul"):
            with pytest.raises(lf.AliasError):
                run(block, "python.md", names)
            continue
        if block.startswith("def predict"):
            names |= {"x": draw(8, 16), "y": draw(8, 4), "weight": draw(16, 4), "bias": draw(4)}
        elif block.startswith("def network"):
            names |= {"x": draw(8, 16), "w0": draw(16, 16), "b0": draw(16), "w1": draw(16, 16), "b1": draw(16)}
        elif block.startswith("buckets"):
            names |= {"tokens": draw(2, 50, 16), "mask": np.ones((2, 50), dtype=bool)}
            names["model"] = lambda tokens, mask, layers: (tokens @ layers[0]["weight"]).sum(axes=-1).where(mask, 0)
        elif block.startswith("def sample"):
            names |= {"mean": draw(5), "deviation": np.ones(5, "float32")}
        elif block.startswith("def loss"):
            names |= {"x": draw(64, 16), "y": draw(64, 4), "w": draw(16, 4), "b": draw(4)}
        elif block.startswith("def stream"):
            names |= {"np": np, "itertools": itertools}
        elif block.startswith("import landfall.torch"):
            names |= {"x": torch.randn(4, 8), "gate": torch.randn(4, 8)}
            names["module"] = torch.nn.Linear(4, 16)
            names["module"].register_parameter("weight", torch.nn.Parameter(torch.zeros(16, 4)))
            names["module"].register_parameter("bias", torch.nn.Parameter(torch.zeros(4)))
        run(block, "python.md", names)
    assert (tmp_path / "trainer.safetensors").exists()
    first, second, again = (names[name].numpy() for name in ("first", "second", "again"))
    assert (first != second).any() and (first == again).all()
    assert np.allclose(np.sum(names["answers"], axis=-1), 1) and len(names["answers"]) == 8
    assert (names["queue"].numpy()[-32:] != 0).any() and names["likeness"].shape == (32, 128)


def test_the_forecaster(tmp_path, monkeypatch):
    pd = pytest.importorskip("pandas")
    pytest.importorskip("matplotlib").use("Agg")
    monkeypatch.chdir(tmp_path)
    rows, ids = 800, ["a", "b"]
    days = pd.date_range("2022-06-01", periods=rows + 28, freq="D")
    wave = np.arange(rows + 28)
    frame = pd.concat(
        pd.DataFrame(
            {
                "unique_id": name,
                "ds": days,
                "y": 20 + 5 * np.sin(wave * 2 * np.pi / 7) + i,
                "price": 1 + wave % 3,
                "event": np.where(wave % 30 == 0, "fair", "none"),
                "size": float(i),
                "region": "north" if i else "south",
                "weather": np.cos(wave),
            }
        )
        for i, name in enumerate(ids)
    )
    ahead = frame.ds > days[rows - 1]
    known = frame[~ahead]
    known[["unique_id", "ds", "y"]].to_csv("sales.csv", index=False)
    first, second = blocks("forecaster.md")
    # The page's recipe in fewer steps.
    small = lambda block: block.replace("horizon=", "max_steps=2, device='cpu', threads=1, horizon=")  # noqa: E731
    names = {}
    run(small(first), "forecaster.md", names)
    assert (tmp_path / "forecast.png").stat().st_size > 1000 and (tmp_path / "runs/sales/config.toml").exists()
    names |= {"df": known, "next_month": frame.loc[ahead, ["unique_id", "ds", "price", "event"]]}
    run(small(second), "forecaster.md", names)
