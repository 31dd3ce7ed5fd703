"""Cases of `parity.py`: recurrent layers, and the layers and losses of the graph that are a few ops each."""

import math

import torch
from torch.nn import functional as F

from parity_cases import ANY, INFINITE, METHOD, mixed, row
from parity_layers import CLOSE, SUMS

# Recurrent layers. The engine takes the inputs of the gates: for PyTorch's cell these are a product with a unit matrix.


def recurrent(gates, states):
    """Inputs of the gates, the state, weights and bias, of an LSTM the cell state too."""
    def draw(d):
        batch, steps, hidden = d.pick((1, 2, 3, 5, 9)), d.pick((1, 2, 3, 7, 12)), d.pick((1, 2, 3, 5, 8, 16, 17, 33))
        state = [d.tensor([batch, hidden], -1, 1) for _ in range(states)]
        high = hidden ** -0.5
        weights = [d.tensor([hidden, gates * hidden], -high, high), d.tensor([gates * hidden], -1, 1)]
        return [d.tensor([batch, steps, gates * hidden]), state[0], *weights, *state[1:]], {}
    return draw


def stepped(cell, x, state, weight, bias):
    """The states after each step."""
    unit, none = torch.eye(x.shape[2], dtype=x.dtype), torch.zeros(x.shape[2], dtype=x.dtype)
    states = []
    for t in range(x.shape[1]):
        state = cell(x[:, t], state, unit, weight.T, none, bias)
        states.append(state)
    return states


def gru(x, h, weight, bias):
    return torch.stack(stepped(torch.gru_cell, x, h, weight, bias), 1), None


def lstm(x, h, weight, bias, c):
    states = stepped(torch.lstm_cell, x, (h, c), weight, bias)
    return torch.stack([h for h, _ in states], 1), None, torch.stack([c for _, c in states], 1)


GATES = dict(note="the gates that are kept for the gradient")
row("gru", recurrent(3, 1), gru, **GATES)
row("lstm", recurrent(4, 2), lstm, **GATES)


# Windows.


def fitting(d):
    """Windows, and the length of an axis that has some."""
    size, dilation = d.int(1, 7), d.pick((1, 1, 2, 3))
    stride, padding = d.int(1, 4), d.pick((0, 0, 1, 2, 5))
    least = max((size - 1) * dilation + 1 - 2 * padding, 1)
    return dict(size=size, stride=stride, padding=padding, dilation=dilation), least + d.pick((0, 1, 4, 15, 60))


def convolved(d):
    windows, length = fitting(d)
    groups, biased = d.pick((1, 1, 2, 3)), d.chance()
    channels, outputs = groups * d.pick((1, 2, 3, 8)), groups * d.pick((1, 2, 5, 8))
    args = [d.tensor([d.int(1, 4), channels, length]), d.tensor([outputs, channels // groups, windows.pop("size")])]
    return args + ([d.tensor([outputs])] if biased else []), dict(windows, groups=groups)


def conv1d(x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    return F.conv1d(x, weight, bias, stride, padding, dilation, groups)


def pooled(extremes):
    """`extremes`: the peer of numbers no two of which are equal is another one than of those with equal ones."""
    def draw(d):
        windows, length = fitting(d)
        shape = [d.pick((1, 2, 3, 5)) for _ in range(d.int(0, 2))] + [length]
        tied = extremes and d.chance(0.3)
        x = d.whole(shape) if tied else d.distinct(shape) if extremes else d.tensor(shape)
        return mixed(d, INFINITE, x), windows, dict(tied=tied)
    return draw


def padded(x, padding, value):
    """The last axis of `[.., n]` with padding, of which PyTorch's pooling takes at most half a window, as `[all, 1, n]`."""
    return F.pad(x.reshape(-1, 1, x.shape[-1]), (padding, padding), value=value)


def max_pool(x, size, stride, padding, dilation, tied):
    rows = padded(x, padding, -math.inf)
    if tied:
        # PyTorch's pooling gives the whole gradient to the first one; its `amax` gives equal parts, as ours.
        y = rows.unfold(-1, (size - 1) * dilation + 1, stride)[..., ::dilation].amax(-1)
    else:
        y = F.max_pool1d(rows, size, stride, 0, dilation)
    return y.reshape(*x.shape[:-1], -1)


def mean_pool(x, size, stride, padding, dilation, tied):
    rows = padded(x, padding, 0)
    if dilation == 1:
        y = F.avg_pool1d(rows, size, stride)
    else:
        y = F.conv1d(rows, torch.full((1, 1, size), 1 / size, dtype=x.dtype), None, stride, 0, dilation)
    return y.reshape(*x.shape[:-1], -1)


row("conv1d", convolved, conv1d, **METHOD, **SUMS)
row("max_pool", pooled(True), max_pool, **METHOD)
row("mean_pool", pooled(False), mean_pool, **METHOD)


# Norms, positions, gates.


def rooted(d):
    shape = d.shape()
    return [d.tensor(shape), d.tensor(shape[-1:])], dict(eps=1e-6)


def group_normed(d):
    groups = d.pick((1, 2, 3, 4))
    channels = groups * d.pick((1, 2, 3, 5))
    rest = [d.pick((1, 2, 3, 7, 16)) for _ in range(d.int(0, 2))]
    if channels == groups and math.prod(rest) == 1:
        channels *= 2
    args = [d.tensor([d.int(1, 5), channels, *rest], broadcast=False), d.tensor([channels]), d.tensor([channels])]
    return args, dict(groups=groups, eps=1e-5)


def turned(d):
    batch, tokens, heads, features = d.int(1, 3), d.pick((1, 2, 5, 17, 40)), d.int(1, 4), 2 * d.pick((1, 2, 3, 8, 16))
    places = d.pick(([], [tokens], [1, tokens], [batch, 1], [batch, tokens]))
    return [d.tensor([batch, tokens, heads, features]), d.index(places, 100)], dict(base=d.pick((100.0, 10000.0)))


def rotary(x, places, base):
    """Pairs of features as complex numbers, times those of the angles."""
    half = x.shape[-1] // 2
    frequencies = base ** (-torch.arange(half, dtype=x.dtype) / half)
    angles = places.to(x.dtype).expand(x.shape[:2]).reshape(*x.shape[:2], 1, 1) * frequencies
    y = torch.complex(x[..., :half], x[..., half:]) * torch.polar(torch.ones_like(angles), angles)
    return torch.cat([y.real, y.imag], -1)


def of_power(d):
    shape = d.shape()
    shape[-1] = 1 << d.int(0, 10 if math.prod(shape[:-1]) < 9 else 6)
    return [d.tensor(shape)], {}


def hadamard(x):
    matrix = torch.ones(1, 1, dtype=x.dtype)
    while len(matrix) < x.shape[-1]:
        matrix = torch.kron(torch.tensor([[1, 1], [1, -1]], dtype=x.dtype), matrix)
    return x @ matrix / len(matrix) ** 0.5


row("rms_norm", rooted, lambda x, weight, eps: F.rms_norm(x, x.shape[-1:], weight, eps), **METHOD)
# The mean of a group is rounded to f32 before it is subtracted.
row("group_norm", group_normed, lambda x, weight, bias, groups, eps: torch.group_norm(x, groups, weight, bias, eps),
    **METHOD, **{**CLOSE, "bounds": dict(f64=(1e-12, 1e-10), f32=(1e-4, 1e-3))})
row("rotary", turned, rotary, bounds=dict(f32=(1e-4, 1e-4)),
    note="positions from 100 on: in f32 the error of an angle grows with it", **METHOD)
row("swiglu", lambda d: (mixed(d, INFINITE, *d.broadcast(2, -30, 30)), {}), lambda gate, x: F.silu(gate) * x, **METHOD)
row("hadamard", of_power, hadamard, **METHOD)


# Rows that replace others.


def replaced(d):
    shape = d.shape(1, 3)
    axis = d.axis(shape)
    updates = list(shape)
    updates[axis] = d.int(0, 12)
    return [d.tensor(shape), d.index([updates[axis]], shape[axis]), d.tensor(updates)], dict(axis=axis)


def scatter(x, index, updates, axis):
    y = x.clone()
    for j in range(len(index)):
        y = y.index_copy(axis, index[j:j + 1], updates.narrow(axis, j, 1))
    return y


row("scatter", replaced, scatter, dtypes=ANY, **METHOD)


# Losses.


def classified(d):
    """Logits, labels and weights of classes: every one of the options, or none."""
    shape = d.shape()
    weighted, ignored = d.chance(), d.pick((None, None, -100, -1, 0))
    logits, labels = d.tensor(shape, -9, 9), d.index(shape[:-1], shape[-1])
    if ignored is not None:
        labels.leaf[torch.tensor(d.rng.random(labels.leaf.shape) < 0.3)] = ignored
    args = [logits, labels]
    if weighted:
        args.append(d.tensor(shape[-1:], 0.1, 2, learned=d.chance()))
    return args, dict(weights=weighted, ignored=ignored, smoothing=d.pick((0.0, 0.0, 0.1, 0.9)))


def cross_entropy(logits, labels, *weights, ignored, smoothing, **_):
    logits, labels, ignored = logits.reshape(-1, logits.shape[-1]), labels.reshape(-1), -100 if ignored is None else ignored
    if not (labels != ignored).any():
        return sum(0 * x.sum() for x in (logits, *weights))
    if not any(w.requires_grad for w in weights):
        return F.cross_entropy(logits, labels, *weights, ignore_index=ignored, label_smoothing=smoothing)
    # PyTorch's has no gradient of the weights.
    logits, labels = logits[labels != ignored], labels[labels != ignored]
    targets = (1 - smoothing) * F.one_hot(labels, logits.shape[-1]).to(logits.dtype) + smoothing / logits.shape[-1]
    return -(targets * logits.log_softmax(-1) * weights[0]).sum() / weights[0][labels].sum()


def judged(d):
    logits, targets = d.broadcast(2, -30, 30)
    targets.leaf = (targets.leaf + 30) / 60
    targets.leaf = targets.leaf.round() if d.chance(0.3) else targets.leaf
    return mixed(d, (88.8, -88.8, 710.0, -746.0, math.nan), logits) + [targets], {}


def diverging(d):
    """Logarithms of probabilities, and probabilities, some of them 0."""
    shape = d.shape()
    log_q, p = d.tensor(shape, -9, 0), d.tensor(shape, 0.01, 1)
    if d.chance(0.4):
        p.leaf[torch.tensor(d.rng.random(p.leaf.shape) < 0.3)] = 0
        p.learned = False
    return [log_q, p], {}


def kl_divergence(log_q, p):
    log_q, p = (x.reshape(-1, x.shape[-1]) for x in (log_q, p))
    return F.kl_div(log_q, p, reduction="batchmean")


row("cross_entropy", classified, cross_entropy, title="cross_entropy (method)",
    note="where every row is ignored PyTorch's is NaN; compared with 0 and gradients of 0 (decision 0044)", **METHOD)
row("binary_cross_entropy", judged,
    lambda x, t: F.binary_cross_entropy_with_logits(*torch.broadcast_tensors(x, t)), **METHOD)
row("kl_divergence", diverging, kl_divergence, note="the gradient of probabilities of 0: PyTorch's is NaN", **METHOD)
