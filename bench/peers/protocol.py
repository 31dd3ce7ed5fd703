"""The line protocol between `landfall-bench` and a peer.

    python3 torch_peer.py --device cpu --list-modes
    python3 torch_peer.py --device cpu --threads 2 --seconds 0.3 --dtypes f32 --modes eager seed etth1

The first prints {"modes": [...]}. `landfall-bench` starts a process for each mode of each step row, and one for each mode of
all other rows: what one compiles or captures cannot harm another. Such a peer first builds and warms up every row in every dtype and mode, and prints for each
one JSON line: {"row", "dtype", "mode", "warm_s"}, for step rows with "parameters",
"first_loss" and "last_loss"; or {"row", "dtype", "mode", "error"}. Then it prints
{"ready": true, "peer", "version"} and waits, idle, for lines on standard input.
`run <row> <dtype> <mode>` times one sample of at least `--seconds` seconds and prints
{"row", "dtype", "mode", "us"}, microseconds per step, or an "error" in place of "us".
It ends at the end of its standard input.
"""

import argparse
import json
import math
import os
import sys
import time

import rows


def arguments(modes):
    """The command line of a peer with these modes on each device; one that asks for them ends here."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--seconds", type=float, default=0.3)
    parser.add_argument("--dtypes", default="f32", help="some of f32,tf32,bf16,f16, with commas")
    parser.add_argument("--modes", default=None, help="some of the modes, with commas")
    parser.add_argument("--list-modes", action="store_true", help="print the modes and end")
    parser.add_argument("rows", nargs="*")
    args = parser.parse_args()
    if args.list_modes:
        say(modes=modes[args.device])
        sys.exit()
    if args.device == "cpu" and hasattr(os, "sched_setaffinity"):
        # Thread pools that cannot be told their size take the number of processors that they may run on.
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: args.threads])
    os.environ["OMP_NUM_THREADS"] = str(args.threads)
    # Threads that spin while they wait would take processors from the other side, and from each other.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    return args


# Standard output belongs to the protocol alone; what a library prints goes to standard error.
_OUT = os.fdopen(os.dup(1), "w", buffering=1)
os.dup2(2, 1)


def say(**line):
    _OUT.write(json.dumps(line) + "\n")


def failure(error):
    first = (str(error).strip().splitlines() or [""])[0]
    return f"{type(error).__name__}: {first}"[:300]


class Timed:
    """A row that is built: `run(n)` runs n steps and returns when they are done."""

    def __init__(self, run, losses=None, parameters=None, multiple=1):
        self.run, self.losses, self.parameters, self.multiple = run, losses, parameters, multiple
        self.steps = None

    def time(self, steps):
        """Seconds of so many steps."""
        start = time.perf_counter()
        self.run(steps)
        return time.perf_counter() - start

    def spent(self, steps):
        """Seconds that it takes to time them."""
        start = time.perf_counter()
        self.time(steps)
        return time.perf_counter() - start

    def warm_up(self):
        self.run(3 * self.multiple)

    def calibrate(self, seconds):
        """Chooses the steps of a sample."""
        self.warm_up()
        steps = self.multiple
        while (taken := self.spent(steps)) < seconds / 8 and steps < 1 << 22:
            steps *= 2
        whole = math.ceil(seconds / taken * steps / self.multiple)
        self.steps = max(1, whole) * self.multiple


def serve(args, peer, version, modes, build, answers=lambda row: not rows.is_routing(row)):
    """Warms up every row that it answers for, then answers requests. `build(row, dtype, mode)` gives a `Timed`, or None
    without such a mode."""
    chosen = args.modes.split(",") if args.modes else modes
    ready = {}
    for row in filter(answers, args.rows):
        for dtype in rows.dtypes(row, args.dtypes.split(",")):
            for mode in chosen:
                key = dict(row=row, dtype=dtype, mode=mode)
                start = time.perf_counter()
                try:
                    timed = build(row, dtype, mode)
                    if timed is None:
                        continue
                    about = {}
                    if timed.losses:
                        losses = timed.losses()
                        about = dict(parameters=timed.parameters, first_loss=losses[0], last_loss=losses[-1])
                        if not all(map(math.isfinite, losses)):
                            raise ValueError(f"a loss is not finite: {losses}")
                    timed.warm_up()
                    ready[row, dtype, mode] = timed
                    say(**key, warm_s=time.perf_counter() - start, **about)
                except Exception as error:
                    say(**key, error=failure(error))
    say(ready=True, peer=peer, version=version)
    for line in sys.stdin:
        words = line.split()
        if len(words) != 4 or words[0] != "run":
            say(error=f"not a request: {line.strip()!r}; expected run <row> <dtype> <mode>")
            continue
        key = dict(zip(("row", "dtype", "mode"), words[1:]))
        timed = ready.get(tuple(words[1:]))
        if timed is None:
            say(**key, error="not ready: it was not asked for at the start, or failed to warm up")
            continue
        try:
            if timed.steps is None:
                # Not while others warm up: this process is the only busy one now.
                timed.calibrate(args.seconds)
            say(**key, us=timed.time(timed.steps) / timed.steps * 1e6)
        except Exception as error:
            say(**key, error=failure(error))
