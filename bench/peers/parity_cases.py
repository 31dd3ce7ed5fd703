"""Cases of `parity.py`: pointwise ops, reductions, shapes, indexing. A new op or method is one more `row`.

    row(name, draw, peer)

`draw(d)` makes a random call: arguments and attributes, and if the peer needs more than these, a dict for it alone.
`peer(*arguments, **attributes)` is the same in PyTorch; an output that is None is not compared. `METHOD`: a method of the
graph instead of an op by its name, of which `landfall::ops::methods` has a table.
"""

import math

import torch
from torch.nn import functional as F

from parity_engine import DTYPES, FLOATS, INTEGERS, Arg

ROWS = []
METHOD = dict(method=True)
NUMBERS = FLOATS + INTEGERS
ANY = NUMBERS + ("bool",)


class Row:
    """An op or a method, how a call of it is drawn, and its peer.

    `smooth`: whether it has a gradient; `rounds`: whether f64 gives its results more exactly than f32; `bounds`: largest
    errors by dtype, of outputs and gradients, where they are not the usual ones; `wide`: the outputs that are f32 where
    the arguments have 16 bits; `note`: what the cases leave out."""

    def __init__(self, name, draw, peer, method=False, dtypes=FLOATS, smooth=True, rounds=True, bounds=None, wide=(), note="",
                 title=None):
        self.name, self.draw, self.peer, self.method = name, draw, peer, method
        self.dtypes, self.smooth, self.rounds, self.bounds, self.note = dtypes, smooth, rounds, bounds or {}, note
        self.wide, self.title = wide, title or name


def row(name, draw, peer, **how):
    ROWS.append(Row(name, draw, peer, **how))


# Numbers at the ends of functions, and what is no number.
INFINITE = (math.nan, math.inf, -math.inf)
ENDS = INFINITE + (0.0, -0.0, 1e-40, -1e-40, 88.8, -88.8, -104.0, 710.0, -746.0, 1.0, -1.0, 2.5, 1e-9)


def mixed(d, values, *args):
    """In one of five cases the arguments have some of these values, and then no gradient."""
    if d.float and values and d.chance(0.2):
        for arg in args:
            arg.learned = False
            for value in values:
                # What a narrow dtype does not hold is infinite.
                value = torch.tensor(value, dtype=torch.float64).to(arg.leaf.dtype)
                arg.leaf[torch.tensor(d.rng.random(arg.leaf.shape) < 0.5 / len(values))] = value
    return list(args)


def one(low=-3, high=3, ends=ENDS + (1e30, -1e30)):
    """Numbers of a range; in one of five cases whole ones, at which some functions have an edge."""
    def draw(d):
        make = d.whole if d.chance(0.2) else d.tensor
        return mixed(d, ends, make(d.shape(0, empty=True), low, high)), {}
    return draw


def two(low=-3, high=3):
    def draw(d):
        return mixed(d, ENDS, *d.broadcast(2, low, high, whole=d.chance(0.2))), {}
    return draw


# Pointwise, of one argument.


def clamped(d):
    """Numbers none of which is a bound; the bounds are numbers that the dtype holds."""
    low, high = (torch.tensor(d.number(*ends)).to(DTYPES[d.dtype]).item() for ends in ((-2, -0.1), (0.1, 2)))
    x, = one()(d)[0]
    x.leaf[(x.leaf == low) | (x.leaf == high)] = 0
    return [x], dict(low=low, high=high)


row("abs", one(), torch.abs, dtypes=NUMBERS)
row("neg", one(), torch.neg, dtypes=NUMBERS)
row("sign", one(), torch.sign, dtypes=NUMBERS, smooth=False, note="PyTorch's gradient is 0, ours is refused")
row("floor", one(), torch.floor, dtypes=NUMBERS, smooth=False, note="as sign")
row("ceil", one(), torch.ceil, dtypes=NUMBERS, smooth=False, note="as sign")
row("round", lambda d: ([d.tensor(d.shape(0)) if d.chance() else halves(d)], {}), torch.round, dtypes=NUMBERS,
    smooth=False, note="as sign")
row("exp", one(-9, 9), torch.exp)
row("ln", one(0.01, 9), torch.log)
row("sqrt", one(0.01, 9), torch.sqrt)
row("rsqrt", one(0.1, 9), torch.rsqrt)
row("recip", one(0.1, 9), torch.reciprocal)
row("tanh", one(-9, 9), torch.tanh)
row("erf", one(-4, 4), torch.erf)
ACCURATE = dict(note="up to 10⁶: beyond, the absolute error grows as |x|·2⁻⁵²")
row("sin", one(-99, 99, ENDS), torch.sin, **ACCURATE)
row("cos", one(-99, 99, ENDS), torch.cos, **ACCURATE)
row("expm1", one(-3, 3), torch.expm1)
row("log1p", one(-0.9, 9), torch.log1p)
row("sigmoid", one(-30, 30), torch.sigmoid)
row("relu", one(), F.relu)
row("silu", one(-30, 30), F.silu)
row("softplus", one(-15, 15), F.softplus, note="above 20 PyTorch's is x itself")
row("copy", lambda d: ([d.tensor(d.shape(0))], {}), torch.clone, dtypes=ANY)
row("leaky_relu", lambda d: (one()(d)[0], dict(slope=d.number(0, 1))),
    lambda x, slope: F.leaky_relu(x, slope))
row("affine", lambda d: ([d.tensor(d.shape(0))], dict(mul=d.number(-2, 2), add=d.number(-2, 2))),
    lambda x, mul, add: x * mul + add)
row("clamp", clamped,
    lambda x, low, high: x.clamp(low, high),
    note="the gradient at the bounds themselves: ours is the cotangent, that of PyTorch 2.15 is 0")
row("gelu", lambda d: (one(-6, 6)(d)[0], dict(approximation=d.pick(("erf", "tanh")))),
    lambda x, approximation: F.gelu(x, approximate="none" if approximation == "erf" else "tanh"))
row("square", one(), torch.square, dtypes=NUMBERS, **METHOD)
row("powf", lambda d: ([d.tensor(d.shape(0), 0.3, 3)],
                       dict(exponent=d.pick((1.0, 2.0, 3.0, 0.5, -1.0, -0.5, 1.7, -2.3)))),
    lambda x, exponent: x ** exponent, **METHOD)
row("elu", lambda d: (one()(d)[0], dict(alpha=d.number(0.5, 2))), F.elu, **METHOD)
row("not", one(), torch.logical_not, dtypes=("bool",), smooth=False, **METHOD)
row("and", two(), torch.logical_and, dtypes=("bool",), smooth=False, **METHOD)
row("or", two(), torch.logical_or, dtypes=("bool",), smooth=False, **METHOD)
row("is_nan", lambda d: ([special(d)], {}), torch.isnan, smooth=False, **METHOD)
row("is_finite", lambda d: ([special(d)], {}), torch.isfinite, smooth=False, **METHOD)
row("cast", lambda d: ([d.tensor(d.shape(0), 0, 100)], dict(dtype=d.pick(tuple(DTYPES)))),
    lambda x, dtype: x.to(DTYPES[dtype]), dtypes=ANY, note="within the range of the dtype; beyond it PyTorch's is undefined")


def halves(d):
    """Numbers half-way between two integers."""
    made = d.whole(d.shape(0))
    made.leaf = made.leaf + 0.5 if d.float else made.leaf
    return made


def special(d):
    """Numbers some of which are NaN or infinite."""
    made = d.tensor(d.shape(0))
    for value in INFINITE:
        made.leaf[torch.tensor(d.rng.random(made.leaf.shape) < 0.2)] = value
    return made


# Pointwise, of several arguments, with broadcasting.


def powers(d):
    """A base and an exponent; in one of five cases whole ones, from 0 on."""
    if d.chance(0.2):
        return d.broadcast(2, 0, 3, whole=True), {}
    return mixed(d, ENDS, *d.broadcast(2, 0.3, 3)), {}


def chosen(d):
    """A condition and two tensors that go together by broadcasting."""
    condition, x, y = d.broadcast(3)
    return [Arg(condition.leaf > 0, condition.views), x, y], {}


row("add", two(), torch.add, dtypes=NUMBERS, **METHOD)
row("sub", two(), torch.sub, dtypes=NUMBERS, **METHOD)
row("mul", two(), torch.mul, dtypes=NUMBERS, **METHOD)
row("div", lambda d: (signed(d), {}), torch.div, **METHOD)
row("maximum", two(), torch.maximum, dtypes=ANY, **METHOD)
row("minimum", two(), torch.minimum, dtypes=ANY, **METHOD)
row("rem", lambda d: (signed(d), {}), torch.remainder, dtypes=NUMBERS, note="not near multiples of the divisor", **METHOD)
row("pow", powers, torch.pow, **METHOD)
COMPARISONS = {"equal": torch.eq, "not_equal": torch.ne, "less": torch.lt, "less_equal": torch.le,
               "greater": torch.gt, "greater_equal": torch.ge}
for name, peer in COMPARISONS.items():
    row(name, lambda d: (mixed(d, INFINITE, *d.broadcast(2, -2, 2, whole=True)), {}), peer, dtypes=ANY, smooth=False,
        **METHOD)
row("compare", lambda d: (alike(d, 2), dict(comparison=d.pick(tuple(COMPARISONS)))),
    lambda x, y, comparison: COMPARISONS[comparison](x, y), dtypes=ANY, smooth=False)
row("where", lambda d: ([d.tensor(s := d.shape(0), dtype="bool"), d.tensor(s), d.tensor(s)], {}), torch.where, dtypes=ANY)
row("select", chosen, torch.where, dtypes=ANY, **METHOD)
row("masked_fill", lambda d: ([d.tensor(s := d.shape(0)), d.tensor(s[1:], dtype="bool")], dict(value=float(d.int(0, 9)))),
    lambda x, mask, value: x.masked_fill(mask, value), dtypes=NUMBERS, **METHOD)
row("detach", lambda d: (alike(d, 2), {}), lambda x, y: x + y.detach(), note="the sum of x and a detached y", **METHOD)


def alike(d, count):
    """Arguments of one shape, with equal elements among them."""
    shape = d.shape(0)
    return [d.whole(shape, -2, 2) for _ in range(count)]


def signed(d):
    """A dividend and a divisor that is not near 0."""
    x, y = d.broadcast(2)
    away = y.leaf.abs() + (0.5 if d.float else 1)
    y.leaf = -away if d.chance() and d.dtype != "u8" else away
    return [x, y]


# Reductions.


def over(least=1, values=INFINITE, change=None, broadcast=True, **how):
    """A tensor, some of its axes of at least so many elements, whether they stay; in one of four cases `change` is called."""
    def draw(d):
        while True:
            shape = d.shape()
            axes = d.axes(shape)
            if math.prod(shape[a] for a in axes) >= least:
                break
        if changed := change and d.chance(0.25):
            x = d.tensor(shape, broadcast=False)
            change(d, x, axes)
        else:
            x = d.whole(shape) if d.chance(0.2) else d.tensor(shape, broadcast=broadcast)
        more = {k: v(d) for k, v in how.items()}
        return [x] if changed else mixed(d, values, x), dict(axes=axes, keep=d.chance(), **more)
    return draw


def huge(d, x, axes):
    """Of i64, sums and products beyond the dtype."""
    if x.leaf.dtype == torch.int64:
        x.leaf *= torch.tensor(d.rng.integers(0, 2**61, x.leaf.shape))


def some_rows(d, x, axes):
    """What `x` is to the op, and a mask of some of its rows along the axes."""
    seen = x.value(x.leaf)
    return seen, torch.tensor(d.rng.random([1 if i in axes else n for i, n in enumerate(seen.shape)]) < 0.5)


def zeros(d, x, axes):
    """Rows of zeros along the axes."""
    seen, mask = some_rows(d, x, axes)
    seen.masked_fill_(mask, 0)


def alike_or_far(d, x, axes):
    """Rows of equal elements (whole ones, of whose mean PyTorch's rounding makes no other number), or numbers far from 0."""
    seen, mask = some_rows(d, x, axes)
    seen.copy_(torch.where(mask, d.int(-9, 9), seen)) if d.chance() else seen.add_(d.pick((100, -1000)))


def signs(d, x, axes):
    """Numbers whose product is of a usual size, some of them 0."""
    seen, mask = some_rows(d, x, axes)
    size = torch.tensor(d.rng.uniform(0.6, 1.6, seen.shape)) * d.rng.choice([-1, 1], seen.shape)
    few = torch.tensor(d.rng.random(seen.shape) < 1 / (1 + seen.numel() / max(mask.numel(), 1)))
    seen.copy_(torch.where(mask & few, 0, size))


def prod(x, axes, keep):
    for axis in reversed(sorted(axes)):
        x = x.prod(axis, keepdim=keep)
    return x


row("sum", over(change=huge), lambda x, axes, keep: x.sum(axes, keepdim=keep), dtypes=NUMBERS, **METHOD)
row("prod", lambda d: over(change=signs if d.float else huge)(d), prod, dtypes=NUMBERS, **METHOD)
row("mean", over(), lambda x, axes, keep: x.mean(axes, keepdim=keep), **METHOD)
row("max", over(), lambda x, axes, keep: x.amax(axes, keepdim=keep), dtypes=NUMBERS, **METHOD)
row("min", over(), lambda x, axes, keep: x.amin(axes, keepdim=keep), dtypes=NUMBERS, **METHOD)
row("any", over(), lambda x, axes, keep: x.any(axes, keepdim=keep), dtypes=("bool",), smooth=False, **METHOD)
row("all", over(), lambda x, axes, keep: x.all(axes, keepdim=keep), dtypes=("bool",), smooth=False, **METHOD)
row("norm", over(change=zeros), lambda x, axes, keep: torch.linalg.vector_norm(x, dim=axes, keepdim=keep), **METHOD)
row("logsumexp", over(), lambda x, axes, keep: x.logsumexp(axes, keepdim=keep), **METHOD)
row("variance", over(2, change=alike_or_far, correction=lambda d: d.int(0, 1)),
    lambda x, axes, keep, correction: x.var(axes, correction=correction, keepdim=keep), **METHOD)
row("standard_deviation", over(2, change=alike_or_far, broadcast=False, correction=lambda d: d.int(0, 1)),
    lambda x, axes, keep, correction: x.std(axes, correction=correction, keepdim=keep), **METHOD)
row("mean_all", lambda d: ([d.tensor(d.shape(0))], {}), torch.mean, **METHOD)
row("global_norm", lambda d: ([d.tensor(d.shape(0))], {}), torch.linalg.vector_norm, wide=(0,))


def along(low=-3, high=3, values=(), **how):
    """A tensor and one of its axes."""
    def draw(d):
        shape = d.shape()
        return mixed(d, values, d.tensor(shape, low, high)), dict(axis=d.axis(shape), **{k: v(d) for k, v in how.items()})
    return draw


def order(**how):
    """A tensor, with equal elements or without, and one of its axes."""
    def draw(d):
        shape = d.shape()
        x = d.whole(shape) if d.chance() else d.tensor(shape)
        return mixed(d, INFINITE, x), dict(axis=d.axis(shape), **{k: v(d) for k, v in how.items()})
    return draw


def from_front(draw):
    """An op by its name counts axes from the front."""
    def changed(d):
        args, attributes = draw(d)[:2]
        rank = args[0].value(args[0].leaf).dim()
        return args, {**attributes, "axis": attributes["axis"] % rank}
    return changed


def far(d, args, attributes):
    """In one of four cases all numbers are far from 0."""
    args[0].leaf += d.pick((0, 0, 0, d.pick((100, -1e4, 1e6))))
    return args, attributes


def directions(d):
    """Two tensors; in one of four cases with rows of zeros in both, in one of eight with some in one, and then no gradient."""
    shape, rows = d.shape(), d.pick(("both", "both", "one", "", "", "", "", ""))
    axis = d.axis(shape)
    x, y = (d.tensor(shape, 0.2, 3, broadcast=not rows) for _ in range(2))
    for z in (x, y):
        z.leaf *= torch.tensor(d.rng.choice([-1, 1], z.leaf.shape))
    if rows:
        seen, mask = some_rows(d, x, [axis % len(shape)])
        seen.masked_fill_(mask, 0)
        x.learned = y.learned = rows == "both"
        if rows == "both":
            y.value(y.leaf).masked_fill_(mask, 0)
    return [x, y], dict(axis=axis, eps=1e-8)


row("softmax", along(-9, 9, INFINITE), lambda x, axis: x.softmax(axis), **METHOD)
row("log_softmax", lambda d: far(d, *along(-9, 9, (math.nan, -math.inf))(d)), lambda x, axis: x.log_softmax(axis),
    note="rows with ∞: PyTorch's are NaN, ours −∞ but for that element", **METHOD)
row("cosine_similarity", directions, lambda x, y, axis, eps: F.cosine_similarity(x, y, axis, eps),
    note="the gradient where one row alone is 0: PyTorch bounds each norm by eps, ours their product", **METHOD)
row("cumsum", from_front(order(reverse=lambda d: d.chance())),
    lambda x, axis, reverse: x.flip(axis).cumsum(axis).flip(axis) if reverse else x.cumsum(axis), dtypes=NUMBERS)
row("cumsum", order(), lambda x, axis: x.cumsum(axis), dtypes=NUMBERS, title="cumsum (method)", **METHOD)
row("argmax", order(), lambda x, axis: x.argmax(axis), dtypes=NUMBERS, smooth=False, **METHOD)
row("argmin", order(), lambda x, axis: x.argmin(axis), dtypes=NUMBERS, smooth=False, **METHOD)
row("sort", order(descending=lambda d: d.chance()),
    lambda x, axis, descending: x.sort(dim=axis, descending=descending, stable=True), dtypes=ANY, **METHOD)
row("argsort", order(descending=lambda d: d.chance()),
    lambda x, axis, descending: x.argsort(dim=axis, descending=descending, stable=True), dtypes=NUMBERS, smooth=False,
    **METHOD)


def largest(d):
    shape = d.shape()
    axis = d.axis(shape)
    return [d.distinct(shape)], dict(axis=axis, k=d.int(1, shape[axis]))


row("largest", largest, lambda x, axis, k: x.topk(k, axis), note="of distinct elements: PyTorch's is not stable", **METHOD)


# Indexing.


def gathered(d):
    shape = d.shape()
    axis = d.axis(shape)
    index = list(shape)
    index[axis] = d.size()
    return [d.tensor(shape), d.index(index, shape[axis])], dict(axis=axis)


def taken(d):
    shape = d.shape(1, 3)
    axis = d.axis(shape)
    return [d.tensor(shape), d.index(d.shape(0, 2), shape[axis])], dict(axis=axis)


def take(x, index, axis):
    axis %= x.dim()
    picked = x.index_select(axis, index.reshape(-1))
    return picked.reshape([*x.shape[:axis], *index.shape, *x.shape[axis + 1:]])


def scattered(d):
    shape = d.shape()
    axis = d.axis(shape)
    source = list(shape)
    source[axis] = d.size()
    return [d.tensor(shape), d.index(source, shape[axis]), d.tensor(source)], dict(axis=axis)


def added(d):
    shape = d.shape(1, 3)
    axis = d.axis(shape) % len(shape)
    index = [d.pick((1, 2, 3, 5)) for _ in range(d.int(0, 2))]
    source = shape[:axis] + index + shape[axis + 1:]
    return [d.tensor(shape), d.index(index, shape[axis]), d.tensor(source)], dict(axis=axis)


def index_add(x, index, source, axis):
    flat = source.reshape([*x.shape[:axis], -1, *x.shape[axis + 1:]])
    return x.index_add(axis, index.reshape(-1), flat)


row("gather", gathered, lambda x, index, axis: x.gather(axis, index), dtypes=ANY, **METHOD)
row("take", taken, take, dtypes=ANY, **METHOD)
row("embedding", lambda d: ([d.tensor([n := d.size(), d.size()]), d.index(d.shape(0, 3), n)], {}),
    lambda table, ids: F.embedding(ids, table), **METHOD)
row("scatter_add", scattered, lambda x, index, source, axis: x.scatter_add(axis, index, source), dtypes=NUMBERS, **METHOD)
row("index_add", added, index_add, dtypes=NUMBERS, **METHOD)
row("one_hot", lambda d: ([d.index(d.shape(0, 3), n := d.int(1, 9))], dict(classes=n, dtype=d.dtype)),
    lambda ids, classes, dtype: F.one_hot(ids, classes).to(DTYPES[dtype]), dtypes=ANY, smooth=False, **METHOD)


# Shapes.


def joined(d):
    shape = d.shape()
    axis, parts = d.int(0, len(shape) - 1), []
    for _ in range(d.int(1, 4)):
        part = list(shape)
        part[axis] = d.size()
        parts.append(d.tensor(part))
    return parts, dict(axis=axis)


def windows(d):
    shape = d.shape(1, 3)
    shape[-1] = max(shape[-1], d.pick((1, 5, 24)))
    return [d.tensor(shape)], dict(size=d.int(1, min(shape[-1], 9)), step=d.int(1, 5))


def folded(d):
    size, step, count = d.int(1, 6), d.int(1, 5), d.int(1, 9)
    length = (count - 1) * step + size + d.int(0, step - 1)
    return [d.tensor(d.shape(0, 2) + [count, size])], dict(size=size, step=step, length=length)


def fold(x, size, step, length):
    flat = x.reshape(-1, *x.shape[-2:]).transpose(1, 2)
    return F.fold(flat, (1, length), (1, size), stride=(1, step)).reshape(*x.shape[:-2], length)


def reshaped(d):
    shape = d.shape(0)
    sizes, rest = [], math.prod(shape)
    while rest > 1 and len(sizes) < 3 and d.chance(0.8):
        sizes.append(d.pick([n for n in range(1, rest + 1) if rest % n == 0]))
        rest //= sizes[-1]
    return [d.tensor(shape)], dict(shape=sizes + [rest])


def stretched(d):
    x = d.shape(0, 3)
    shape = [d.pick((1, 2, 3)) for _ in range(d.int(0, 2))] + [d.pick((2, 3, 5)) if n == 1 else n for n in x]
    return [d.tensor(x)], dict(shape=shape)


def cut(stepped):
    def draw(d):
        shape = d.shape()
        axis = d.int(0, len(shape) - 1)
        start = d.int(0, shape[axis] - 1)
        step = d.int(1, 3) if stepped else 1
        count = d.int(1, (shape[axis] - start - 1) // step + 1)
        return [d.tensor(shape)], dict(axis=axis, start=start, len=count, **(dict(step=step) if stepped else {}))
    return draw


def slice_step(x, axis, start, len, step=1):
    return x.narrow(axis, start, (len - 1) * step + 1).index_select(axis, torch.arange(0, (len - 1) * step + 1, step))


def pad(x, axis, before, after):
    return F.pad(x, [0, 0] * (x.dim() - 1 - axis) + [before, after])


def pack(*parts):
    flat = [F.pad(x.reshape(-1), (0, -x.numel() % 16)) for x in parts]
    return torch.cat(flat)


row("concat", joined, lambda *parts, axis: torch.cat(parts, axis), dtypes=ANY)
row("pad", from_front(along(before=lambda d: d.int(0, 3), after=lambda d: d.int(0, 3))), pad, dtypes=ANY)
row("pad_edge", lambda d: ([d.tensor(d.shape())], dict(after=d.int(0, 5))),
    lambda x, after: torch.cat([x, x[..., -1:].expand(*x.shape[:-1], after)], -1), dtypes=ANY)
row("pack", lambda d: ([d.tensor(d.shape(0)) for _ in range(d.int(1, 4))], {}), pack, dtypes=ANY)
row("fold", folded, fold)
row("unfold", windows, lambda x, size, step: x.unfold(-1, size, step), dtypes=ANY, **METHOD)
row("reshape", reshaped, lambda x, shape: x.reshape(shape), dtypes=ANY, **METHOD)
row("broadcast_to", stretched, lambda x, shape: x.expand(shape), dtypes=ANY, **METHOD)
row("slice", cut(False), slice_step, dtypes=ANY, **METHOD)
row("slice_step", cut(True), slice_step, dtypes=ANY, **METHOD)
row("permute", lambda d: ([d.tensor(s := d.shape())], dict(axes=[int(a) for a in d.rng.permutation(len(s))])),
    lambda x, axes: x.permute(axes), dtypes=ANY, title="permute (axes)", **METHOD)
row("transpose", lambda d: ([d.tensor(d.shape(2))], {}), lambda x: x.transpose(-1, -2), dtypes=ANY, **METHOD)
row("flip", along(), lambda x, axis: x.flip(axis), dtypes=ANY, **METHOD)
row("roll", along(shift=lambda d: d.int(-9, 9)), lambda x, axis, shift: x.roll(shift, axis), dtypes=ANY, **METHOD)
row("tile", along(times=lambda d: d.int(1, 3)), lambda x, axis, times: torch.cat([x] * times, axis), dtypes=ANY, **METHOD)
row("repeat_interleave", along(times=lambda d: d.int(1, 3)),
    lambda x, axis, times: x.repeat_interleave(times, axis), dtypes=ANY, **METHOD)


# Made of nothing.


def counted(d):
    shape = d.shape()
    sizes = ", ".join(map(str, shape))
    axis = d.int(0, len(shape) - 1)
    most = 255 // shape[axis] if d.dtype == "u8" else 9
    attributes = dict(spec=f"{d.dtype}[{sizes}]", axis=axis, start=float(d.int(0, min(most, 9))),
                      step=d.number(-2, 2) if d.float else float(d.int(0, max(most - 1, 0))))
    return [], attributes, dict(shape=shape)


def iota(spec, axis, start, step, shape):
    numbers = start + step * torch.arange(shape[axis], dtype=torch.float64)
    column = numbers.reshape([-1] + [1] * (len(shape) - 1 - axis))
    return column.to(DTYPES[spec.split("[")[0]]).expand(shape)


row("iota", counted, iota, dtypes=NUMBERS, smooth=False, note="numbers that the dtype holds")
row("fill", lambda d: ([], dict(shape=d.shape(0), dtype=d.dtype, value=float(d.int(0, 1)) if d.dtype == "bool" else
                                d.number(-9, 9) if d.float else float(d.int(0, 9)))),
    lambda shape, dtype, value: torch.full(shape, value, dtype=DTYPES[dtype]), dtypes=ANY, smooth=False, **METHOD)
row("scalar", lambda d: ([d.tensor(d.shape(0))], dict(value=float(d.int(0, 9)))),
    lambda x, value: torch.tensor(value, dtype=x.dtype), dtypes=NUMBERS, smooth=False, **METHOD)
row("arange", lambda d: ([], dict(dtype=d.dtype, start=float(d.int(0, 9)), step=float(d.int(1, 3)), count=d.int(1, 70))),
    lambda dtype, start, step, count: torch.arange(start, start + step * count, step, dtype=DTYPES[dtype]),
    dtypes=NUMBERS, smooth=False, note="numbers that the dtype holds", **METHOD)
row("linspace", lambda d: ([], dict(dtype=d.dtype, first=d.number(-9, 9), last=d.number(-9, 9), count=d.int(1, 70))),
    lambda dtype, first, last, count: torch.linspace(first, last, count, dtype=torch.float64).to(DTYPES[dtype]),
    smooth=False, note="PyTorch's in f64 rounded once: in 16 bits its own rounds the step", **METHOD)
row("eye", lambda d: ([], dict(dtype=d.dtype, n=d.size())), lambda dtype, n: torch.eye(n, dtype=DTYPES[dtype]),
    dtypes=ANY, smooth=False, **METHOD)
row("lower_triangle", lambda d: ([], dict(rows=d.size(), columns=d.size(), diagonal=d.int(-4, 4))),
    lambda rows, columns, diagonal: torch.ones(rows, columns, dtype=torch.bool).tril(diagonal), dtypes=("bool",),
    smooth=False, **METHOD)
