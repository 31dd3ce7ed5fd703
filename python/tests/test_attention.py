"""Attention with PyTorch's axes: against the definition in f64, and against torch's function."""

import numpy as np
import pytest

import landfall as lf

RNG = np.random.default_rng(5)


def normal(*shape, dtype="f8"):
    return RNG.standard_normal(shape).astype(dtype)


def reference(q, k, v, mask=None, causal=False, scale=None):
    """The definition, in f64, with a head of keys for each head of queries."""
    q, k, v = (x.astype("f8") for x in (q, k, v))
    if k.ndim > 2 and k.shape[-3] != q.shape[-3]:
        k, v = (np.repeat(x, q.shape[-3] // k.shape[-3], axis=-3) for x in (k, v))
    scores = q @ np.swapaxes(k, -1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if causal:
        mask = np.tril(np.ones(scores.shape[-2:], bool))
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


CASES = {
    "same": ((2, 3, 5, 4), (2, 3, 5, 4), (2, 3, 5, 4), {}),
    "lengths": ((2, 3, 5, 4), (2, 3, 7, 4), (2, 3, 7, 6), {}),
    "causal": ((2, 3, 5, 4), (2, 3, 5, 4), (2, 3, 5, 4), {"is_causal": True}),
    "causal to fewer": ((2, 3, 7, 4), (2, 3, 5, 4), (2, 3, 5, 4), {"is_causal": True}),
    "causal to more": ((2, 3, 5, 4), (2, 3, 9, 4), (2, 3, 9, 4), {"is_causal": True}),
    "scale": ((1, 1, 2, 9), (1, 1, 3, 9), (1, 1, 3, 2), {"scale": 0.3}),
    "grouped": ((2, 6, 5, 4), (2, 2, 5, 4), (2, 2, 5, 4), {"enable_gqa": True}),
    "one head": ((3, 5, 4), (3, 6, 4), (3, 6, 4), {}),
    "matrices": ((5, 4), (6, 4), (6, 4), {}),
}


@pytest.mark.parametrize("name", CASES)
def test_the_definition(name):
    *shapes, options = CASES[name]
    q, k, v = (normal(*shape) for shape in shapes)
    want = reference(q, k, v, causal=options.get("is_causal", False), scale=options.get("scale"))
    got = lf.scaled_dot_product_attention(q, k, v, **options)
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-12, atol=1e-12)
    traced = lf.compile(lambda *x: lf.scaled_dot_product_attention(*x, **options), q, k, v)(q, k, v)
    assert traced.numpy().tobytes() == got.numpy().tobytes()
    method = lf.compile(lambda q, k, v: q.scaled_dot_product_attention(k, v, **options), q, k, v)(q, k, v)
    assert method.numpy().tobytes() == got.numpy().tobytes()
    out = np.zeros(want.shape)
    assert lf.scaled_dot_product_attention(q, k, v, out=out, **options) is out
    assert out.tobytes() == got.numpy().tobytes()


@pytest.mark.parametrize("shape", [(5, 7), (3, 1, 7), (2, 1, 5, 1), (2, 3, 5, 7)])
def test_masks(shape):
    q, k, v = normal(2, 3, 5, 4), normal(2, 3, 7, 4), normal(2, 3, 7, 4)
    added, seen = normal(*shape), RNG.random(shape) < 0.7
    seen[..., 0] = True
    for mask in (added, seen):
        got = lf.scaled_dot_product_attention(q, k, v, mask)
        np.testing.assert_allclose(got.numpy(), reference(q, k, v, mask), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_torch(name, dtype):
    torch = pytest.importorskip("torch")
    *shapes, options = CASES[name]
    q, k, v = (torch.from_numpy(normal(*shape)).to(getattr(torch, dtype)) for shape in shapes)
    got = torch.from_dlpack(lf.scaled_dot_product_attention(q, k, v, **options))
    want = torch.nn.functional.scaled_dot_product_attention(q, k, v, **options)
    tolerance = {"float32": 2e-6, "bfloat16": 2e-2}[dtype]
    torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance)


def test_gradients_are_those_of_torch():
    torch = pytest.importorskip("torch")
    import landfall.torch as lt

    q, k, v = (torch.from_numpy(normal(2, 3, 5, 4)).requires_grad_() for _ in range(3))
    op = lt.op(
        "landfall_attention::causal", lambda *x: lf.scaled_dot_product_attention(*x, is_causal=True), q, k, v
    )
    cotangent = torch.from_numpy(normal(2, 3, 5, 4))
    want = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    torch.testing.assert_close(op(q, k, v), want)
    for got, wanted in zip(
        torch.autograd.grad(op(q, k, v), [q, k, v], cotangent), torch.autograd.grad(want, [q, k, v], cotangent)
    ):
        torch.testing.assert_close(got, wanted)


def test_what_is_refused():
    q, k = normal(2, 4, 9, 8), normal(2, 2, 9, 8)
    for call, error, text in [
        (lambda: lf.scaled_dot_product_attention(q, k, k), lf.ShapeError, "they must be equal"),
        (lambda: lf.scaled_dot_product_attention(q, q, q, dropout_p=0.1), lf.ArgumentError, "no dropout"),
        (
            lambda: lf.scaled_dot_product_attention(q, q, q, np.ones((9, 9), bool), is_causal=True),
            lf.AttributeValueError,
            "is_causal",
        ),
        (lambda: lf.ops.masked_attention(q, normal(2, 4, 5, 8), normal(2, 4, 5, 8)), lf.ShapeError, "as PyTorch has them"),
        (
            lambda: lf.compile(lambda q, k: q.attend(k, k), q, normal(2, 4, 5, 8)),
            lf.ShapeError,
            r"\[batch, tokens, heads, features\].*take scaled_dot_product_attention",
        ),
        (lambda: lf.compile(lambda x: lf.scaled_dot_product_attention(x, q, q), q), lf.ArgumentError, "argument 1"),
    ]:
        with pytest.raises(error, match=text):
            call()
    assert "tokens before heads" in lf.scaled_dot_product_attention.__doc__
    assert "PyTorch" in lf.ops.masked_attention.__doc__
