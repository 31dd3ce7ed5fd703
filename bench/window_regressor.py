"""Wall seconds of the window-regressor's published sizes, from the start of the process to its end.

    python3 bench/window_regressor.py target/release/landfall --device cuda --dtype tf32

Each size is trained with an empty folder of compiled kernels (cold) and then, `--repeat` times, with the one that this left
(warm; the median). Prints a CSV: samples,channels,epochs,cold_s,warm_s,loss. Arguments after the program go to it.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

SIZES = [(28000, 20, 10), (20000, 20, 5), (5000, 10, 3), (1000, 5, 3)]


def train(program, size, options, folder, cache):
    """Seconds of one run, and the mean squared error that it ends with."""
    samples, channels, epochs = map(str, size)
    command = [program, "train", "--preset", "window-regressor", "--samples", samples, "--channels", channels]
    command += ["--epochs", epochs, "--log-every", "1000000", "--out", os.path.join(folder, "run"), "--json", *options]
    start = time.perf_counter()
    ran = subprocess.run(command, env=os.environ | {"LANDFALL_CACHE": cache}, capture_output=True, text=True)
    seconds = time.perf_counter() - start
    if ran.returncode != 0:
        sys.exit(ran.stderr.strip() or f"{command} ended with {ran.returncode}")
    return seconds, json.loads(ran.stdout.strip().splitlines()[-1])["mse"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--repeat", type=int, default=3)
    args, options = parser.parse_known_args()
    program = os.path.abspath(args.program)
    print("samples,channels,epochs,cold_s,warm_s,loss")
    for size in SIZES:
        with tempfile.TemporaryDirectory() as cache:

            def once():
                with tempfile.TemporaryDirectory() as folder:
                    return train(program, size, options, folder, cache)

            cold, loss = once()
            warm = statistics.median(once()[0] for _ in range(args.repeat))
        print(*size, f"{cold:.2f}", f"{warm:.2f}", f"{loss:.6f}", sep=",", flush=True)


main()
