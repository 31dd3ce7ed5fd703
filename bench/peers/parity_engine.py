"""The engine as `parity.py` sees it: a process that evaluates one op after another, and random tensors that both sides take.

The protocol is described in `crates/landfall/examples/parity/main.rs`.
"""

import json
import subprocess

import numpy
import torch

DTYPES = {
    "f64": torch.float64, "f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16,
    "i64": torch.int64, "i32": torch.int32, "u8": torch.uint8, "bool": torch.bool,
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}
FLOATS = ("f64", "f32", "bf16", "f16")
HALVES = ("bf16", "f16")
INTEGERS = ("i64", "i32", "u8")
# Sizes of axes: 1, odd ones, and those around the width of a vector.
SIZES = (1, 1, 2, 3, 4, 5, 7, 8, 9, 13, 16, 17)
LONG = (31, 64, 129, 300, 1030)
ELEMENTS = 6000


class Refused(Exception):
    """What the engine answered instead of a result."""


class Arg:
    """An argument of an op: a tensor, and the views through which the op takes it. `state`: an op may update it."""

    def __init__(self, leaf, views=(), state=False, learned=True):
        self.leaf, self.views, self.state = leaf, list(views), state
        # Whether a gradient is asked for.
        self.learned = learned and leaf.is_floating_point() and not state

    def value(self, leaf):
        """What the op takes, of a tensor in place of the leaf."""
        x = leaf
        for view in self.views:
            (kind, how), = view.items()
            if kind == "permute":
                x = x.permute(how)
            elif kind == "broadcast":
                x = x.expand(how)
            else:
                axis, start, count, step = how
                index = [slice(None)] * x.dim()
                index[axis] = slice(start, start + count * step, step) if count else slice(0, 0)
                x = x[tuple(index)]
        return x

    def described(self):
        """Its dtype and shape, and its views, for people."""
        views = "".join(f" {kind} {how}" for view in self.views for kind, how in view.items())
        return f"{NAMES[self.leaf.dtype]}{list(self.leaf.shape)}{views}"


class Engine:
    """The process."""

    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def answer(self, request, tensors=()):
        self.process.stdin.write(json.dumps(request).encode() + b"\n")
        for x in tensors:
            flat = torch.empty(x.numel(), dtype=x.dtype).copy_(x.detach().reshape(-1))
            self.process.stdin.write(flat.view(torch.uint8).numpy().tobytes())
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"the engine ended at {request}")
        return json.loads(line)

    def names(self):
        """The ops of the table."""
        return self.answer({"list": True})["ops"]

    def read(self, spec):
        dtype, count = DTYPES[spec["dtype"]], int(numpy.prod(spec["shape"], dtype=int))
        raw = bytearray(self.process.stdout.read(count * dtype.itemsize))
        flat = torch.frombuffer(raw, dtype=dtype) if count else torch.empty(0, dtype=dtype)
        return flat.reshape(spec["shape"])

    def call(self, name, method, attributes, args, gradients=(), cotangents=()):
        """Outputs, gradients and the ops of the program."""
        def spec(x):
            return {"dtype": NAMES[x.dtype], "shape": list(x.shape)}

        request = {
            "name": name, "method": method, "attributes": attributes, "gradients": list(gradients),
            "args": [{**spec(a.leaf), "views": a.views, "state": a.state} for a in args],
            "cotangents": [None if c is None else spec(c) for c in cotangents],
        }
        given = [c for c in cotangents if c is not None]
        found = self.answer(request, [a.leaf for a in args] + given)
        if "error" in found:
            raise Refused(found["error"])
        outputs = [self.read(s) for s in found["outputs"]]
        return outputs, [self.read(s) for s in found["gradients"]], found["ops"]

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Draw:
    """Random shapes, layouts and numbers of a case, in the dtype under test."""

    def __init__(self, engine, seed, dtype):
        self.engine, self.rng, self.dtype = engine, numpy.random.default_rng(seed), dtype

    @property
    def float(self):
        """Whether the dtype under test is one of floats."""
        return DTYPES[self.dtype].is_floating_point

    def chance(self, p=0.5):
        return bool(self.rng.random() < p)

    def pick(self, options):
        return options[self.rng.integers(len(options))]

    def int(self, low, high):
        """An integer from `low` to `high`, both included."""
        return int(self.rng.integers(low, high + 1))

    def number(self, low, high):
        return float(self.rng.uniform(low, high))

    def size(self):
        return self.pick(SIZES)

    def shape(self, least=1, most=4, empty=False):
        """A shape of a rank within these bounds; now and then one axis is long, or where it may be, of size 0."""
        shape = [self.size() for _ in range(self.int(least, most))]
        if shape and self.chance(0.3):
            shape[self.int(0, len(shape) - 1)] = self.pick(LONG)
        while numpy.prod(shape) > ELEMENTS:
            shape[int(numpy.argmax(shape))] //= 2
        if shape and empty and self.chance(0.05):
            shape[self.int(0, len(shape) - 1)] = 0
        return shape

    def axis(self, shape):
        """An axis, from the front or from the end."""
        return self.int(-len(shape), len(shape) - 1)

    def axes(self, shape):
        """Some axes, at least one."""
        count = self.int(1, len(shape))
        return sorted(int(a) for a in self.rng.permutation(len(shape))[:count])

    def layout(self, shape, broadcast):
        """The shape of a tensor and the views that make this shape of it: permuted, sliced, broadcast, or none."""
        shape, views = list(shape), []
        if broadcast and shape and self.chance(0.25):
            views.insert(0, {"broadcast": list(shape)})
            shape = [1 if self.chance() else n for n in shape]
            while shape and shape[0] == 1 and self.chance():
                shape.pop(0)
        for _ in range(2):
            if shape and self.chance(0.4):
                axis = self.int(0, len(shape) - 1)
                count = shape[axis]
                start, step = (self.int(0, 2), self.pick((1, 1, 2, 3))) if count else (0, 1)
                views.insert(0, {"slice": [axis, start, count, step]})
                shape[axis] = start + max(count - 1, 0) * step + min(count, 1) + self.int(0, 2)
            if len(shape) > 1 and self.chance(0.6):
                order = [int(a) for a in self.rng.permutation(len(shape))]
                views.insert(0, {"permute": order})
                before = [0] * len(shape)
                for to, of in enumerate(order):
                    before[of] = shape[to]
                shape = before
        return shape, views

    def tensor(self, shape, low=-3, high=3, dtype=None, plain=False, broadcast=True, **how):
        """Uniform numbers of a range, of an integer dtype both ends included. `plain`: without views."""
        dtype = DTYPES[dtype or self.dtype]
        shape, views = (list(shape), []) if plain else self.layout(shape, broadcast)
        if dtype == torch.bool:
            data = self.rng.integers(0, 2, shape)
        elif dtype.is_floating_point:
            data = self.rng.uniform(low, high, shape)
        else:
            data = self.rng.integers(max(int(low), 0) if dtype == torch.uint8 else int(low), int(high) + 1, shape)
        return Arg(torch.tensor(data).to(dtype), views, **how)

    def whole(self, shape, low=-3, high=3, **how):
        """Whole numbers, in floats too, so that there are equal ones."""
        made = self.tensor(shape, low, high, **how)
        made.leaf = made.leaf.round() if made.leaf.is_floating_point() else made.leaf
        return made

    def distinct(self, shape, **how):
        """Numbers of which no two are equal: an op that chooses one has one choice. (As many as `u8` holds, of integers.)"""
        made = self.tensor(shape, broadcast=False, **how)
        seen = made.value(made.leaf)
        count = seen.numel()
        order = torch.tensor(self.rng.permutation(count))
        if self.dtype in HALVES:
            # Numbers that the dtype holds, over all of its exponents from 2⁻³⁰ to 3.
            every = torch.arange(-2**15, 2**15).to(torch.int16).view(made.leaf.dtype)
            every = every[(every.abs() < 3) & (every.abs() > 2**-30)]
            spread = every[torch.arange(count) * len(every) // max(count, 1)][order]
        elif self.float:
            spread = (order - count // 2) * (6 / count)
        else:
            spread = order - (0 if self.dtype == "u8" else count // 2)
        seen.copy_(spread.reshape(seen.shape))
        return made

    def index(self, shape, size, dtype="i64", **how):
        """Integers below `size`."""
        return self.tensor(shape, 0, size - 1, dtype=dtype, **how)

    def broadcast(self, count, low=-3, high=3, whole=False):
        """Tensors whose shapes go together by broadcasting."""
        shape = self.shape(0, empty=True)
        shapes = [list(shape) for _ in range(count)]
        for other in shapes[1:] if self.chance() else shapes[:-1]:
            for axis in range(len(other)):
                if self.chance(0.4):
                    other[axis] = 1
            while other and self.chance(0.3):
                other.pop(0)
        make = self.whole if whole else self.tensor
        return [make(s, low, high) for s in shapes]

    def cursor(self, step=0, micro=0):
        """A cursor at a step and a micro-batch, with a random seed."""
        cursor = torch.tensor([step, 0, 0, self.int(0, 2**62), 0, 8, micro, 0])
        return Arg(cursor, learned=False)
