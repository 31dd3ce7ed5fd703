"""Times a permutation of a mixture of experts in torch: experts of tokens in; rows of tokens, merged rows and all gradients out.

    python routing.py [--tokens 32768] [--columns 7168] [--transformer-engine FOLDER] [--record TABLE.csv]

Landfall's functions, of indices and of masks, beside torch's own gathers and scatters and, of a folder with its Python files (see
peers/transformer_engine.py), TransformerEngine's kernels: in one process, in turn; medians. Every way is timed as calls of Python, and as a
CUDA graph of torch's. Needs a GPU, but for `--check`, which only compares results and gradients.

The ways have the same arguments: `x [T, H]`, other rows `y [T k, H]`, `weights [T, k]` of the experts `chosen [T, k]`, and cotangents of rows and
sums. Masks and dense weights are made within the time.
"""

import argparse
import csv
import functools
import pathlib
import statistics
import sys

import torch

from landfall.torch import moe

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "peers"))
import transformer_engine  # noqa: E402


def masked(chosen, weights, experts):
    """The mask of the chosen experts, and their weights beside it."""
    shape, index = (chosen.shape[0], experts), chosen.long()
    mask = torch.zeros(shape, dtype=torch.bool, device=chosen.device).scatter_(1, index, True)
    return mask, torch.zeros(shape, dtype=weights.dtype, device=chosen.device).scatter(1, index, weights)


def by_index(x, y, weights, chosen, experts):
    rows, row_id_map = moe.moe_permute(x, chosen, chosen.numel(), map_type="index")
    return rows, moe.moe_unpermute(y, row_id_map, weights, x.shape, map_type="index")


def by_mask(x, y, weights, chosen, experts):
    mask, dense = masked(chosen, weights, experts)
    rows, row_id_map = moe.moe_permute(x, mask, chosen.numel(), most=chosen.shape[1])
    return rows, moe.moe_unpermute(y, row_id_map, dense, x.shape)


def ordered(chosen):
    """The pairs in the order of their experts, and the place of each pair there."""
    order = chosen.reshape(-1).sort(stable=True).indices
    return order, torch.empty_like(order).scatter_(0, order, torch.arange(len(order), device=order.device))


def gathered(x, y, weights, chosen, experts):
    """Rows of tokens by `index_select`, and sums of a token's rows, which are gathered too."""
    order, place = ordered(chosen)
    picked = y.index_select(0, place).view(*weights.shape, -1).float()
    return x.index_select(0, order // weights.shape[1]), (picked * weights[..., None]).sum(1).to(y.dtype)


def scattered(x, y, weights, chosen, experts):
    """Rows of tokens by `index_select`, and sums by `index_add`, whose order on a GPU is by chance."""
    order, _ = ordered(chosen)
    tokens = order // weights.shape[1]
    parts = y.float() * weights.reshape(-1).index_select(0, order)[:, None]
    sums = torch.zeros(x.shape, device=x.device).index_add(0, tokens, parts).to(y.dtype)
    return x.index_select(0, tokens), sums


def of_transformer_engine(folder):
    te = transformer_engine.pytorch(folder)

    def run(x, y, weights, chosen, experts):
        mask, dense = masked(chosen, weights, experts)
        rows, row_id_map = te.moe_permute(x, mask, chosen.numel())
        return rows, te.moe_unpermute(y, row_id_map, dense, x.shape)

    return run


def step(way, given, cotangents):
    """Results and gradients."""
    results = way(*given)
    return *results, *torch.autograd.grad(results, given[:3], cotangents)


def compared(name, found, wanted):
    for ours, theirs in zip(found, wanted):
        ours, theirs = ours.detach().float(), theirs.detach().float()
        worst = float((ours - theirs).abs().max() / theirs.abs().max())
        if not worst < 2e-2:
            raise SystemExit(f"{name}: results differ by {worst:.2e} of the largest")


def captured(run, pool):
    """A CUDA graph of a call, made outside of it before, as torch asks. Graphs of one pool share memory: they run in turn."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        run()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=pool):
        run()
    return graph


def microseconds(run, repeats=5):
    run()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(repeats):
        run()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 1e3 / repeats


def arguments(tokens, columns, experts, k, dtype, device):
    torch.manual_seed(0)
    chosen = torch.rand(tokens, experts, device=device).topk(k, 1).indices.int()
    draw = lambda *shape: torch.randn(shape, dtype=dtype, device=device)  # noqa: E731
    x, y = draw(tokens, columns).requires_grad_(), draw(tokens * k, columns).requires_grad_()
    weights = torch.rand(tokens, k, device=device).requires_grad_()
    return (x, y, weights, chosen, experts), (draw(tokens * k, columns), draw(tokens, columns))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=int, default=32768)
    parser.add_argument("--columns", type=int, default=7168)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--transformer-engine", type=pathlib.Path)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--record", type=pathlib.Path)
    options = parser.parse_args()
    ways = {"torch, gathers": gathered, "torch, index_add": scattered, "landfall, indices": by_index, "landfall, masks": by_mask}
    if options.transformer_engine:
        ways["transformer-engine, masks"] = of_transformer_engine(options.transformer_engine)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cpu" and not options.check:
        parser.error("torch sees no GPU; --check compares results on the CPU")
    if device == "cpu" and options.transformer_engine:
        parser.error("torch sees no GPU, which TransformerEngine's kernels need; parity.py compares with them on the CPU")
    rows = []
    for experts, k in [(64, 2), (64, 8), (256, 2), (256, 8)]:
        given, cotangents = arguments(options.tokens, options.columns, experts, k, torch.bfloat16, device)
        wanted = None
        memory = {}
        for name, way in ways.items():
            if device == "cuda":
                torch.cuda.synchronize()
                before = torch.cuda.memory_allocated()
                torch.cuda.reset_peak_memory_stats()
            found = step(way, given, cotangents)
            if device == "cuda":
                memory[name] = (torch.cuda.max_memory_allocated() - before) >> 20
            if wanted is None:
                wanted = found
            compared(name, found, wanted)
        del found, wanted
        if options.check:
            print(f"{experts} experts, top {k}: {', '.join(ways)} agree", flush=True)
            continue
        calls, pool = {}, torch.cuda.graph_pool_handle()
        for name, way in ways.items():
            run = functools.partial(step, way, given, cotangents)
            calls[name, "calls"] = run
            calls[name, "graph"] = captured(run, pool).replay
        calls["copy", "calls"] = lambda: given[1].detach() + 1  # noqa: B023
        times = {key: [] for key in calls}
        for _ in range(options.rounds):
            for key, run in calls.items():
                times[key].append(microseconds(run))
        for (name, how), each in times.items():
            rows.append(
                {"experts": experts, "k": k, "way": name, "how": how, "us": round(statistics.median(each), 1), "mib": memory.get(name, "")}
            )
        print(
            f"{experts} experts, top {k}: " + ", ".join(f"{r['way']} ({r['how']}) {r['us']}" for r in rows[-len(times) :]) + " us",
            flush=True,
        )
        del calls
        torch.cuda.empty_cache()
    if options.record and rows:
        with open(options.record, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
