"""Gradients of gradients in f64 are those of torch.autograd.grad(create_graph=True), for every method and op that PyTorch can derive
twice."""

import numpy as np
import pytest

import landfall as lf

torch = pytest.importorskip("torch")
F = torch.nn.functional

RNG = np.random.default_rng(7)


def normal(*shape):
    return RNG.normal(size=shape)


def positive(*shape):
    return np.abs(normal(*shape)) + 0.5


X, Y, P = normal(2, 3, 4), normal(2, 3, 4), positive(2, 3, 4)
M, N = normal(4, 6), normal(6, 4)
ROW, BIAS = normal(4), normal(4)
TIES = np.array([[0.0, 1.0, 1.0, 2.0, 2.0, 2.0], [-1.0, -1.0, -3.0, 0.0, 0.0, -3.0]])
MASK = RNG.random((2, 3, 4)) > 0.4
INDEX, IDS = RNG.integers(3, size=(2, 5, 4)), RNG.integers(4, size=7)
LABELS = np.array([1, 0, 3])
HEADS = [normal(2, 5, 2, 4), normal(2, 6, 2, 4), normal(2, 6, 2, 4)]
PLACES = RNG.permutation(6)[:3]


def attention(q, k, v, scale=None, hidden=None):
    """Attention with heads before tokens, written out: PyTorch's own has no second derivative on a processor."""
    scores = q @ k.transpose(-1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    scores = scores if hidden is None else scores.masked_fill(hidden, -torch.inf)
    return scores.softmax(-1) @ v


def tokens_first(q, k, v, **more):
    return attention(*(x.transpose(1, 2) for x in (q, k, v)), **more).transpose(1, 2)


def normalised(x, dims, weight, bias, eps=1e-5):
    centred = x - x.mean(dims, keepdim=True)
    return centred / (centred.square().mean(dims, keepdim=True) + eps).sqrt() * weight + bias


def unit(x, eps):
    return x / (x.square().sum(-1, keepdim=True) + eps).sqrt()


def cosine_attention(qkv, t):
    q, k, v = qkv.unbind(2)
    return tokens_first(unit(q, 1e-3) * t[:, None], unit(k, 1e-3), v, scale=1.0)


def gru(x, h, weight, bias):
    states = []
    for t in range(x.shape[1]):
        (xr, xz, xn), (r, z, n) = x[:, t].chunk(3, -1), (h @ weight.T + bias).chunk(3, -1)
        r, z = (xr + r).sigmoid(), (xz + z).sigmoid()
        h = torch.lerp((xn + r * n).tanh(), h, z)
        states.append(h)
    return torch.stack(states, 1)


def lstm(x, h, c, weight, bias):
    states = []
    for t in range(x.shape[1]):
        i, f, g, o = (x[:, t] + h @ weight.T + bias).chunk(4, -1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        states.append(h)
    return torch.stack(states, 1)


def rotary(x, places):
    half = x.shape[-1] // 2
    angles = places[:, None, None] * 10_000.0 ** (-torch.arange(half, dtype=x.dtype) / half)
    low, high = x[..., :half], x[..., half:]
    return torch.cat([low * angles.cos() - high * angles.sin(), high * angles.cos() + low * angles.sin()], -1)


#: Hadamard's matrix of four rows, and the keys that causal queries do not see.
SIGNS = torch.tensor([[1, 1, 1, 1], [1, -1, 1, -1], [1, 1, -1, -1], [1, -1, -1, 1]], dtype=torch.float64)
HIDDEN = torch.ones(5, 6, dtype=torch.bool).triu(2)


#: Functions of values, how PyTorch writes them, and their arguments.
METHODS = {
    "abs": (lambda x: x.abs() * x, lambda x: x.abs() * x, [X]),
    "abs at 0": (lambda x: x.abs(), lambda x: x.abs(), [TIES]),
    "add": (lambda x, y: x.add(y), torch.add, [X, ROW]),
    "affine": (lambda x: x.affine(mul=2.0, add=0.5), lambda x: 2 * x + 0.5, [X]),
    "attend": (lambda q, k, v: q.attend(k, v), tokens_first, HEADS),
    "attend causal": (
        lambda q, k, v: q.attend(k, v, causal=True),
        lambda q, k, v: tokens_first(q, k, v, hidden=HIDDEN),
        HEADS,
    ),
    "binary_cross_entropy": (
        lambda x, t: x.binary_cross_entropy(t),
        F.binary_cross_entropy_with_logits,
        [X, RNG.random((2, 3, 4))],
    ),
    "broadcast_to": (lambda x: x.broadcast_to(3, 4), lambda x: x.expand(3, 4), [ROW]),
    "cast": (lambda x: x.cast("f8"), lambda x: x.double(), [X]),
    "ceil": (lambda x: x.ceil() * x.exp(), lambda x: x.ceil() * x.exp(), [X]),
    "clamp": (lambda x: (x * x).clamp(low=0.1, high=1.0), lambda x: (x * x).clamp(0.1, 1.0), [X]),
    "concat": (lambda x, y: x.concat(y, axis=1), lambda x, y: torch.cat([x, y], 1), [X, Y]),
    "conv1d": (
        lambda x, w, b: x.conv1d(w, b, stride=2, padding=2, dilation=2, groups=2),
        lambda x, w, b: F.conv1d(x, w, b, 2, 2, 2, 2),
        [normal(2, 4, 9), normal(6, 2, 3), normal(6)],
    ),
    "copy": (lambda x: x.copy(), lambda x: x.clone(), [X]),
    "cos": (lambda x: x.cos(), torch.cos, [X]),
    "cosine_similarity": (lambda x, y: x.cosine_similarity(y, axis=-1), lambda x, y: F.cosine_similarity(x, y, -1), [X, Y]),
    "cumsum": (lambda x: x.cumsum(axis=1), lambda x: x.cumsum(1), [X]),
    "div": (lambda x, y: x.div(y), torch.div, [X, P]),
    "elu": (lambda x: x.elu(alpha=1.5), lambda x: F.elu(x, 1.5), [X]),
    "erf": (lambda x: x.erf(), torch.erf, [X]),
    "exp": (lambda x: x.exp(), torch.exp, [X]),
    "expm1": (lambda x: x.expm1(), torch.expm1, [X]),
    "flip": (lambda x: x.flip(axis=1), lambda x: x.flip(1), [X]),
    "floor": (lambda x: x.floor() * x.exp(), lambda x: x.floor() * x.exp(), [X]),
    "gelu": (lambda x: x.gelu(), F.gelu, [X]),
    "group_norm": (
        lambda x, w, b: x.group_norm(w, b, groups=2),
        lambda x, w, b: F.group_norm(x, 2, w, b),
        [normal(3, 4, 5), ROW, BIAS],
    ),
    "gru": (lambda x, h, w, b: x.gru(h, w, b), gru, [normal(2, 5, 9), normal(2, 3), normal(9, 3), normal(9)]),
    "hadamard": (lambda x: x.hadamard(), lambda x: x @ SIGNS / 2, [X]),
    "interpolate": (
        lambda x: x.interpolate(size=7),
        lambda x: F.interpolate(x, size=7),
        [normal(2, 3, 5)],
    ),
    "interpolate, fewer": (lambda x: x.interpolate(size=3), lambda x: F.interpolate(x, size=3), [normal(2, 3, 8)]),
    "interpolate linear": (
        lambda x: x.interpolate(size=9, mode="linear"),
        lambda x: F.interpolate(x, size=9, mode="linear"),
        [normal(2, 3, 5)],
    ),
    "interpolate linear, fewer": (
        lambda x: x.interpolate(size=3, mode="linear"),
        lambda x: F.interpolate(x, size=3, mode="linear"),
        [normal(2, 3, 8)],
    ),
    "interpolate between corners": (
        lambda x: x.interpolate(size=9, mode="linear", align_corners=True),
        lambda x: F.interpolate(x, size=9, mode="linear", align_corners=True),
        [normal(2, 3, 5)],
    ),
    "interpolate of one": (
        lambda x: x.interpolate(size=1, mode="linear", align_corners=True),
        lambda x: F.interpolate(x, size=1, mode="linear", align_corners=True),
        [normal(2, 3, 5)],
    ),
    "kl_divergence": (
        lambda x, y: x.log_softmax().kl_divergence(y.softmax()),
        lambda x, y: (y.softmax(-1) * (y.log_softmax(-1) - x.log_softmax(-1))).sum(-1).mean(),
        [X, Y],
    ),
    "largest": (lambda x: x.largest(2, axis=1)[0], lambda x: x.topk(2, 1)[0], [X]),
    "layer_norm": (lambda x, w, b: x.layer_norm(w, b), lambda x, w, b: F.layer_norm(x, [4], w, b), [X, ROW, BIAS]),
    "leaky_relu": (lambda x: x.leaky_relu(slope=0.2), lambda x: F.leaky_relu(x, 0.2), [X]),
    "ln": (lambda x: x.ln(), torch.log, [P]),
    "log": (lambda x: x.log(), torch.log, [P]),
    "log1p": (lambda x: x.log1p(), torch.log1p, [P]),
    "log_softmax": (lambda x: x.log_softmax(axis=1), lambda x: x.log_softmax(1), [X]),
    "logsumexp": (lambda x: x.logsumexp(axes=1), lambda x: x.logsumexp(1), [X]),
    "lstm": (
        lambda x, h, c, w, b: x.lstm(h, c, w, b)[0],
        lstm,
        [normal(2, 5, 12), normal(2, 3), normal(2, 3), normal(12, 3), normal(12)],
    ),
    "matmul": (lambda x, y: x.matmul(y), torch.matmul, [M, N]),
    "matmul_add": (lambda x, y, b: x.matmul_add(y, b), lambda x, y, b: x @ y + b, [M, N, BIAS]),
    "max": (lambda x: x.max(axes=1), lambda x: x.amax(1), [X]),
    "max of ties": (lambda x: x.max(axes=1), lambda x: x.amax(1), [TIES]),
    "max_pool": (
        lambda x: x.max_pool(3, stride=2, padding=1),
        lambda x: F.max_pool1d(x, 3, 2, 1),
        [normal(2, 3, 9)],
    ),
    "maximum": (lambda x, y: x.maximum(y), torch.maximum, [X, Y]),
    "maximum of ties": (lambda x, y: x.maximum(y), torch.maximum, [TIES, TIES + 0.0]),
    "mean": (lambda x: x.mean(axes=(0, 2)), lambda x: x.mean((0, 2)), [X]),
    "mean_all": (lambda x: x.mean_all(), torch.mean, [X]),
    "mean_pool": (lambda x: x.mean_pool(3, stride=2, padding=1), lambda x: F.avg_pool1d(x, 3, 2, 1), [normal(2, 3, 9)]),
    "min": (lambda x: x.min(axes=-1), lambda x: x.amin(-1), [X]),
    "min of ties": (lambda x: x.min(axes=0), lambda x: x.amin(0), [np.stack([TIES, TIES, -TIES])]),
    "minimum": (lambda x, y: x.minimum(y), torch.minimum, [X, Y]),
    "mul": (lambda x, y: x.mul(y), torch.mul, [X, Y]),
    "neg": (lambda x: x.neg(), torch.neg, [X]),
    "norm": (lambda x: x.norm(axes=1), lambda x: x.norm(dim=1), [X]),
    "pad": (lambda x: x.pad(axis=1, before=2, after=1), lambda x: F.pad(x, (0, 0, 2, 1)), [X]),
    "permute": (lambda x: x.permute(2, 0, 1), lambda x: x.permute(2, 0, 1), [X]),
    "pow": (lambda x, y: x.pow(y), torch.pow, [P, Y]),
    "powf": (lambda x: x.powf(2.5), lambda x: x**2.5, [P]),
    "prod": (lambda x: x.prod(axes=1), lambda x: x.prod(1), [X]),
    "recip": (lambda x: x.recip(), torch.reciprocal, [P]),
    "relu": (lambda x: x.relu(), torch.relu, [X]),
    "rem": (lambda x, y: x.rem(y), torch.remainder, [X, P]),
    "repeat_interleave": (lambda x: x.repeat_interleave(3, axis=1), lambda x: x.repeat_interleave(3, 1), [X]),
    "reshape": (lambda x: x.reshape(6, 4), lambda x: x.reshape(6, 4), [X]),
    "rms_norm": (lambda x, w: x.rms_norm(w, eps=1e-5), lambda x, w: F.rms_norm(x, [4], w, 1e-5), [X, ROW]),
    "roll": (lambda x: x.roll(2, axis=-1), lambda x: x.roll(2, -1), [X]),
    "round": (lambda x: x.round() * x.exp(), lambda x: x.round() * x.exp(), [X]),
    "rsqrt": (lambda x: x.rsqrt(), torch.rsqrt, [P]),
    "scaled_dot_product_attention": (
        lambda q, k, v: q.scaled_dot_product_attention(k, v, scale=0.7),
        lambda q, k, v: attention(q, k, v, scale=0.7),
        [normal(2, 2, 5, 4), normal(2, 2, 6, 4), normal(2, 2, 6, 3)],
    ),
    "shared keys": (
        lambda q, k, v: q.scaled_dot_product_attention(k, v, enable_gqa=True),
        lambda q, k, v: attention(q, k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)),
        [normal(2, 4, 5, 4), normal(2, 2, 6, 4), normal(2, 2, 6, 4)],
    ),
    "attention with an added mask": (
        lambda q, k, v, m: q.scaled_dot_product_attention(k, v, m),
        lambda q, k, v, m: (q @ k.transpose(-1, -2) / 2 + m).softmax(-1) @ v,
        [normal(2, 2, 5, 4), normal(2, 2, 6, 4), normal(2, 2, 6, 4), normal(2, 2, 5, 6)],
    ),
    "sigmoid": (lambda x: x.sigmoid(), torch.sigmoid, [X]),
    "sign": (lambda x: x.sign() * x.exp(), lambda x: x.sign() * x.exp(), [X]),
    "silu": (lambda x: x.silu(), F.silu, [X]),
    "sin": (lambda x: x.sin(), torch.sin, [X]),
    "slice": (lambda x: x.slice(1, 1, 2), lambda x: x[:, 1:3], [X]),
    "slice_step": (lambda x: x.slice_step(2, 1, 2, 2), lambda x: x[..., 1::2], [X]),
    "softmax": (lambda x: x.softmax(axis=1), lambda x: x.softmax(1), [X]),
    "softplus": (lambda x: x.softplus(), F.softplus, [X]),
    "sort": (lambda x: x.sort(axis=1, descending=True)[0], lambda x: x.sort(1, descending=True)[0], [X]),
    "sqrt": (lambda x: x.sqrt(), torch.sqrt, [P]),
    "square": (lambda x: x.square(), torch.square, [X]),
    "squeeze": (lambda x: x[:, :1].squeeze(1), lambda x: x[:, 0], [X]),
    "stack": (lambda x, y: x.stack(y, axis=1), lambda x, y: torch.stack([x, y], 1), [X, Y]),
    "standard_deviation": (lambda x: x.standard_deviation(axes=1), lambda x: x.std(1), [X]),
    "sub": (lambda x, y: x.sub(y), torch.sub, [X, Y]),
    "sum": (lambda x: x.sum(axes=1), lambda x: x.sum(1), [X]),
    "swiglu": (lambda x, y: x.swiglu(y), lambda x, y: F.silu(x) * y, [X, Y]),
    "tanh": (lambda x: x.tanh(), torch.tanh, [X]),
    "tile": (lambda x: x.tile(2, axis=1), lambda x: x.tile(1, 2, 1), [X]),
    "transpose": (lambda x: x.transpose(), lambda x: x.transpose(-1, -2), [X]),
    "unfold": (lambda x: x.unfold(3, 2), lambda x: x.unfold(-1, 3, 2), [normal(2, 3, 9)]),
    "unsqueeze": (lambda x: x.unsqueeze(1), lambda x: x.unsqueeze(1), [X]),
    "variance": (lambda x: x.variance(axes=1), lambda x: x.var(1), [X]),
}

#: The same of functions that also take arrays of integers or truth values, which come last.
BESIDE = {
    "cross_entropy": (lambda x, n: x.cross_entropy(n), F.cross_entropy, [normal(3, 4)], [LABELS]),
    "cross_entropy, weighted": (
        lambda x, n, w: x.cross_entropy(n, w, smoothing=0.1),
        lambda x, n, w: F.cross_entropy(x, n, w, label_smoothing=0.1),
        [normal(3, 4)],
        [LABELS, positive(4)],
    ),
    "embedding": (lambda t, n: t.embedding(n), lambda t, n: F.embedding(n, t), [normal(4, 3)], [IDS]),
    "gather": (lambda x, n: x.gather(n, axis=1), lambda x, n: x.gather(1, n), [X], [INDEX]),
    "index_add": (
        lambda x, s, n: x.index_add(n, s, axis=0),
        lambda x, s, n: x.index_add(0, n, s),
        [normal(4, 3), normal(7, 3)],
        [IDS],
    ),
    "masked_fill": (lambda x, m: x.masked_fill(m, 0.5), lambda x, m: x.masked_fill(m, 0.5), [X], [MASK]),
    "rotary": (lambda x, n: x.rotary(n), rotary, [normal(2, 5, 2, 4)], [np.arange(5)]),
    "scatter": (
        lambda x, u, n: x.scatter(n, u, axis=0),
        lambda x, u, n: x.index_copy(0, n, u),
        [normal(6, 3), normal(3, 3)],
        [PLACES],
    ),
    "scatter_add": (
        lambda x, s, n: x.scatter_add(n, s, axis=1),
        lambda x, s, n: x.scatter_add(1, n, s),
        [X, normal(2, 5, 4)],
        [INDEX],
    ),
    "select": (lambda x, y, m: m.select(x, y), lambda x, y, m: torch.where(m, x, y), [X, Y], [MASK]),
    "take": (lambda t, n: t.take(n, axis=0), lambda t, n: t[n], [normal(4, 3)], [IDS]),
    "where": (lambda x, y, m: x.where(m, y), lambda x, y, m: torch.where(m, x, y), [X, Y], [MASK]),
}

#: Fused ops that no method stands for.
OPS = {
    "batch_norm": (
        lambda x, w, b: lf.ops.batch_norm(x, w, b)[0],
        lambda x, w, b: normalised(x, (0, 1), w, b),
        [X, ROW, BIAS],
    ),
    "statistics of batch_norm": (
        lambda x, w, b: lf.ops.batch_norm(x, w, b)[2],
        lambda x, w, b: x.var((0, 1), unbiased=False),
        [X, ROW, BIAS],
    ),
    "attention": (
        lambda q, k, v: lf.ops.attention(q, k, v)[0],
        tokens_first,
        [normal(2, 5, 2, 4), normal(2, 5, 2, 4), normal(2, 5, 2, 4)],
    ),
    "cosine_attention": (
        lambda qkv, t: lf.ops.cosine_attention(qkv, t, eps=1e-3)[0],
        cosine_attention,
        [normal(2, 5, 3, 2, 4), positive(2)],
    ),
    "gelu by tanh": (lambda x: lf.ops.gelu(x, approximation="tanh"), lambda x: F.gelu(x, approximate="tanh"), [X]),
    "l2_norm": (lambda x: lf.ops.l2_norm(x, eps=1e-3), lambda x: unit(x, 1e-3), [X]),
    "mae": (lambda x, y: lf.ops.mae(x, y), F.l1_loss, [X, Y]),
    "mse": (lambda x, y: lf.ops.mse(x, y), F.mse_loss, [X, Y]),
    "pad_edge": (lambda x: lf.ops.pad_edge(x, after=3), lambda x: F.pad(x, (0, 3), mode="replicate"), [X]),
}

#: Methods without a gradient of a gradient, or that PyTorch has not.
OTHERS = {
    "of integers or truth values": "all any argmax argmin argsort equal not_equal greater greater_equal less less_equal",
    "of these too": "and is_finite is_nan not one_hot or",
    "constants": "arange eye fill linspace lower_triangle normal scalar",
    "updates of a state": "assign assign_rows",
    "a constant by its meaning": "detach",
    "draws": "dropout",
    "what this file is about": "gradients",
    "attributes": "T dtype ndim shape size",
}


def number(values, floats, gradients, total):
    """A number whose gradient differs from element to element, of the gradients of such a number."""
    loss = total(values * values.sin())
    whole = None
    for found in gradients(loss, floats):
        part = total(found * (found * 0.7 + 0.2).cos())
        whole = part if whole is None else whole + part
    return whole


def compare(function, reference, floats, others=()):
    made = [torch.tensor(x, requires_grad=True) for x in floats]
    beside = [torch.as_tensor(x) for x in others]

    def of_torch(loss, values):
        found = torch.autograd.grad(loss, values, create_graph=True, allow_unused=True)
        return [g for g in found if g is not None]

    whole = number(reference(*made, *beside), made, of_torch, torch.sum)
    want = torch.autograd.grad(whole, made, allow_unused=True)
    reached = [i for i, g in enumerate(want) if g is not None]
    assert reached, "PyTorch finds no gradient of the gradient"

    def traced(*arrays):
        values = list(arrays[: len(floats)])

        def of_landfall(loss, values):
            used = [v for v, t in zip(values, made) if t in used_by_torch]
            return loss.gradients(used)

        whole = number(function(*arrays), values, of_landfall, lambda x: x.sum())
        return whole.gradients([values[i] for i in reached])

    first = torch.autograd.grad(torch.sum(reference(*made, *beside)), made, allow_unused=True)
    used_by_torch = {t for t, g in zip(made, first) if g is not None}
    arrays = [*floats, *others]
    for i, got in zip(reached, lf.compile(traced, *arrays)(*arrays)):
        expected = want[i].numpy()
        scale = max(1.0, np.abs(expected).max())
        np.testing.assert_allclose(got.numpy(), expected, rtol=1e-9, atol=1e-11 * scale, err_msg=f"argument {i}")


@pytest.mark.parametrize("name", METHODS)
def test_methods(name):
    compare(*METHODS[name])


@pytest.mark.parametrize("name", BESIDE)
def test_methods_with_indices_and_masks(name):
    compare(*BESIDE[name])


@pytest.mark.parametrize("name", OPS)
def test_fused_ops(name):
    compare(*OPS[name])


def test_no_method_is_left_out():
    known = {name.split(",")[0] for name in [*METHODS, *BESIDE]} | set(" ".join(OTHERS.values()).split())
    public = {name for name in dir(lf.Value) if not name.startswith("_")}
    assert public <= known, f"methods that are not compared: {sorted(public - known)}"


@pytest.mark.parametrize("name", ["sign", "floor", "ceil", "round"])
def test_steps_have_gradients_of_zeros(name):
    x = torch.tensor(X, requires_grad=True)
    (want,) = torch.autograd.grad(getattr(x, name)().square().sum(), [x])
    (got,) = lf.compile(lambda x: getattr(x, name)().square().sum().gradients([x]), X)(X)
    np.testing.assert_array_equal(got.numpy(), want.numpy())


def test_comparisons_and_integers_have_gradients_of_zeros():
    for steps in (lambda x: (x > 0.0).cast("f8"), lambda x: x.cast("i8").cast("f8"), lambda x: x.argsort().cast("f8")):
        (got,) = lf.compile(lambda x: (steps(x) * 2.0).sum().gradients([x]), X)(X)
        np.testing.assert_array_equal(got.numpy(), np.zeros_like(X))
