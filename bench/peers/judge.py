"""Random programs on both sides: values and total derivatives of Landfall's Python package against PyTorch, in f64.

    python3 bench/peers/judge.py --count 10000 --seed 1        # needs torch, numpy and the package landfall

A program is some random steps (pointwise functions, broadcasting, reductions, products, views with steps, indexing, norms, losses) on
two to four arrays. It is computed three times: by a compiled program, by the same program with destinations, and by PyTorch. Its
derivatives are those of a random weighted sum of its results with respect to a random set of targets: inputs, values on the way, slices,
the sum itself, now and then the same one twice. Where the steps are smooth, derivatives of derivatives are compared too.

It fails if one value differs by more than 1e-9 of the larger of the array's magnitude and 1, or if one side refuses what the other computes.
"""

import argparse
import sys
import time

import numpy as np
import torch

import landfall as lf

BOUND = 1e-9
# Second derivatives through several steps are larger than what they are made of.
BOUND_SECOND = 1e-7
ELEMENTS = 4000


class Step:
    """A step of a program on both sides: places of its arguments, arrays that it takes behind them, and how each side computes it."""

    def __init__(self, name, args, ours, theirs, smooth=True, constants=()):
        self.name, self.args, self.ours, self.theirs, self.smooth, self.constants = name, args, ours, theirs, smooth, constants


def method(name, **attributes):
    return lambda x, *more: getattr(x, name)(*more, **attributes)


# Pointwise functions that are smooth wherever they are called, on numbers of about -4 to 4.
SMOOTH = {
    "exp": torch.exp, "sin": torch.sin, "cos": torch.cos, "tanh": torch.tanh, "erf": torch.erf, "sigmoid": torch.sigmoid,
    "silu": torch.nn.functional.silu, "softplus": torch.nn.functional.softplus, "neg": torch.neg, "square": torch.square,
    "expm1": torch.expm1,
}
# With an edge: compared in value and first derivative.
EDGED = {"abs": torch.abs, "relu": torch.relu}


class Draw:
    """The random choices of a program."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def chance(self, p):
        return bool(self.rng.random() < p)

    def pick(self, of):
        return of[int(self.rng.integers(len(of)))]

    def int(self, low, high):
        return int(self.rng.integers(low, high + 1))

    def shape(self):
        return tuple(self.pick((1, 2, 3, 4, 5, 7)) for _ in range(self.int(0, 3)))

    def array(self, shape):
        return self.rng.uniform(-2, 2, shape)


def unary(d, x):
    """A pointwise function, or one with an attribute."""
    if d.chance(0.6):
        name = d.pick(list(SMOOTH))
        return name, method(name), SMOOTH[name], True
    kind = d.pick(("relu", "abs", "leaky_relu", "elu", "clamp", "affine", "log", "sqrt", "recip", "rsqrt", "gelu", "log1p", "powf", "number"))
    if kind in EDGED:
        return kind, method(kind), EDGED[kind], False
    if kind == "leaky_relu":
        slope = d.pick((0.01, 0.3))
        return kind, method(kind, slope=slope), lambda x: torch.nn.functional.leaky_relu(x, slope), False
    if kind == "elu":
        alpha = d.pick((1.0, 0.5))
        return kind, method(kind, alpha=alpha), lambda x: torch.nn.functional.elu(x, alpha), False
    if kind == "clamp":
        # Bounds that no other clamp has: at a bound the derivative is a choice.
        low, high = d.pick((-1.0, -0.3)) - 0.1 * d.rng.random(), 0.7 + 0.1 * d.rng.random()
        return kind, method(kind, low=low, high=high), lambda x: x.clamp(low, high), False
    if kind == "affine":
        return kind, method(kind, mul=1.5, add=-0.2), lambda x: x * 1.5 - 0.2, True
    if kind == "log":
        return kind, lambda x: (x.square() + 0.5).ln(), lambda x: (x.square() + 0.5).log(), True
    if kind == "sqrt":
        return kind, lambda x: (x.square() + 0.5).sqrt(), lambda x: (x.square() + 0.5).sqrt(), True
    if kind == "rsqrt":
        return kind, lambda x: (x.square() + 0.5).rsqrt(), lambda x: (x.square() + 0.5).rsqrt(), True
    if kind == "recip":
        return kind, lambda x: (x.square() + 0.5).recip(), lambda x: (x.square() + 0.5).reciprocal(), True
    if kind == "log1p":
        return kind, lambda x: x.square().log1p(), lambda x: x.square().log1p(), True
    if kind == "powf":
        return kind, lambda x: (x.square() + 0.5).powf(exponent=1.7), lambda x: (x.square() + 0.5).pow(1.7), True
    if kind == "gelu":
        return kind, method("gelu"), lambda x: torch.nn.functional.gelu(x), True
    number = d.pick((2, -0.5, 3.25))
    form = d.pick(("left", "right", "sub", "div"))
    how = {"left": lambda x: number * x, "right": lambda x: x + number, "sub": lambda x: number - x, "div": lambda x: x / number}[form]
    return f"{form} {number}", how, how, True


def binary(d, nodes):
    """Two values whose shapes go together, or none."""
    a = d.int(0, len(nodes) - 1)
    fitting = [i for i, n in enumerate(nodes) if broadcasts(n.shape, nodes[a].shape)]
    b = d.pick(fitting)
    kind = d.pick(("add", "sub", "mul", "div", "maximum", "minimum", "select", "mse"))
    if kind == "mse" and nodes[a].shape != nodes[b].shape:
        kind = "mul"
    if kind == "div":
        return Step(kind, [a, b], lambda x, y: x / (y.square() + 0.7), lambda x, y: x / (y.square() + 0.7))
    if kind == "select":
        return Step(kind, [a, b], lambda x, y: (x + y > 0.1).select(x + y, x * y), lambda x, y: torch.where(x + y > 0.1, x + y, x * y), False)
    if kind == "mse":
        return Step(kind, [a, b], lambda x, y: ((x - y) ** 2).mean(), torch.nn.functional.mse_loss)
    theirs = {"add": torch.add, "sub": torch.sub, "mul": torch.mul, "maximum": torch.maximum, "minimum": torch.minimum}[kind]
    smooth = kind in ("add", "sub", "mul")
    if smooth and d.chance(0.5):
        return Step(kind, [a, b], {"add": lambda x, y: x + y, "sub": lambda x, y: x - y, "mul": lambda x, y: x * y}[kind], theirs)
    return Step(kind, [a, b], method(kind), theirs, smooth)


def broadcasts(a, b):
    return all(m == n or 1 in (m, n) for m, n in zip(reversed(a), reversed(b)))


def reduction(d, i, shape):
    axes = sorted(int(a) for a in d.rng.permutation(len(shape))[: d.int(1, len(shape))])
    keep = d.chance(0.4)
    given = [a - len(shape) if d.chance(0.4) else a for a in axes]
    kind = d.pick(("sum", "mean", "max", "min", "logsumexp", "variance", "norm", "prod"))
    count = int(np.prod([shape[a] for a in axes]))
    if kind == "variance" and count < 2 or kind == "prod" and count > 6:
        kind = "sum"
    ours = method(kind, axes=given, keep=keep)
    if kind == "norm":
        return Step(kind, [i], lambda x: (x + 3.0).norm(axes=given, keep=keep),
                    lambda x: torch.linalg.vector_norm(x + 3.0, dim=axes, keepdim=keep))
    theirs = {
        "sum": lambda x: x.sum(axes, keepdim=keep), "mean": lambda x: x.mean(axes, keepdim=keep),
        "max": lambda x: x.amax(axes, keepdim=keep), "min": lambda x: x.amin(axes, keepdim=keep),
        "logsumexp": lambda x: x.logsumexp(axes, keepdim=keep), "variance": lambda x: x.var(axes, keepdim=keep),
    }.get(kind)
    if kind == "prod":
        def theirs(x):
            for a in reversed(axes):
                x = x.prod(a, keepdim=keep)
            return x
    return Step(kind, [i], ours, theirs, kind not in ("max", "min"))


def rowwise(d, i, shape):
    axis = d.int(-len(shape), len(shape) - 1)
    kind = d.pick(("softmax", "log_softmax", "cumsum", "layer_norm", "sort", "flip", "roll"))
    if kind == "layer_norm":
        n = shape[-1]
        weight, bias = d.array(n), d.array(n)
        return Step(kind, [i], lambda x, weight, bias: x.layer_norm(weight, bias),
                    lambda x, weight, bias: torch.nn.functional.layer_norm(x, (n,), weight, bias), False, (weight, bias))
    if kind == "sort":
        return Step(kind, [i], lambda x: x.sort(axis=axis)[0], lambda x: x.sort(dim=axis)[0], False)
    if kind == "roll":
        shift = d.int(-3, 3)
        return Step(kind, [i], method(kind, axis=axis, shift=shift), lambda x: x.roll(shift, axis))
    theirs = {"softmax": lambda x: x.softmax(axis), "log_softmax": lambda x: x.log_softmax(axis), "cumsum": lambda x: x.cumsum(axis),
              "flip": lambda x: x.flip(axis)}[kind]
    return Step(kind, [i], method(kind, axis=axis), theirs)


def view(d, i, shape):
    kind = d.pick(("slice", "permute", "reshape", "new", "index", "take", "pad", "tile"))
    if kind == "slice":
        key = []
        for n in shape:
            start = d.int(0, n - 1)
            key.append(slice(start, d.int(start + 1, n), d.pick((1, 1, 2))))
        key = tuple(key)
        return Step(f"{key}", [i], lambda x: x[key], lambda x: x[key])
    if kind == "permute":
        order = [int(a) for a in d.rng.permutation(len(shape))]
        return Step(f"permute {order}", [i], lambda x: x.permute(*order), lambda x: x.permute(order))
    if kind == "reshape":
        flat = d.chance(0.5)
        to = (-1,) if flat else tuple(reversed(shape))
        return Step(f"reshape {to}", [i], lambda x: x.reshape(*to), lambda x: x.reshape(to))
    if kind == "new":
        return Step("x[None]", [i], lambda x: x[None], lambda x: x[None])
    axis = d.int(0, len(shape) - 1)
    if kind == "index":
        at = d.int(-shape[0], shape[0] - 1)
        return Step(f"[{at}]", [i], lambda x: x[at], lambda x: x[at])
    if kind == "take":
        index = d.rng.integers(0, shape[axis], d.int(1, 5))
        return Step(f"take {index.tolist()}", [i], lambda x, index: x.take(index, axis=axis),
                    lambda x, index: x.index_select(axis, index), constants=(index,))
    if kind == "pad":
        before, after = d.int(0, 2), d.int(0, 2)
        spec = [0, 0] * (len(shape) - 1 - axis) + [before, after]
        return Step(f"pad {axis}", [i], method("pad", axis=axis, before=before, after=after), lambda x: torch.nn.functional.pad(x, spec))
    times = d.int(1, 3)
    repeats = [times if a == axis else 1 for a in range(len(shape))]
    return Step(f"tile {axis} x {times}", [i], method("tile", axis=axis, times=times), lambda x: x.repeat(repeats))


def product(d, nodes):
    """A matrix product, or none where no shapes fit."""
    left = [i for i, n in enumerate(nodes) if len(n.shape) >= 2]
    pairs = [(i, j) for i in left for j in left
             if nodes[i].shape[-1] == nodes[j].shape[-2] and nodes[i].shape[:-2] == nodes[j].shape[:-2]]
    if pairs:
        i, j = d.pick(pairs)
        return Step("@", [i, j], lambda x, y: x @ y, lambda x, y: x @ y)
    if left:
        i = d.pick(left)
        return Step("@ T", [i, i], lambda x, y: x @ y.transpose(), lambda x, y: x @ y.transpose(-1, -2))
    return None


def joined(d, nodes, i):
    same = [j for j, n in enumerate(nodes) if n.shape == nodes[i].shape]
    axis = d.int(0, len(nodes[i].shape) - 1)
    j = d.pick(same)
    return Step(f"concat {axis}", [i, j], lambda x, y: lf.ops.concat(x, y, axis=axis), lambda x, y: torch.cat([x, y], axis))


def next_step(d, nodes):
    """A step on what there is."""
    i = d.int(0, len(nodes) - 1)
    shape = tuple(nodes[i].shape)
    kind = d.pick(("unary", "unary", "binary", "binary", "reduction", "rowwise", "view", "view", "product", "joined"))
    if kind == "binary":
        return binary(d, nodes)
    if kind == "product":
        step = product(d, nodes)
        if step:
            return step
    if shape and kind in ("reduction", "rowwise", "view"):
        return {"reduction": reduction, "rowwise": rowwise, "view": view}[kind](d, i, shape)
    if shape and kind == "joined":
        return joined(d, nodes, i)
    name, ours, theirs, smooth = unary(d, nodes[i])
    return Step(name, [i], ours, theirs, smooth)


def calm(step, result):
    """A step whose results stay in the range of the next ones."""
    if result.numel() and float(result.abs().max()) > 4:
        ours, theirs = step.ours, step.theirs
        return Step(step.name + " / tanh", step.args, lambda *a: ours(*a).tanh(), lambda *a: theirs(*a).tanh(), step.smooth, step.constants)
    return step


class Random:
    """A program: its arrays, steps, results, the weights of their sum, and the targets of its derivatives."""

    def __init__(self, seed):
        d = self.d = Draw(seed)
        self.arrays = [d.array(d.shape()) for _ in range(d.int(2, 4))]
        nodes = [torch.tensor(a) for a in self.arrays]
        self.steps = []
        while len(self.steps) < d.int(3, 10):
            step = next_step(d, nodes)
            result = step.theirs(*(nodes[i] for i in step.args), *map(torch.tensor, step.constants))
            if result.numel() > ELEMENTS or not result.numel() or result.dim() > 5:
                continue
            step = calm(step, result)
            result = step.theirs(*(nodes[i] for i in step.args), *map(torch.tensor, step.constants))
            # Of equal numbers there is no one that a maximum chooses.
            if not torch.isfinite(result).all() or not step.smooth and len(set(step.args)) < len(step.args):
                continue
            self.steps.append(step)
            nodes.append(result)
        self.results = sorted({len(nodes) - 1, *(d.int(len(self.arrays), len(nodes) - 1) for _ in range(d.int(0, 2)))})
        self.weights = [d.array(nodes[i].shape) for i in self.results]
        count = len(nodes)
        # A derivative with respect to what the sum does not depend on is refused, as in PyTorch.
        reached = set(self.results)
        for place in reversed(range(len(self.arrays), count)):
            if place in reached:
                reached.update(self.steps[place - len(self.arrays)].args)
        self.targets = [d.pick(sorted(reached)) for _ in range(d.int(1, 4))]
        self.target_loss = d.chance(0.1)
        self.smooth = all(step.smooth for step in self.steps)
        # The arrays on which the derivatives depend: as PyTorch finds them.
        self.second = []
        self.wanted = self.theirs()

    def described(self):
        lines = [f"array {i}: {list(a.shape)}" for i, a in enumerate(self.arrays)]
        lines += [f"value {len(self.arrays) + k}: {s.name} of {s.args}" for k, s in enumerate(self.steps)]
        return "\n    ".join([*lines, f"results {self.results}, targets {self.targets}{' and the loss' if self.target_loss else ''}"])

    @property
    def constants(self):
        """What a program takes beside its arrays: the arrays of its steps, and the weights of the sum."""
        return [c for step in self.steps for c in step.constants] + self.weights

    def values(self, arrays, constants, side):
        values, constants = list(arrays), iter(constants)
        for step in self.steps:
            own = [next(constants) for _ in step.constants]
            values.append(getattr(step, side)(*(values[i] for i in step.args), *own))
        return values, list(constants)

    def ours(self, *given):
        """Traced: results, derivatives, and derivatives of a sum of these."""
        arrays = given[: len(self.arrays)]
        values, weights = self.values(arrays, given[len(self.arrays) :], "ours")
        terms = [(values[i] * w).sum() for i, w in zip(self.results, weights)]
        loss = terms[0]
        for term in terms[1:]:
            loss = loss + term
        found = {f"value {i}": values[i] for i in self.results}
        targets = [values[i] for i in self.targets] + ([loss] if self.target_loss else [])
        first = loss.gradients(targets)
        found.update({f"derivative {k}": g for k, g in enumerate(first)})
        if self.smooth:
            total = (first[0] * first[0]).sum()
            for g in first[1:]:
                total = total + (g * g).sum()
            if self.second:
                found.update({f"second derivative {k}": g for k, g in zip(self.second, total.gradients([arrays[k] for k in self.second]))})
        return found

    def theirs(self):
        leaves = [torch.tensor(a, requires_grad=True) for a in self.arrays]
        values, weights = self.values(leaves, map(torch.tensor, self.constants), "theirs")
        loss = sum((values[i] * w).sum() for i, w in zip(self.results, weights))
        found = {f"value {i}": values[i] for i in self.results}
        targets = [values[i] for i in self.targets] + ([loss] if self.target_loss else [])
        first = torch.autograd.grad(loss, targets, create_graph=self.smooth)
        found.update({f"derivative {k}": g for k, g in enumerate(first)})
        if self.smooth:
            total = sum((g * g).sum() for g in first)
            second = torch.autograd.grad(total, leaves, allow_unused=True) if total.requires_grad else []
            # A derivative that is 0 for certain is refused: there is no path.
            second = {k: g for k, g in enumerate(second) if g is not None and g.abs().sum() > 1e-9}
            self.second = sorted(second)
            found.update({f"second derivative {k}": g for k, g in second.items()})
        return {name: x.detach().numpy() for name, x in found.items()}


def differences(program):
    """What differs, a text for each; and whether Landfall refused."""
    wanted = program.wanted
    given = [*program.arrays, *program.constants]
    compiled = lf.compile(program.ours, *given)
    got = compiled(*given)
    out = {name: np.full(x.shape, np.nan) for name, x in wanted.items()}
    compiled(*given, out=out)
    for name, want in wanted.items():
        bound = BOUND_SECOND if name.startswith("second") else BOUND
        scale = max(1.0, float(np.abs(want).max(initial=0)))
        for way, have in (("returned", got[name].numpy()), ("in out", out[name])):
            if have.shape != want.shape:
                yield f"{name} {way} is {list(have.shape)}, PyTorch's {list(want.shape)}"
            elif not np.all(np.abs(have - want) <= bound * scale):
                at = np.unravel_index(int(np.nanargmax(np.abs(np.nan_to_num(have, nan=1e300) - want))), want.shape)
                yield f"{name} {way} at {[int(i) for i in at]}: {have[at]!r}, PyTorch's {want[at]!r}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1000, help="programs")
    parser.add_argument("--seed", type=int, default=1, help="of the first program's number")
    parser.add_argument("--most", type=int, default=5, help="wrong programs after which it ends")
    args = parser.parse_args()
    torch.set_num_threads(1)
    start, wrong, second = time.perf_counter(), 0, 0
    for number in range(args.count):
        program = Random([args.seed, number])
        second += program.smooth
        try:
            found = list(differences(program))
        except (lf.Error, RuntimeError, TypeError, ValueError) as e:
            found = [f"{type(e).__name__}: {e}"]
        if found:
            wrong += 1
            print(f"program {number} of seed {args.seed}:\n    {program.described()}")
            for line in found[:6]:
                print(f"    WRONG {line}")
            if wrong >= args.most:
                break
    seconds = time.perf_counter() - start
    print(f"programs: {number + 1}, {second} with second derivatives, {wrong} wrong, {seconds:.0f} s (PyTorch {torch.__version__})")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
