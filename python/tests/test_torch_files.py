"""Files of `torch.save` hold what `torch.load` gives, bit for bit; what they hold that no tensor is, is refused by name."""

import io
import zipfile

import numpy as np
import pytest

import landfall as lf
from dtypes import DTYPES

torch = pytest.importorskip("torch")


def same(tensors, path, **keywords):
    """That a file of these tensors loads as in torch, bit for bit."""
    torch.save(tensors, path, **keywords)
    want = torch.load(path, weights_only=False)
    got = lf.load(path)
    assert got.keys() == want.keys()
    for name, tensor in want.items():
        tensor = tensor.detach().resolve_neg().contiguous()
        assert got[name].shape == tuple(tensor.shape), name
        assert got[name].numpy().tobytes() == tensor.numpy().tobytes(), name


def values(dtype, count=24):
    return (torch.arange(count) % 5 - 2).to(getattr(torch, dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_views(dtype, tmp_path):
    x = values(dtype)
    grid = x.reshape(2, 3, 4)
    same(
        {
            "whole": x, "tied": x, "also tied": x[:], "part": x[3:9], "steps": x[1::3], "transposed": grid.transpose(0, 2), "column": grid[:, 1],
            "stretched": x[:4].expand(5, 4), "one stretched": x[2].expand(3, 2), "windows": x.unfold(0, 5, 2), "overlapping":
            torch.as_strided(x, (3, 3), (1, 1), 2), "scalar": x[7], "none": x[:0], "none of many": grid[:, :0], "new axis": x[None, :, None],
            "diagonal": torch.diagonal(x[:16].reshape(4, 4)),
        },
        tmp_path / "x.pt",
    )  # fmt: skip


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d != "bool"])
def test_negative_views(dtype, tmp_path):
    x = values(dtype)
    grid = torch._neg_view(x.reshape(4, 6))
    same({"whole": torch._neg_view(x), "turned": grid.T, "twice": torch._neg_view(grid), "part": grid[1, 2:4]}, tmp_path / "x.pt")


def test_imaginary_parts_of_conjugates(tmp_path):
    x = torch.tensor([1 + 2j, 3 - 0j, complex(float("nan"), float("nan"))]).conj()
    same({"imaginary": x.imag, "real": x.real}, tmp_path / "x.pt")


def test_tied_modules(tmp_path):
    model = torch.nn.ModuleDict({"emb": torch.nn.Embedding(7, 5), "head": torch.nn.Linear(5, 7, bias=False)})
    model["head"].weight = model["emb"].weight
    same(model.state_dict(), tmp_path / "x.pt")
    same(dict(model.named_parameters(remove_duplicate=False)), tmp_path / "x.pt")
    same({f"layer{i}.weight": model["head"].weight for i in range(24)}, tmp_path / "x.pt", pickle_protocol=4)


def test_names(tmp_path):
    names = ["", " ", "a\0b", "\U0001f409", 'quoted"\\', "__metadata__", "n" * 300, "a/b", "\n"]
    same({name: torch.full((2,), float(i)) for i, name in enumerate(names)}, tmp_path / "x.pt")
    lf.save(tmp_path / "x.safetensors", {name: np.ones(i, "f4") for i, name in enumerate(names) if name != "__metadata__"})
    assert lf.load(tmp_path / "x.safetensors").keys() == set(names) - {"__metadata__"}
    with pytest.raises(lf.Error, match="no tensor named __metadata__"):
        lf.save(tmp_path / "x.safetensors", {"__metadata__": np.ones(1, "f4")})
    assert len(lf.load(tmp_path / "x.safetensors")) == len(names) - 1, "the file that was there is untouched"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "made, said",
    [
        (lambda: torch.zeros(2, dtype=torch.float8_e4m3fn), "torch.float8_e4m3fn"),
        (lambda: torch.zeros(2, dtype=torch.int8), "torch.int8"),
        (lambda: torch.zeros(2, dtype=torch.int16), "torch.int16"),
        (lambda: torch.zeros(2, dtype=torch.uint16), "torch.uint16"),
        (lambda: torch.zeros(2, dtype=torch.complex64), "torch.complex64"),
        (lambda: torch.zeros(2, dtype=torch.complex128).conj(), "torch.complex128"),
        (lambda: torch.eye(2).to_sparse(), "sparse tensor"),
        (lambda: torch.eye(2).to_sparse_csr(), "sparse tensor"),
        (lambda: torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8), "quantized tensor"),
        (lambda: torch.empty(2, device="meta"), "device meta"),
        (lambda: {"nested": torch.ones(2)}, "`a` is a dict"),
        (lambda: [torch.ones(2), torch.ones(2)], "`a` is a list"),
        (lambda: 3, "`a` is an integer"),
        (lambda: 3.5, "`a` is a float"),
        (lambda: None, "`a` is None"),
    ],
)
def test_what_is_no_tensor_is_named(made, said, tmp_path):
    torch.save({"a": made()}, tmp_path / "x.pt")
    with pytest.raises(lf.Error, match=said):
        lf.load(tmp_path / "x.pt")


def test_other_files_are_named(tmp_path):
    def told(thing, **keywords):
        torch.save(thing, tmp_path / "x.pt", **keywords)
        with pytest.raises(lf.Error) as error:
            lf.load(tmp_path / "x.pt")
        return str(error.value)

    x = torch.ones(2)
    assert "no dict of tensors" in told(x)
    assert "no dict of tensors" in told([x])
    for protocol in [2, 3, 4]:
        said = told({"x": x}, _use_new_zipfile_serialization=False, pickle_protocol=protocol)
        assert "that of torch before 1.6" in said, (protocol, said)
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.Adam(model.parameters())
    model(x).sum().backward()
    optimizer.step()
    assert "save model.state_dict()" in told({"model": model.state_dict(), "optimizer": optimizer.state_dict()})
    torch.jit.save(torch.jit.script(model), tmp_path / "x.pt")
    with pytest.raises(lf.Error):
        lf.load(tmp_path / "x.pt")


def test_views_behind_their_storage_take_no_memory(tmp_path):
    """A file that says of 16 bytes that they are 2^40 elements, or begin behind their end."""
    torch.save({"x": torch.arange(4.0)}, tmp_path / "x.pt")
    records = {}
    with zipfile.ZipFile(tmp_path / "x.pt") as archive:
        for name in archive.namelist():
            records[name] = archive.read(name)
    pickle = next(name for name in records if name.endswith("data.pkl"))
    before = b"K\x00K\x04\x85q\x08K\x01\x85q\x09"
    assert before in records[pickle]
    huge = b"\x8a\x06\x00\x00\x00\x00\x00\x01"
    for offset, size, stride in [
        (b"K\x00", huge, b"K\x00"), (b"K\x00", huge, b"K\x01"), (b"K\x01", b"K\x04", b"K\x01"), (b"K\x00", b"K\x04", huge),
        (huge, b"K\x01", b"K\x01"), (b"J\xff\xff\xff\xff", b"K\x04", b"K\x01"), (b"K\x03", b"K\x04", b"J\xff\xff\xff\xff"),
    ]:  # fmt: skip
        changed = io.BytesIO()
        with zipfile.ZipFile(changed, "w") as archive:
            for name, content in records.items():
                after = offset + size + b"\x85q\x08" + stride + b"\x85q\x09"
                archive.writestr(name, content.replace(before, after) if name == pickle else content)
        (tmp_path / "y.pt").write_bytes(changed.getvalue())
        with pytest.raises(lf.Error, match="tensor x|in its pickle"):
            lf.load(tmp_path / "y.pt")
