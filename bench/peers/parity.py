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

It fails if an error is beyond its bound (in f32 also beyond twice PyTorch's own error), if the engine refuses a call, or if an
op of the engine's table or a method of its graph has no row here, no row that it is a part of, and no reason why PyTorch has
nothing for it. In bf16 and f16 the peer computes with the same numbers in f64, because PyTorch's own results are rounded as often as
its formulas have steps. Rows are in `parity_cases.py`, `parity_layers.py` and `parity_composite.py`.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys
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
# Of 16 bits twice the largest rounding of a result, and what sums in f32 add.
BOUNDS = {"f64": (1e-12, 1e-12), "f32": (1e-5, 5e-5), "bf16": (2**-8 + 5e-5,) * 2, "f16": (2**-10 + 5e-5,) * 2}


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


def distance(x, y):
    """Absolute and relative differences of the elements of two tensors; those of integers are 0 or infinite."""
    # Equal infinities differ by NaN, and so do two NaN.
    same = (x == y) | (x.isnan() & y.isnan())
    if not y.dtype.is_floating_point:
        different = torch.where(same, 0.0, torch.inf)
        return different, different
    x, y = x.double(), y.double()
    absolute = torch.where(same, 0.0, (x - y).abs()).nan_to_num(torch.inf, torch.inf)
    return absolute, absolute / y.abs().nan_to_num(1, 1).clamp(min=1)


def largest(x):
    return x.max().item() if x.numel() else 0.0


class Worst:
    """The largest errors of a row in a dtype, and the first failure."""

    def __init__(self):
        self.cases, self.beyond, self.failure = 0, 0, None
        # Absolute and relative to PyTorch, of outputs and of gradients; nothing where nothing was compared.
        self.errors = {"forward": [], "gradient": []}
        # In f32, relative to what PyTorch makes of the same numbers in f64: ours, and PyTorch's own.
        self.rounding = []

    def fail(self, text):
        self.beyond += 1
        self.failure = self.failure or text

    def compare(self, kind, index, got, wanted, bound, exact, case):
        """Adds the errors of a tensor. One beyond the bound is none if PyTorch's own rounding error is about as large."""
        wanted = wanted.detach()
        if NAMES[got.dtype] in HALVES and wanted.dtype == torch.float64:
            narrow = wanted.to(got.dtype)
            # What the dtype does not hold is infinite.
            wanted = torch.where(narrow.isinf(), narrow.double(), wanted)
            got = got.double()
        elif wanted.dtype == torch.float64 and got.dtype == torch.float32 and exact is None:
            got = got.double()
        if got.dtype != wanted.dtype or got.shape != wanted.shape:
            had, want = (f"{NAMES[x.dtype]}{list(x.shape)}" for x in (got, wanted))
            return self.fail(f"{kind} {index} is {had}, PyTorch's {want}: {case()}")
        absolute, relative = distance(got, wanted)
        # An absolute error of a large number says nothing.
        small = absolute[wanted.abs() <= LARGE] if wanted.dtype.is_floating_point else absolute
        worst = [largest(small), largest(relative)]
        self.errors[kind] = [max(pair) for pair in zip(worst, self.errors[kind] or worst)]
        allowed = bound
        if exact is not None:
            # What the dtype does not hold is infinite on both sides.
            rounded = exact.to(wanted.dtype)
            exact = torch.where(rounded.isinf(), rounded.to(exact.dtype), exact)
            relative = distance(got, exact)[1]
            own = largest(distance(wanted, exact)[1])
            pair = [largest(relative), own]
            self.rounding = [max(both) for both in zip(pair, self.rounding or pair)]
            allowed = max(bound, 2 * own)
        if worst[1] > bound and largest(relative) > allowed:
            at = int(relative.argmax())
            where = [int(i) for i in torch.unravel_index(torch.tensor(at), got.shape)] if got.dim() else []
            text = f"{got.reshape(-1)[at].item()!r}, PyTorch's is {wanted.reshape(-1)[at].item()!r}"
            text += f", in f64 {exact.reshape(-1)[at].item()!r}" if exact is not None else ""
            self.fail(f"{kind} {index} at {where}: {text}; {case()}")


def peer(row, args, call, cotangents=None, wide=False):
    """Outputs of PyTorch, their cotangents, and gradients by the number of the argument. `wide`: all floats in f64."""
    def widened(x):
        return x.double() if wide and x is not None and x.is_floating_point() else x

    leaves = [widened(a.leaf).clone().requires_grad_(row.smooth and a.learned) for a in args]
    outputs = row.peer(*(a.value(x) for a, x in zip(args, leaves)), **call)
    outputs = tuple(outputs) if isinstance(outputs, (tuple, list)) else (outputs,)
    smooth = [i for i, y in enumerate(outputs) if y is not None and y.requires_grad]
    cotangents = cotangents(outputs, smooth) if callable(cotangents) else cotangents
    learned = [i for i, x in enumerate(leaves) if x.requires_grad and smooth]
    found = torch.autograd.grad([outputs[i] for i in smooth], [leaves[i] for i in learned],
                                [widened(cotangents[i]) for i in smooth], allow_unused=True) if learned else []
    return outputs, cotangents, {i: g for i, g in zip(learned, found) if g is not None}


def run_case(engine, row, dtype, seed, worst):
    """One random call on both sides; the ops of the engine's program."""
    d = Draw(engine, seed, dtype)
    args, attributes, *aside = row.draw(d)
    call = {**attributes, **(aside[0] if aside else {})}

    def case():
        described = ", ".join(a.described() for a in args)
        return f"seed {seed[0]}, case {seed[2]}, {row.name}({described}) {attributes}"

    def drawn(outputs, smooth):
        """Random cotangents."""
        def of(y):
            return DTYPES[dtype] if half and y.dtype == torch.float64 else y.dtype

        return [torch.tensor(d.rng.normal(size=list(y.shape))).to(of(y)) if i in smooth else None
                for i, y in enumerate(outputs)]

    worst.cases += 1
    half = dtype in HALVES
    try:
        wanted, cotangents, slopes = peer(row, args, call, drawn, wide=half)
    except (RuntimeError, TypeError, ValueError, IndexError) as error:
        worst.fail(f"the peer fails: {type(error).__name__}: {error}; {case()}")
        return set()
    try:
        outputs, gradients, ops = engine.call(row.name, row.method, attributes, args, slopes, cotangents)
    except Refused as refused:
        worst.fail(f"refused: {refused}; {case()}")
        return set()
    if len(outputs) != len(wanted):
        worst.fail(f"{len(outputs)} outputs, PyTorch's are {len(wanted)}: {case()}")
        return set()
    exact, exact_slopes = {}, {}
    if dtype == "f32" and row.rounds:
        results, _, exact_slopes = peer(row, args, call, cotangents, wide=True)
        exact = {i: y for i, y in enumerate(results) if y is not None and y.dtype == torch.float64}
    for i, (got, want) in enumerate(zip(outputs, wanted)):
        if want is not None:
            worst.compare("forward", i, got, want, bound(row, dtype, want, 0), exact.get(i), case)
    for got, (i, want) in zip(gradients, slopes.items()):
        worst.compare("gradient", i, got, want, bound(row, dtype, want, 1), exact_slopes.get(i), case)
    return set(ops)


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
    return f"{title:<22} {cases:>5} |{columns} {integers:>9} {verdict}".rstrip()


def shown(row, found):
    """The line of a row."""
    pairs = [found[dtype].errors[kind] if dtype in found else [] for dtype in FLOATS for kind in ("forward", "gradient")]
    pairs.append(found["f32"].rounding if "f32" in found else [])
    errors = [[number(e) for e in pair] or ["-", "-"] for pair in pairs]
    exact = [w for dtype, w in found.items() if dtype not in FLOATS]
    integers = "-" if not exact else "DIFFERENT" if any(w.beyond for w in exact) else "equal"
    beyond = sum(w.beyond for w in found.values())
    return line(row.title, sum(w.cases for w in found.values()), errors, integers, f"{beyond} BEYOND" if beyond else "")


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
    engine = Engine([args.engine or built()])
    chosen = args.rows.split(",") if args.rows else [row.title for row in ROWS]
    unknown = set(chosen) - {row.title for row in ROWS}
    if unknown:
        sys.exit(f"no rows {', '.join(sorted(unknown))}")
    names, seen, all_found = engine.names(), {}, []
    print(f"PyTorch {torch.__version__}, seed {args.seed}; errors: absolute, relative to max(|PyTorch's|, 1)")
    print(line("", "", [*((dtype, kind) for dtype in FLOATS for kind in ("forward", "grad.")), ("f32 to", "f64")], "", ""))
    print(line("op", "cases", [("abs.", "rel.")] * 2 * len(FLOATS) + [("ours", "PyTorch")], "integers", ""))
    for row in ROWS:
        if row.title in chosen:
            found = run_row(engine, row, args, seen)
            all_found.append((row, found))
            print(shown(row, found), flush=True)
    engine.close()
    print("\nworst relative errors:")
    for dtype in FLOATS:
        for kind in ("forward", "gradient"):
            of = [(f[dtype].errors[kind][1], r.title) for r, f in all_found if dtype in f and f[dtype].errors[kind]]
            if of:
                error, title = max(of)
                print(f"  {dtype} {kind}: {number(error)} ({title})")
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
