"""Times a permutation of a mixture of experts in JAX: experts of tokens in; rows of tokens, merged rows and all gradients out.

    python routing.py [--tokens 32768] [--columns 7168] [--transformer-engine FOLDER] [--record TABLE.csv]

Landfall's ops beside JAX's own gathers and scatters and, of a folder with its Python files (see peers/transformer_engine.py), TransformerEngine's
functions in JAX's own ops: in one process, in turn; medians. Needs a GPU. A copy of the rows is timed beside: Landfall moves
them four times (rows out, rows in, their gradient out, theirs in) and reads them once more for the weights' gradient.
"""

import argparse
import csv
import pathlib
import statistics
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
from reference import gathered, gathered_plainly, merged, merged_plainly, order_of

import landfall.jax as lj

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "peers"))
import transformer_engine  # noqa: E402


def landfall(x, y, weights, chosen, experts, gy, gz):
    """Rows of tokens, and other rows `y` back; `weights [T, k]` of the experts `chosen [T, k]`."""
    tokens, k = chosen.shape
    routed = jnp.zeros((tokens, experts), jnp.uint8).at[jnp.arange(tokens)[:, None], chosen].set(1)
    map, source, _, _ = lj.route_map(routed, most=k, rows=tokens * k)

    def forward(x, y, weights):
        dense = jnp.zeros((tokens, experts), weights.dtype).at[jnp.arange(tokens)[:, None], chosen].set(weights)
        return lj.permute(x, map, source), lj.unpermute(y, map, source, dense)

    results, back = jax.vjp(forward, x, y, weights)
    return *results, *back((gy, gz))


def plain(*ways):
    rows, merged = ways

    def run(x, y, weights, chosen, experts, gy, gz):
        order, place = order_of(chosen)
        k = weights.shape[1]
        forward = lambda x, y, w: (rows(x, order, place, k), merged(y, w, order, place))  # noqa: E731
        results, back = jax.vjp(forward, x, y, weights)
        return *results, *back((gy, gz))

    return run


def of_transformer_engine(folder):
    te = transformer_engine.jax(folder)

    def run(x, y, weights, chosen, experts, gy, gz):
        tokens, k = chosen.shape

        def forward(x, y, weights):
            rows, state, _ = te.pure_jax_token_dispatch(x, chosen, experts, k)
            return rows, te.pure_jax_token_combine(y, state, weights, k, tokens, 1).reshape(tokens, -1)

        results, back = jax.vjp(forward, x, y, weights)
        return *results, *back((gy, gz))

    return run


WAYS = {
    "landfall": landfall,
    "jax, gathers": plain(gathered, merged),
    "jax, scatters": plain(gathered_plainly, merged_plainly),
}


def seconds(run, *args, repeats=5):
    jax.block_until_ready(run(*args))
    begun = time.perf_counter()
    for _ in range(repeats):
        found = run(*args)
    jax.block_until_ready(found)
    return (time.perf_counter() - begun) / repeats


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=int, default=32768)
    parser.add_argument("--columns", type=int, default=7168)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--transformer-engine", type=pathlib.Path)
    parser.add_argument("--record", type=pathlib.Path)
    options = parser.parse_args()
    ways = dict(WAYS)
    if options.transformer_engine:
        ways["transformer-engine, jax"] = of_transformer_engine(options.transformer_engine)
    rows = []
    for experts, k in [(64, 2), (64, 8), (256, 2), (256, 8)]:
        random = np.random.default_rng(0)
        chosen = jnp.array(np.argsort(random.random((options.tokens, experts)), axis=1)[:, :k].astype("int32"))
        keys = jax.random.split(jax.random.key(0), 5)
        shape, wide = (options.tokens, options.columns), (options.tokens * k, options.columns)
        x, gz = (jax.random.normal(key, shape, jnp.bfloat16) for key in keys[:2])
        y, gy = (jax.random.normal(key, wide, jnp.bfloat16) for key in keys[2:4])
        weights = jax.random.uniform(keys[4], chosen.shape, jnp.float32)
        given = (x, y, weights, chosen, experts, gy, gz)
        jitted = {name: jax.jit(way, static_argnums=4) for name, way in ways.items()}
        found = {name: way(*given) for name, way in jitted.items()}
        for name, results in found.items():
            for ours, theirs in zip(found["jax, gathers"], results):
                scale = float(jnp.abs(ours.astype(jnp.float32)).max())
                worst = float(jnp.abs(ours.astype(jnp.float32) - theirs.astype(jnp.float32)).max()) / scale
                assert worst < 2e-2, (name, worst)
        del found
        copy = jax.jit(lambda a: a + 1)
        times = {name: [] for name in [*jitted, "copy"]}
        for _ in range(options.rounds):
            for name, way in jitted.items():
                times[name].append(seconds(way, *given))
            times["copy"].append(seconds(copy, y))
        for name, each in times.items():
            rows.append({"experts": experts, "k": k, "way": name, "us": round(statistics.median(each) * 1e6, 1)})
        print(f"{experts} experts, top {k}: " + ", ".join(f"{r['way']} {r['us']}" for r in rows[-len(times) :]) + " us", flush=True)
    if options.record:
        with open(options.record, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
