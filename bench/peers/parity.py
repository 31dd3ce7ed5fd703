"""Compares every op of the engine, and the methods of its graph, with PyTorch on the CPU: forward and gradient, on random
shapes and layouts.

    python3 bench/peers/parity.py                        # builds the engine's side with cargo first
    python3 bench/peers/parity.py --rows softmax,sum --cases 200 --seed 7
    python3 bench/peers/parity.py --engine target/release/examples/parity

It needs `torch` and `numpy`. Each op is called at least 20 times in each of its dtypes, on contiguous tensors and on views:
permuted, sliced, with steps, broadcast. Its gradients are those of a random cotangent of each output. A table lists the
worst errors of each op: absolute (of numbers up to 10⁶), and relative to max(|PyTorch's|, 1). In f32 both sides round; so the
table also lists how far each is from what PyTorch makes of the same numbers in f64. Results of integers and truth values must
be equal. NaN, infinite numbers and others at the ends of functions are among the cases, and there outputs alone are compared.

In bf16 and f16 PyTorch's results in f64 of the same numbers count, because its own are rounded as often as its formulas have
steps. An output has one rounding. A graph stores in 16 bits what a gradient consists of (cotangents times slopes, sums over
uses and broadcast axes), and a sum of rounded terms is off by units of the terms, not of what remains when they cancel. The
errors of a gradient are thus relative to the root mean square of gradients whose cotangents have random signs, which is that of
its terms; to 1 and to itself, if these are larger. The table has ours and PyTorch's own, of its functions in 16 bits.

It fails if an error is beyond its bound (in f32, and of a gradient in 16 bits, also beyond twice PyTorch's own error), if
the dtype of a result is another one, if the engine refuses a call, or if an op of the engine's table or a method of its graph
has no row here, no row that it is a part of, and no reason why PyTorch has nothing for it. Rows are in `parity_cases.py`,
`parity_layers.py` and `parity_composite.py`.
"""

import argparse
import json
import math
import pathlib
import re
import subprocess
import sys
import warnings
import zlib

import torch

import parity_composite  # noqa: F401, its rows
import parity_layers
from parity_cases import ROWS
from parity_engine import DTYPES, FLOATS, HALVES, NAMES, Draw, Engine, Refused

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Absolute errors are listed of numbers up to here.
LARGE = 1e6
# The largest relative errors, of outputs and of gradients: some units of the last place, for sums and functions on both sides.
# Of 16 bits one rounding of an output, and what sums in f32 add. Of a gradient four roundings: its own, and three
# for four standard deviations of those of its terms, whose size is known within a third.
BOUNDS = {"f64": (1e-12, 1e-12), "f32": (1e-5, 5e-5), "bf16": (2**-8 + 5e-5, 2**-6), "f16": (2**-11 + 5e-5, 2**-9)}
# Gradients that say how large the terms of one are.
FLIPS = 8


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=20, help="of each op in each dtype")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rows", help="these alone, with commas")
    parser.add_argument("--dtypes", help="these alone, with commas")
    parser.add_argument("--engine", help="the program of the engine's side, if it is built already")
    return parser.parse_args()


def built():
    """Builds the engine's side and gives its path."""
    command = ["cargo", "build", "--release", "--package", "landfall", "--example", "parity", "--message-format=json"]
    found = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
    made = [m["executable"] for m in map(json.loads, found.splitlines()) if m.get("executable")]
    return made[-1]


def distance(x, y, size=None):
    """Absolute and relative differences of the elements of two tensors; those of integers are 0 or infinite."""
    # Equal infinities differ by NaN, and so do two NaN.
    same = (x == y) | (x.isnan() & y.isnan())
    if not y.dtype.is_floating_point:
        different = torch.where(same, 0.0, torch.inf)
        return different, different
    x, y = x.double(), y.double()
    absolute = torch.where(same, 0.0, (x - y).abs()).nan_to_num(torch.inf, torch.inf)
    size = y.abs().nan_to_num(1, 1).clamp(min=1) if size is None else size.double()
    return absolute, torch.where(absolute == 0, 0.0, absolute / size)


def largest(x):
    return x.max().item() if x.numel() else 0.0


class Worst:
    """The largest errors of a row in a dtype, and the first failure."""

    def __init__(self):
        self.cases, self.beyond, self.failure = 0, 0, None
        # Absolute and relative to PyTorch, of outputs and of gradients; nothing where nothing was compared.
        self.errors = {"forward": [], "gradient": []}
        # In f32, and of gradients in 16 bits, relative to PyTorch's in f64 of the same numbers: ours, and PyTorch's own.
        self.rounding = []

    def fail(self, text):
        self.beyond += 1
        self.failure = self.failure or text

    def compare(self, kind, index, got, wanted, bound, case, exact=None, size=None):
        """Adds the errors of a tensor. `wanted`: PyTorch's in the same dtype, nothing where it has none; `exact`: PyTorch's in
        f64 of the same numbers; `size`: what errors are relative to, if it is not max(|PyTorch's|, 1).

        Beyond the bound in f32, and of a gradient in 16 bits, is none if PyTorch's own rounding error is about as large."""
        shown = [("PyTorch's is", wanted), ("in f64", exact), ("of the size", size)]
        result = exact if wanted is None else wanted
        if got.shape != result.shape or wanted is not None and got.dtype != wanted.dtype:
            had, want = (f"{NAMES[x.dtype]}{list(x.shape)}" for x in (got, result))
            return self.fail(f"{kind} {index} is {had}, PyTorch's {want}: {case()}")
        half = NAMES[got.dtype] in HALVES
        if exact is not None:
            # What the dtype does not hold is infinite on both sides.
            rounded = exact.to(got.dtype)
            exact = torch.where(rounded.isinf(), rounded.to(exact.dtype), exact)
        # To 16 bits PyTorch rounds as often as its formula has steps.
        judge = exact if exact is not None and (half or wanted is None) else wanted
        absolute, relative = distance(got, judge, size)
        # An absolute error of a large number says nothing.
        small = absolute[judge.abs() <= LARGE] if judge.dtype.is_floating_point else absolute
        worst = [largest(small), largest(relative)]
        self.errors[kind] = [max(pair) for pair in zip(worst, self.errors[kind] or worst)]
        allowed = bound
        if exact is not None and wanted is not None and (kind == "gradient" or not half):
            relative = distance(got, exact, size)[1]
            pair = [largest(relative), largest(distance(wanted, exact, size)[1])]
            self.rounding = [max(both) for both in zip(pair, self.rounding or pair)]
            # What PyTorch's has no number for allows nothing.
            allowed = max(bound, 2 * pair[1] if math.isfinite(pair[1]) else 0)
        if worst[1] > bound and largest(relative) > allowed:
            at = int(relative.argmax())
            where = [int(i) for i in torch.unravel_index(torch.tensor(at), got.shape)] if got.dim() else []
            text = "".join(f", {what} {x.reshape(-1)[at].item()!r}" for what, x in shown if x is not None)
            self.fail(f"{kind} {index} at {where}: {got.reshape(-1)[at].item()!r}{text}; {case()}")


class Peer:
    """PyTorch's outputs of a call, and gradients by the number of the argument; `floats`: the dtype of all floats."""

    def __init__(self, row, args, call, floats=None):
        self.leaves = [self.cast(a.leaf, floats).clone().requires_grad_(row.smooth and a.learned) for a in args]
        outputs = row.peer(*(a.value(x) for a, x in zip(args, self.leaves)), **call)
        self.outputs = tuple(outputs) if isinstance(outputs, (tuple, list)) else (outputs,)
        self.smooth = [i for i, y in enumerate(self.outputs) if y is not None and y.requires_grad]

    @staticmethod
    def cast(x, floats):
        return x.to(floats) if floats and x.is_floating_point() else x

    def gradients(self, cotangents):
        learned = [i for i, x in enumerate(self.leaves) if x.requires_grad and self.smooth]
        if not learned:
            return {}
        outputs = [self.outputs[i] for i in self.smooth]
        given = [cotangents[i].to(y.dtype) for i, y in zip(self.smooth, outputs)]
        found = torch.autograd.grad(outputs, [self.leaves[i] for i in learned], given, retain_graph=True, allow_unused=True)
        return {i: g for i, g in zip(learned, found) if g is not None}

    def sizes(self, cotangents, rng):
        """What rounding errors of a gradient are relative to: the root mean square of gradients whose cotangents have
        random signs. It is that of the terms which a gradient adds, as rounding errors add, however far the terms cancel."""
        squares = {i: g.square() / FLIPS for i, g in self.gradients(cotangents).items()}
        for _ in range(FLIPS - 1):
            signs = [c if c is None else c * torch.tensor(rng.choice([-1, 1], list(c.shape))) for c in cotangents]
            for i, g in self.gradients(signs).items():
                squares[i] += g.square() / FLIPS
        return {i: s.sqrt() for i, s in squares.items()}


def run_case(engine, row, dtype, seed, worst):
    """One random call on both sides; the ops of the engine's program."""
    d = Draw(engine, seed, dtype)
    args, attributes, *aside = row.draw(d)
    call = {**attributes, **(aside[0] if aside else {})}
    half = dtype in HALVES

    def case():
        described = ", ".join(a.described() for a in args)
        return f"seed {seed[0]}, case {seed[2]}, {row.name}({described}) {attributes}"

    def held(i, y):
        """The dtype of an output on our side."""
        if not half or y.dtype != torch.float64:
            return y.dtype
        return torch.float32 if i in row.wide else DTYPES[attributes.get("dtype", dtype)]

    worst.cases += 1
    try:
        first = Peer(row, args, call, torch.float64 if half else None)
        cotangents = [torch.tensor(d.rng.normal(size=list(y.shape))).to(held(i, y)) if i in first.smooth else None
                      for i, y in enumerate(first.outputs)]
        slopes = first.gradients(cotangents)
    except (RuntimeError, TypeError, ValueError, IndexError) as error:
        worst.fail(f"the peer fails: {type(error).__name__}: {error}; {case()}")
        return set()
    try:
        outputs, gradients, ops = engine.call(row.name, row.method, attributes, args, slopes, cotangents)
    except Refused as refused:
        worst.fail(f"refused: {refused}; {case()}")
        return set()
    if len(outputs) != len(first.outputs):
        worst.fail(f"{len(outputs)} outputs, PyTorch's are {len(first.outputs)}: {case()}")
        return set()
    own, own_slopes, exact, exact_slopes, sizes = first.outputs, slopes, (), {}, {}
    if half:
        exact, exact_slopes, sizes = own, slopes, first.sizes(cotangents, d.rng)
        own, own_slopes = in_16_bits(row, args, call, cotangents)
    elif dtype == "f32" and row.rounds:
        second = Peer(row, args, call, torch.float64)
        exact, exact_slopes = second.outputs, second.gradients(cotangents)
    for i, (got, want) in enumerate(zip(outputs, first.outputs)):
        if want is None:
            continue
        if got.dtype != held(i, want):
            worst.fail(f"forward {i} is {NAMES[got.dtype]}, not {NAMES[held(i, want)]}: {case()}")
            continue
        wide = exact[i].detach() if exact and exact[i].dtype == torch.float64 != got.dtype else None
        # Of what is f32 on our side alone PyTorch has nothing of its own.
        mine = want.detach()
        if half and wide is not None:
            mine = own[i].detach() if own and got.dtype == own[i].dtype == DTYPES[dtype] else None
        # In 16 bits an output is as exact as its own dtype.
        worst.compare("forward", i, got, mine, bound(row, NAMES[got.dtype] if half else dtype, got, 0), case, wide)
    for got, i in zip(gradients, slopes):
        size = sizes[i].clamp(min=1).maximum(slopes[i].abs()) if half else None
        worst.compare("gradient", i, got, own_slopes.get(i), bound(row, dtype, got, 1), case, exact_slopes.get(i), size)
    return set(ops)


def in_16_bits(row, args, call, cotangents):
    """Outputs and gradients of PyTorch's own functions in 16 bits; nothing where it has no such function in them."""
    try:
        peer = Peer(row, args, call)
        return peer.outputs, peer.gradients(cotangents)
    except RuntimeError:
        return (), {}


def bound(row, dtype, tensor, kind):
    """The largest relative error of an output or, of kind 1, a gradient: that of the coarser of both dtypes."""
    own = {**BOUNDS, **row.bounds}
    return max(own.get(name, (0, 0))[kind] for name in (dtype, NAMES[tensor.dtype]))


def run_row(engine, row, args, seen):
    """All cases of a row: the worst of each dtype."""
    found = {}
    for dtype in row.dtypes:
        if args.dtypes and dtype not in args.dtypes.split(","):
            continue
        worst = found[dtype] = Worst()
        for case in range(args.cases):
            seed = [args.seed, zlib.crc32(f"{row.title} {dtype}".encode()), case]
            seen.setdefault(row.title, set()).update(run_case(engine, row, dtype, seed, worst))
        if row.smooth and DTYPES[dtype].is_floating_point and not worst.errors["gradient"] and not worst.failure:
            worst.fail("no gradient was compared")
    return found


def number(x):
    return "0" if x == 0 else f"{x:.1e}"


def line(title, cases, errors, integers, verdict):
    columns = "".join(f" {a:>7} {r:>7} |" for a, r in errors)
    return f"{title:<28} {cases:>5} |{columns} {integers:>9} {verdict}".rstrip()


# Columns of the table: a dtype and what of it; of those against f64 our error and PyTorch's own.
COLUMNS = [("f64", "forward"), ("f64", "grad."), ("f32", "forward"), ("f32", "grad."), ("f32", "to f64"), ("bf16", "forward"),
           ("bf16", "grad."), ("f16", "forward"), ("f16", "grad.")]


def against_f64(dtype, kind):
    return kind == "to f64" or kind == "grad." and dtype in HALVES


def shown(row, found):
    """The line of a row."""
    pairs = []
    for dtype, kind in COLUMNS:
        worst = found.get(dtype) or Worst()
        pair = worst.errors["forward" if kind == "forward" else "gradient"]
        if against_f64(dtype, kind):
            # Where PyTorch has no gradient in the dtype, ours alone.
            pair = worst.rounding or ([pair[1], None] if pair and dtype in HALVES else [])
        pairs.append(["-" if e is None else number(e) for e in pair] or ["-", "-"])
    exact = [w for dtype, w in found.items() if dtype not in FLOATS]
    integers = "-" if not exact else "DIFFERENT" if any(w.beyond for w in exact) else "equal"
    beyond = sum(w.beyond for w in found.values())
    return line(row.title, sum(w.cases for w in found.values()), pairs, integers, f"{beyond} BEYOND" if beyond else "")


def methods():
    """The methods of the graph that give a value, from the engine's sources."""
    sources = ROOT / "crates/landfall/src"
    found = set()
    for file in [*(sources / "ops").rglob("*.rs"), *(sources / "contract").rglob("*.rs")]:
        for block in re.findall(r"^impl Graph \{\n(.*?)^\}", file.read_text(), re.M | re.S):
            found.update(re.findall(r"^    pub fn (\w+)[^{]*?&self[^{]*?-> Result<\(?Value", block, re.M))
            # Those that a macro makes of an op.
            found.update(re.findall(r"^        (\w+) = ops::", block, re.M))
    return found


def uncovered(ops, seen):
    """What the table of ops and the graph have and this script does not, and the other way round."""
    names = set(ops) | methods()
    rows = {row.title for row in ROWS}
    parts, reasons = parity_layers.PART_OF, parity_layers.NO_PEER
    faults = []
    for name in sorted(names):
        ways = sum(name in of for of in (rows, parts, reasons))
        if ways != 1:
            faults.append(f"{name} has {ways} of: a row, a row that it is a part of, a reason why not")
        if parts.get(name) in seen and name not in seen[parts[name]] and name not in parity_layers.DRAWN_WITH:
            faults.append(f"{name} is in no program of the row {parts[name]}")
    return faults + [f"there is no {name} any more" for name in sorted(set(parts) | set(reasons)) if name not in names]


def main():
    args = arguments()
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", "ComplexHalf support")
    engine = Engine([args.engine or built()])
    chosen = args.rows.split(",") if args.rows else [row.title for row in ROWS]
    unknown = set(chosen) - {row.title for row in ROWS}
    if unknown:
        sys.exit(f"no rows {', '.join(sorted(unknown))}")
    names, seen, all_found = engine.names(), {}, []
    print(f"PyTorch {torch.__version__}, seed {args.seed}; errors: absolute, relative to max(|PyTorch's|, 1)")
    print(line("", "", COLUMNS, "", ""))
    names_of = [("ours", "PyTorch") if against_f64(*column) else ("abs.", "rel.") for column in COLUMNS]
    print(line("op", "cases", names_of, "integers", ""))
    for row in ROWS:
        if row.title in chosen:
            found = run_row(engine, row, args, seen)
            all_found.append((row, found))
            print(shown(row, found), flush=True)
    engine.close()
    print("\nworst relative errors:")
    for dtype in FLOATS:
        for kind, limit in zip(("forward", "gradient"), BOUNDS[dtype]):
            of = [(f[dtype].errors[kind][1], r.title) for r, f in all_found if dtype in f and f[dtype].errors[kind]]
            if of:
                error, title = max(of)
                over = sum(e > limit for e, _ in of)
                print(f"  {dtype} {kind}: {number(error)} ({title}); beyond {number(limit)} are {over} rows")
    print("\nwhat the cases leave out:")
    for row, _ in all_found:
        if row.note:
            print(f"  {row.title}: {row.note}")
    print("\ncompared as a part of another row:")
    for name, part in sorted(parity_layers.PART_OF.items()):
        print(f"  {name}: {part}")
    print("\nwithout a peer in PyTorch:")
    for name, reason in sorted(parity_layers.NO_PEER.items()):
        print(f"  {name}: {reason}")
    faults = uncovered(names, seen)
    for row, found in all_found:
        for dtype, worst in found.items():
            if worst.failure:
                faults.append(f"{row.title} in {dtype}, {worst.beyond} tensors of {worst.cases} cases: {worst.failure}")
    for fault in faults:
        print(f"\nERROR: {fault}")
    cases = sum(w.cases for _, found in all_found for w in found.values())
    print(f"\n{len(all_found)} rows, {cases} cases, {len(faults)} errors")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
