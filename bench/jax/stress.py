"""A process full of JAX programs in which XLA is free to alias: donated arguments, many live buffers, sizes and maps drawn.

    python stress.py [--programs 200] [--maps 50] [--seconds 600]

Each program permutes tokens and brings them back, forward and backward, in Landfall's ops; each run is compared with a result
that numpy computes from the routing alone. Says how many runs differed: 0.
"""

import argparse
import functools
import time

import jax
import jax.numpy as jnp
import numpy as np

import landfall.jax as lj


def program(random, number):
    """A compiled program, and what numpy makes of its arguments."""
    tokens, columns = int(random.integers(1, 700)), int(random.integers(1, 300))
    experts = int(random.integers(1, 40))
    k, align = int(random.integers(1, min(experts, 8) + 1)), int(random.choice([1, 1, 4, 16]))
    rows = tokens * k + experts * (align - 1)
    live, donated = int(random.integers(0, 24)), bool(number % 2)

    @functools.partial(jax.jit, donate_argnums=(0, 2) if donated else ())
    def run(x, p, gz):
        held = [x * (i + 1.0) for i in range(live)]
        routed, weights = lj.top_k(p, k=k)
        map, source, _, _ = lj.route_map(routed, most=k, rows=rows, align=align)

        def forward(x):
            y = lj.permute(x, map, source)
            # Buffers of the rows' size that live and die beside them.
            return lj.unpermute(y + 0.0 * sum(jnp.roll(y, i + 1, 0) for i in range(live % 5)), map, source, weights)

        z, back = jax.vjp(forward, x)
        return z, back(gz)[0], weights, sum((h.sum() for h in held), 0.0)

    return run, (tokens, columns, experts), live


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=int, default=200)
    parser.add_argument("--maps", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=600)
    options = parser.parse_args()
    random, begun = np.random.default_rng(0), time.perf_counter()
    done = differed = 0
    for number in range(options.programs):
        run, (tokens, columns, experts), live = program(random, number)
        for _ in range(options.maps):
            x, gz = (random.standard_normal((tokens, columns)).astype("float32") for _ in range(2))
            p = random.random((tokens, experts)).astype("float32")
            z, gx, weights, _ = run(jnp.array(x), jnp.array(p), jnp.array(gz))
            share = np.asarray(weights).sum(1, keepdims=True)
            near = np.allclose(np.asarray(z), share * x, atol=2e-5, rtol=2e-5)
            near &= np.allclose(np.asarray(gx), share * gz, atol=2e-5, rtol=2e-5)
            differed += not near
            done += 1
        jax.clear_caches() if number % 20 == 19 else None
        if time.perf_counter() - begun > options.seconds:
            break
    print(f"{number + 1} programs, {done} runs on {jax.devices()[0].device_kind}: {differed} differed")
    return differed


if __name__ == "__main__":
    raise SystemExit(min(1, main()))
