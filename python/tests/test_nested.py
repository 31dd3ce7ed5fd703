"""Nested parameters by dotted names, and weights that two names share."""

from collections import namedtuple

import numpy as np
import pytest

import landfall as lf

RNG = np.random.default_rng(0)
Layer = namedtuple("Layer", ["weight", "bias"])


def normal(*shape):
    return RNG.normal(size=shape).astype("f4")


def network(layers=3, size=4):
    return {"layers": [Layer(normal(size, size), normal(size)) for _ in range(layers)], "scale": (normal(size),)}


def same(a, b):
    assert type(a) is type(b)
    if isinstance(a, dict):
        assert list(a) == list(b)
        a, b = list(a.values()), list(b.values())
    if isinstance(a, (list, tuple)):
        assert len(a) == len(b)
        for x, y in zip(a, b):
            same(x, y)
    else:
        assert a is b


def test_names_and_back():
    params = network()
    flat = lf.nested.flatten(params)
    assert list(flat) == [f"layers.{i}.{name}" for i in range(3) for name in ("0", "1")] + ["scale.0"]
    same(lf.nested.unflatten(flat, like=params), params)
    assert lf.nested.unflatten(dict(reversed(flat.items())), like=params)["scale"][0] is params["scale"][0]
    # Without an example names before a dot are dictionaries, and counted ones lists.
    plain = {"a": [normal(2), {"b": normal(3)}], "c": {"1": normal(1)}}
    same(lf.nested.unflatten(lf.nested.flatten(plain)), plain)


def test_a_file_keeps_the_names(tmp_path):
    params = network()
    lf.save(tmp_path / "m.safetensors", lf.nested.flatten(params))
    read = lf.nested.unflatten(lf.load(tmp_path / "m.safetensors"), like=params)
    np.testing.assert_array_equal(read["layers"][2].bias.numpy(), params["layers"][2].bias)


@pytest.mark.parametrize(
    "call, text",
    [
        (lambda x: lf.nested.flatten({"a.b": x, "a": {"b": x}}), "two arrays have the name a.b"),
        (lambda x: lf.nested.flatten({"a": [x, 1.5]}), "a.1 is 1.5, a float; it must be an array"),
        (lambda x: lf.nested.flatten({"a": {3: x}}), "a has the key 3; a name is a text"),
        (lambda x: lf.nested.flatten(x), "a ndarray; it must be a dictionary, a list or a tuple"),
        (lambda x: lf.nested.unflatten({"a": x, "c": x}, like={"a": x, "b": x}), "b is missing; the names are a, b"),
        (lambda x: lf.nested.unflatten({"a": x, "c": x}, like={"a": x}), "there is no place for c; the names are a"),
        (lambda x: lf.nested.unflatten({"a": x, "a.b": x}), "a is the name of an array and of others below it"),
        (lambda x: lf.nested.unflatten({"a.b": x, "a": x}), "a is the name of an array and of others below it"),
        (lambda x: lf.compile(lambda y, w: y, x, params={"w": [x, None]}), "w.1 is None, a NoneType"),
        (lambda x: lf.compile(lambda y: y, x, params=[x]), "params is a list; it must be a dictionary"),
    ],
)
def test_what_has_no_names(call, text):
    with pytest.raises(lf.ArgumentError, match=text):
        call(normal(2, 2))


def test_a_function_takes_the_same_nesting():
    params, x = network(), normal(2, 4)

    def f(x, layers, scale):
        assert isinstance(layers, list) and isinstance(layers[0], Layer) and isinstance(scale, tuple)
        for layer in layers:
            x = (x @ layer.weight + layer.bias).tanh()
        return x * scale[0]

    program = lf.compile(f, x, params=params)
    assert list(program.inputs) == ["x", *lf.nested.flatten(params)]

    def expected(x):
        for layer in params["layers"]:
            x = np.tanh(x @ layer.weight + layer.bias)
        return x * params["scale"][0]

    np.testing.assert_allclose(program(x).numpy(), expected(x), rtol=1e-5, atol=1e-6)
    # The arrays are read where they lie.
    params["layers"][1].bias[:] = 0.5
    np.testing.assert_allclose(program(x).numpy(), expected(x), rtol=1e-5, atol=1e-6)
    program.bind({"layers.1.0": np.zeros((4, 4), "f4")})
    assert not np.allclose(program(x).numpy(), expected(x))


def test_a_tied_weight_is_one_input():
    weight, ids = normal(7, 4), np.array([1, 6, 2])

    def f(ids, embedding, head):
        return lf.ops.gather(embedding["weight"], ids, axis=0) @ head["weight"].T

    params = {"embedding": {"weight": weight}, "head": {"weight": weight}}
    program = lf.compile(f, ids, params=params)
    assert list(program.inputs) == ["ids", "embedding.weight"]
    np.testing.assert_allclose(program(ids).numpy(), weight[ids] @ weight.T, rtol=1e-5, atol=1e-6)
    weight *= 2
    np.testing.assert_allclose(program(ids).numpy(), weight[ids] @ weight.T, rtol=1e-5, atol=1e-6)
    for call in (lambda: program.bind({}, **{"head.weight": weight}), lambda: program(ids, **{"head.weight": weight})):
        with pytest.raises(lf.ArgumentError, match=r"head.weight is the same array as embedding.weight, and one input"):
            call()
    # Equal numbers in other memory are another weight, and so is a view of a part.
    apart = lf.compile(f, ids, params={"embedding": {"weight": weight}, "head": {"weight": weight.copy()}})
    assert len(apart.inputs) == 3


def test_the_gradient_of_a_tied_weight_is_that_of_both_uses():
    weight = normal(3, 3)
    x = normal(2, 3)

    def f(x, a, b):
        loss = ((x @ a) @ b).sum()
        return (*loss.gradients([a, b]),)

    first, second = lf.compile(f, x, params={"a": weight, "b": weight})(x)
    ones = np.ones((2, 3), "f4")
    whole = x.T @ (ones @ weight.T) + (x @ weight).T @ ones
    np.testing.assert_allclose(first.numpy(), whole, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(first.numpy(), second.numpy())


def test_files_of_tied_weights(tmp_path):
    weight = normal(5, 2)
    lf.save(tmp_path / "x.safetensors", {"a": weight, "b": weight, "c.d": lf.from_dlpack(weight)})
    read = lf.load(tmp_path / "x.safetensors")
    for name in ("a", "b", "c.d"):
        np.testing.assert_array_equal(read[name].numpy(), weight)


def test_a_module_of_torch_with_tied_weights():
    torch = pytest.importorskip("torch")
    model = torch.nn.ModuleDict({"emb": torch.nn.Embedding(7, 5), "head": torch.nn.Linear(5, 7, bias=False)})
    model["head"].weight = model["emb"].weight

    def f(ids, **params):
        return lf.ops.gather(params["emb.weight"], ids, axis=0) @ params["head.weight"].T

    # A state dictionary has a tensor of its own for each name.
    ids = np.array([0, 3])
    program = lf.compile(f, ids, params=model.state_dict())
    assert list(program.inputs) == ["ids", "emb.weight"]
    weight = model["emb"].weight.detach().numpy()
    np.testing.assert_allclose(program(ids).numpy(), weight[ids] @ weight.T, rtol=1e-5, atol=1e-6)
