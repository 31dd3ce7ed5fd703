"""Cost model of data-parallel training, on paper: prints every number of docs/distributed-cost.md. Run it from the repository root.

Gradients are all-reduced in buckets while the backward pass runs; all of it is one captured graph. Times are in microseconds.
"""

import csv
import itertools
import math
import sys

sys.path.insert(0, "bench/peers")
import rows  # noqa: E402  (sizes of the bench rows)

MIB = 1 << 20
GPUS = (2, 8, 64, 1024)
NODE = 8
RECORDS = {"H100": "nvidia-h100-80gb-hbm3/2026-11-26.csv", "H200": "nvidia-h200/2026-11-23.csv"}
COPY = {"H100": 2.903e6, "H200": 4.28e6}  # bytes a us that a large copy reads and writes
UPDATE = 32  # bytes an element: the norm reads the gradient, AdamW reads g, p, m, v and writes p, m, v
BACKWARD = 2 / 3  # of the step without the update
RING, NVLS = 370e3, 480e3  # bytes a us: bus bandwidth in a node, without multicast and with it
NIC, SLOW, G25 = 40e3, 27e3, 25e3 / 8  # bytes a us of the NIC of one GPU: 400 Gb/s, a slow one of those, 25 Gb/s
BASE, RING_STEP, TREE_STEP, NET_STEP, MULTICAST = 8.4, 3.4, 4.0, 14.0, 25.0  # latencies of NCCL's own model, protocol Simple
SMS = 24 / 132  # of an H100 that NCCL's blocks hold, for the sensitivity alone


def latency(n, nvls=False):
    """Of one all-reduce: NCCL's ring in a node, its tree beyond; with multicast its NVLS and NVLSTree."""
    hops = math.log2(max(n / NODE, 1))
    if nvls and n > 2:
        return MULTICAST + 2 * hops * NET_STEP
    return BASE + (2 * (n - 1) * RING_STEP if n <= NODE else 2 * ((NODE - 1) * TREE_STEP + hops * NET_STEP))


def transfer(size, n, nvls=False, nic=NIC, pipelined=True, ordered=False):
    """The bandwidth term: reduce-scatter and all-gather in the node, all-reduce of an eighth over each NIC between nodes."""
    local = min(n, NODE)
    inside = 2 * (local - 1) / local * size / (NVLS if nvls and n > 2 else RING)
    nodes = max(n // NODE, 1)
    between = 2 * (nodes - 1) / nodes * size / NODE / nic
    if ordered and nodes > 1:  # no sums in the node before those between nodes: the whole gradient crosses the NIC once
        between = between / 2 + (nodes - 1) / nodes * size / nic
    return max(inside, between) if pipelined else inside + between


def network(c):
    """Weights in slab order as (elements, share of the backward pass that their gradient waits for); elements of vectors."""
    n, d, f, p, h = rows.patches(c), c["d_model"], c["d_ff"], c["patch"], c["horizon"]
    parts = [(n * d * h, "head", n * d * h)]  # backward order: products' cost, name, elements
    for i in reversed(range(c["layers"])):
        parts += [(n * d * f, ("ff2", i), d * f), (n * d * f, ("ff1", i), d * f), (n * d * d, ("out", i), d * d)]
        parts += [(2 * n * n * d + 3 * n * d * d, ("qkv", i), 3 * d * d)]
    parts += [(0, "positions", n * d), (n * p * d, "embed", p * d)]
    done = list(itertools.accumulate(x[0] for x in parts))
    of = {name: (elements, at / done[-1]) for (_, name, elements), at in zip(parts, done, strict=True)}
    order = ["embed", "positions", *((t, i) for i in range(c["layers"]) for t in ("qkv", "out", "ff1", "ff2")), "head"]
    vectors = d + h + c["layers"] * (3 * d + d + f + d + 4 * d)  # biases and norms
    return [of[name] for name in order], vectors


def buckets(c, limit, merged=True, width=4):
    """(bytes, ready) as `buckets` of train/ranks.rs cuts them: what remains at the slab's end, where the vectors lie, goes with the
    first weights, or (not merged) is a bucket of its own."""
    weights, vectors = network(c)
    found, size, ready = [], 0, 0.0
    for elements, at in [*weights, (vectors, 1.0)]:
        size, ready = size + width * elements, max(ready, at)
        if size >= limit:
            found.append((size, ready))
            size, ready = 0, 0.0
    if size and found and merged:
        found[0] = (found[0][0] + size, max(found[0][1], ready))
    elif size:
        found.append((size, ready))
    return sorted(found, key=lambda b: b[1])


class Run:
    """A row on a device."""

    def __init__(self, row, device):
        self.c = rows.STEPS[row]
        weights, vectors = network(self.c)
        self.parameters = sum(e for e, _ in weights) + vectors
        with open("bench/records/" + RECORDS[device]) as file:
            self.step = [float(r["ours_us"]) for r in csv.DictReader(file) if (r["row"], r["dtype"]) == (row, "bf16")][-1]
        self.update = UPDATE * self.parameters / COPY[device]
        self.backward = BACKWARD * (self.step - self.update)

    def exposed(self, n, limit=8 * MIB, nvls=False, half=1.0, slower=1.0, merged=True, width=4, **how):
        """What of the collectives is left when the backward pass has ended, and their sum; half=0.5 is a reduce-scatter's."""
        end = total = 0.0
        for size, ready in buckets(self.c, limit, merged, width):
            cost = half * (slower * latency(n, nvls) + transfer(size, n, nvls, **how))
            end, total = max(end, ready * self.backward) + cost, total + cost
        return end - self.backward, total


def table(title, head, lines):
    print(f"\n{title}\n\n| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for line in lines:
        print("| " + " | ".join(x if isinstance(x, str) else f"{x:,.0f}" for x in line) + " |")


RUNS = {(row, device): Run(row, device) for row in ("wide", "deep") for device in RECORDS}
AT = [f"{n:,} GPUs" for n in GPUS]

if __name__ == "__main__":
    table("Inputs", ["row", "device", "parameters", "gradients, MB", "step, us", "update, us", "backward, us"],
          [[*k, r.parameters, f"{4 * r.parameters / 1e6:.1f}", r.step, r.update, r.backward] for k, r in RUNS.items()])
    table("One all-reduce of 8 MiB: latency + transfer, us", ["multicast", *AT],
          [[t, *(f"{latency(n, v):.0f} + {transfer(8 * MIB, n, v):.0f}" for n in GPUS)] for t, v in (("off", False), ("on", True))])
    flat = [BASE + 2 * (n - n // 8) * RING_STEP + 2 * (n // 8 - 1) * NET_STEP for n in (64, 1024)]
    print("\nA flat ring's latency at 64 and 1,024 GPUs: " + ", ".join(f"{x:,.0f} us" for x in flat)
          + f"; packing a bucket of 8 MiB: {2 * 8 * MIB / COPY['H100']:.1f} us")
    published = {1: 126.6, 4: 124.1, 8: 145.2, 16: 199.1, 32: 294.5, 64: 466.9}  # NVIDIA/nccl issue 1244, 2 x 8 H20, in place
    table("Two nodes, us", ["MiB", "published", "model, pipelined", "model, one stage after the other"],
          [[m, t, *(latency(16) + transfer(m * MIB, 16, pipelined=p) for p in (True, False))] for m, t in published.items()])
    for merged, title in ((True, "as built"), (False, "what remains at the end as a bucket of its own")):
        table(f"Exposed, us, H100, multicast off, {title}", ["row", "bucket, MiB", "buckets", *AT],
              [[row, m, len(buckets(RUNS[row, "H100"].c, m * MIB, merged)),
                *(RUNS[row, "H100"].exposed(n, m * MIB, merged=merged)[0] for n in GPUS)]
               for row in ("wide", "deep") for m in (1, 4, 8, 25, 64)])
    print("\nBuckets of deep in the order in which they are ready, MiB (and after which share of the backward pass): "
          + ", ".join(f"{s / MIB:.2f} ({100 * at:.0f} %)" for s, at in buckets(RUNS["deep", "H100"].c, 8 * MIB)))
    table("Step time, us, and efficiency", ["row", "device", "multicast", *AT],
          [[*k, t, *(f"{r.step + x:,.0f} ({100 * r.step / (r.step + x):.1f} %)" for x in (r.exposed(n, nvls=v)[0] for n in GPUS))]
           for k, r in RUNS.items() for t, v in (("off", False), ("on", True))])
    lines = []
    for k, r in RUNS.items():
        count, size = len(buckets(r.c, 8 * MIB)), 4 * r.parameters
        needs = [2 * (n - 8) / n * size / 8 / (r.backward - count * latency(n)) for n in (64, 1024)]
        inside = 1.75 * size / (r.backward - count * latency(8)) / 1e3
        over = [next((n for n in (8 << e for e in range(18)) if r.exposed(n, nic=x)[1] > r.backward), "none") for x in (NIC, G25)]
        lines.append([*k, *(r.exposed(n)[1] for n in GPUS), f"{inside:.1f} GB/s", *(f"{x / 125:.1f} Gb/s" for x in needs), *over])
    table("All buckets together, us, and the rate below which they exceed the backward pass",
          ["row", "device", *AT, "bus, 8 GPUs", "NIC, 64", "NIC, 1,024", "first N, 40 GB/s", "first N, 25 Gb/s"], lines)
    lines = []
    for row in ("wide", "deep"):
        r = RUNS[row, "H100"]
        for n in GPUS:
            gather = (latency(n) + transfer(4 * r.parameters, n)) / 2
            lines.append([row, n, r.exposed(n)[0] + r.update, r.exposed(n, half=0.5)[0] + r.update / n + gather, gather,
                          *(r.exposed(n, m * MIB, width=2)[0] for m in (8, 4)), f"{8 * r.parameters * (1 - 1 / n) / 1e6:.0f}"])
    table("Variants, us, H100: exposed + update", ["row", "GPUs", "all-reduce", "sharded update", "of it all-gather",
                                                   "exposed, 16-bit, 8 MiB", "the same, 4 MiB", "MB of moments saved a GPU"], lines)
    cases = {"base": {}, "stages not pipelined": {"pipelined": False}, "slow NIC, 27 GB/s": {"nic": SLOW},
             "NIC, 25 Gb/s": {"nic": G25}, "sums in the order of the ranks": {"ordered": True},
             "latency doubled": {"slower": 2}, "latency halved": {"slower": 0.5}}
    table("Efficiency of deep, H100, 8 MiB, %", ["case", *AT],
          [[t, *(f"{100 * r.step / (r.step + r.exposed(n, **o)[0]):.1f}" for n in GPUS)] for t, o in cases.items()]
          + [["blocks of NCCL slow the backward pass", *(f"{100 * r.step / (r.step + e + SMS * (t - e)):.1f}"
                                                          for e, t in (r.exposed(n) for n in GPUS))]])
