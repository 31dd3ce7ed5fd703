"""Trains by published recipes with Landfall and others, each run in a process of its own, and records cost and error.

    python run.py --landfall LANDFALL --folder FOLDER --models dlinear,tide --data ETTh1,ETTh2 --horizons 96,192 \\
        --seeds 2021,2022,2023 --sides landfall,neuralforecast,torch --threads 2 --device cpu --out records.csv

LANDFALL is the program, FOLDER holds ETTh1.csv and ETTh2.csv. A row is written when its run ends; runs whose rows are
in the file already are skipped. `--table` prints the medians of the file's rows instead, as the tables of docs/accuracy.md.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import os
import pathlib
import queue
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from recipes import MODELS, recipe

HERE = pathlib.Path(__file__).parent
SIDES = ("landfall", "neuralforecast", "torch")
KEY = ("model", "data", "horizon", "seed", "side", "device", "dtype", "threads", "at_once", "max_epochs")
FIELDS = (*KEY, "epochs", "mse", "mae", "wall_s", "cpu_s", "peak_mib", "gpu_mib", "load")


def command(program: str, args, key: dict, run: str) -> list[str]:
    """The command line of one run."""
    path = args.folder / f"{key['data']}.csv"
    shared = ["--data", path, "--horizon", key["horizon"], "--seed", key["seed"], "--threads", key["threads"]]
    shared += ["--device", key["device"]]
    if key["side"] == "landfall":
        preset = recipe(key["model"], key["data"]).preset
        words = [program, "train", "--preset", preset, *shared, "--split", "ett", "--dtype", key["dtype"]]
        words += ["--out", run, "--json"]
    else:
        words = [args.python, HERE / f"{key['side']}_side.py", "--model", key["model"], *shared]
    if key["max_epochs"]:
        words += ["--epochs", key["max_epochs"]]
    return [str(word) for word in words]


def gpu_memory(process: int) -> int:
    """Bytes that a process has on the GPUs, its context included."""
    import pynvml

    pynvml.nvmlInit()
    gpus = map(pynvml.nvmlDeviceGetHandleByIndex, range(pynvml.nvmlDeviceGetCount()))
    all_of_them = itertools.chain.from_iterable(map(pynvml.nvmlDeviceGetComputeRunningProcesses, gpus))
    return sum(p.usedGpuMemory or 0 for p in all_of_them if p.pid == process)


def measured(words: list[str], threads: int, gpu: int | None) -> tuple[str, dict]:
    """What a command printed, and its wall seconds, processor seconds and largest memory, its children's included."""
    some = {name: str(threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
    if gpu is not None:
        some["CUDA_VISIBLE_DEVICES"] = str(gpu)
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        load, begin = os.getloadavg()[0], time.perf_counter()
        child = subprocess.Popen(words, stdout=out, stderr=errors, env={**os.environ, **some})
        ended, seen = threading.Event(), [0]

        def watch():
            while not ended.wait(0.2):
                seen.append(gpu_memory(child.pid))

        watcher = threading.Thread(target=watch)
        if gpu is not None:
            watcher.start()
        _, status, usage = os.wait4(child.pid, 0)
        seconds = time.perf_counter() - begin
        ended.set()
        if gpu is not None:
            watcher.join()
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        errors.seek(0)
        if child.returncode:
            raise RuntimeError(f"exit {child.returncode} of: {' '.join(words)}\n{errors.read()[-2000:]}")
        cost = {
            "wall_s": round(seconds, 1),
            "cpu_s": round(usage.ru_utime + usage.ru_stime, 1),
            "peak_mib": round(usage.ru_maxrss / 1024),
            "gpu_mib": round(max(seen) / 2**20) if gpu is not None else "",
            "load": round(load, 1),
        }
        return out.read(), cost


def one(args, key: dict, gpu: int | None) -> dict:
    """The row of one run, on a GPU of this number or on the processor."""
    with tempfile.TemporaryDirectory() as folder:
        run = f"{folder}/run"
        words = command(args.landfall, args, key, run)
        printed, cost = measured(words, key["threads"], gpu)
        found = json.loads(printed.splitlines()[-1])
        epochs = found.get("epochs")
        if key["side"] == "landfall":
            with open(f"{run}/metrics.jsonl", encoding="utf-8") as lines:
                epochs = sum('"split":"validation"' in line for line in lines)
    errors = {"epochs": epochs, "mse": f"{found['mse']:.6f}", "mae": f"{found['mae']:.6f}"}
    return {**key, **errors, **cost}


def rows_of(path: pathlib.Path) -> list[dict]:
    """The rows recorded so far."""
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def append(path: pathlib.Path, row: dict) -> None:
    """Adds a row, and the header before the first."""
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        if file.tell() == 0:
            writer.writeheader()
        writer.writerow(row)


def print_table(rows: list[dict]) -> None:
    """Medians over the seeds of each model, data set, horizon and side."""
    print("| model | data | horizon | side | seeds | epochs | MSE | MAE | wall s | CPU s | MiB | GPU MiB |")
    print("|---|---|---|---|---|---|---|---|---|---|---|---|")

    def group(row):
        rank = MODELS.index(row["model"]), row["data"], int(row["horizon"]), SIDES.index(row["side"])
        return (*rank, row["device"], row["dtype"], int(row["max_epochs"] or 0))

    for _, members in itertools.groupby(sorted(rows, key=group), group):
        runs = list(members)
        first = runs[0]
        # The cost of a run that was interrupted and resumed is not known.

        def middle(name, form, runs=runs):
            costs = [float(r[name]) for r in runs if r[name]]
            return f"{statistics.median(costs):{form}}" if costs else ""

        errors = [f"{statistics.mean(float(r[name]) for r in runs):.4f}" for name in ("mse", "mae")]
        limit = f" (at most {first['max_epochs']})" if first["max_epochs"] else ""
        epochs = ", ".join(r["epochs"] for r in runs) + limit
        side = f"{first['side']}, {first['device']}, {first['dtype']}"
        cells = [first["model"], first["data"], first["horizon"], side, len(runs), epochs, *errors]
        cells += [middle("wall_s", ".1f"), middle("cpu_s", ".1f"), middle("peak_mib", ".0f"), middle("gpu_mib", ".0f")]
        print("|", " | ".join(map(str, cells)), "|")


def main() -> int:
    """Runs what the file lacks."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words = lambda text: text.split(",")  # noqa: E731
    numbers = lambda text: [int(word) for word in text.split(",")]  # noqa: E731
    parser.add_argument("--landfall", default="landfall", help="the program")
    parser.add_argument("--python", default=sys.executable, help="the Python that has the other libraries")
    parser.add_argument("--folder", type=pathlib.Path, default=".", help="where ETTh1.csv and ETTh2.csv are")
    parser.add_argument("--models", type=words, default=list(MODELS))
    parser.add_argument("--data", type=words, default=["ETTh1", "ETTh2"])
    parser.add_argument("--horizons", type=numbers, default=[96, 192, 336, 720])
    parser.add_argument("--seeds", type=numbers, default=[2021, 2022, 2023])
    parser.add_argument("--sides", type=words, default=list(SIDES))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--dtype", choices=("f32", "tf32", "bf16"), default="f32", help="of Landfall; others: f32")
    parser.add_argument("--gpus", type=numbers, default=[0], help="with --device cuda: the GPUs, each for one run")
    parser.add_argument("--at-once", type=int, default=1, help="runs at the same time, on each GPU")
    parser.add_argument("--epochs", type=int, help="at most so many in a run, instead of the recipe's")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--table", action="store_true", help="train nothing; print the file's rows as a table")
    args = parser.parse_args()
    if args.table:
        print_table(rows_of(args.out))
        return 0
    for given, known in ((args.models, MODELS), (args.sides, SIDES), (args.data, ("ETTh1", "ETTh2"))):
        if unknown := set(given) - set(known):
            parser.error(f"{', '.join(unknown)}: not one of {', '.join(known)}")
    for name in args.data:
        if not (args.folder / f"{name}.csv").is_file():
            parser.error(f"{args.folder} has no {name}.csv: pass --folder")
    found = {tuple(row[name] for name in KEY) for row in rows_of(args.out)}
    keys = []
    for model, data, horizon, seed, side in itertools.product(
        args.models, args.data, args.horizons, args.seeds, args.sides
    ):
        if side == "torch" and model not in ("patchtst", "dlinear"):
            continue
        dtype = args.dtype if side == "landfall" else "f32"
        end = args.device, dtype, args.threads, args.at_once, args.epochs or ""
        key = dict(zip(KEY, (model, data, horizon, seed, side, *end)))
        if tuple(map(str, key.values())) not in found:
            keys.append(key)
    turn, failed = threading.Lock(), []
    places: queue.SimpleQueue = queue.SimpleQueue()
    for place in (args.gpus if args.device == "cuda" else [None]) * args.at_once:
        places.put(place)
    most = places.qsize()

    def run(key):
        place = places.get()
        try:
            row = one(args, key, place)
        except (RuntimeError, OSError) as error:
            failed.append(key)
            print(*key.values(), error, file=sys.stderr, flush=True)
            return
        finally:
            places.put(place)
        with turn:
            append(args.out, row)
            print(*row.values(), sep=",", flush=True)

    with ThreadPoolExecutor(most) as pool:
        list(pool.map(run, keys))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
