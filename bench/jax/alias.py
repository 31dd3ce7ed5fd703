"""A permutation whose input and output a compiler gives one buffer: what becomes of it, by a kernel that does not check, and by Landfall.

    python alias.py [--runs 200]

A row mover in Pallas (Triton) has the same contract as the kernel of the first report: it reads rows in one order and writes them in another.
Each way permutes a donated buffer of drawn rows and size, and is compared with numpy:

- *apart*: no alias is declared; XLA gives input and output buffers of their own.
- *in place*: `input_output_aliases={1: 0}`, which is what the reported compiler and autotuner made of it.
- *dummy buffer*: the way round it that TransformerEngine took: an argument that is read by nobody is the output's alias.
- *landfall, apart* and *landfall, in place*: the same call of Landfall's op, without and with that alias; an error counts as refused.

Needs a GPU; says how many runs differed and how many were refused.
"""

import argparse

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plgpu

import landfall.jax as lj

COLUMNS = 1024


def moved(x, source, *dummy, aliases):
    """Row `source[i]` of x as row i, a program for each row, by a kernel that takes whatever buffers it is given."""

    def kernel(source, x, *rest):
        rest[-1][...] = x[pl.ds(source[pl.program_id(0)], 1), :]

    whole = pl.BlockSpec(x.shape, lambda i: (0, 0))
    return pl.pallas_call(
        kernel,
        jax.ShapeDtypeStruct(x.shape, x.dtype),
        grid=(x.shape[0],),
        in_specs=[pl.BlockSpec(source.shape, lambda i: (0,)), whole, *[whole for _ in dummy]],
        out_specs=pl.BlockSpec((1, COLUMNS), lambda i: (i, 0)),
        input_output_aliases=aliases,
        compiler_params=plgpu.CompilerParams(num_warps=4),
    )(source, x, *dummy)


def landfall(x, source, aliases):
    rows = x.shape[0]
    row = jnp.zeros(rows, "int32").at[source].set(jnp.arange(rows, dtype="int32"))
    map = jnp.stack([row, jnp.zeros_like(row), jnp.ones_like(row)], 1)
    if not aliases:
        return lj.permute(x, map, source)
    made = jax.ffi.ffi_call("landfall_call", jax.ShapeDtypeStruct(x.shape, x.dtype), input_output_aliases=aliases)
    return made(x, map, source, landfall_op="permute", probs=np.bool_(False), drop_zero=np.bool_(False))


WAYS = {
    "kernel that does not check, apart": lambda x, source: moved(x, source, aliases={}),
    "kernel that does not check, in place": lambda x, source: moved(x, source, aliases={1: 0}),
    "dummy buffer": lambda x, source: moved(x, source, jnp.zeros_like(x), aliases={2: 0}),
    "landfall, apart": lambda x, source: landfall(x, source, {}),
    "landfall, in place": lambda x, source: landfall(x, source, {0: 0}),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=200)
    runs = parser.parse_args().runs
    # Registers the handler for the raw call.
    lj.top_k(jnp.ones((1, 2)), k=1)
    for name, way in WAYS.items():
        random, differed, refused = np.random.default_rng(0), 0, 0
        compiled = jax.jit(way, donate_argnums=0)
        for _ in range(runs):
            # Few sizes, so that few programs are compiled.
            rows = int(random.choice([256, 1024, 4096, 16384]))
            x = random.standard_normal((rows, COLUMNS)).astype("float32")
            source = random.permutation(rows).astype("int32")
            try:
                # A copy that XLA may have: the donated buffer.
                found = np.asarray(compiled(jnp.array(x), jnp.array(source)))
            except Exception as error:
                if "shared memory" not in str(error):
                    raise
                refused += 1
                continue
            differed += not np.array_equal(found, x[source])
        print(f"{name}: {runs} runs on {jax.devices()[0].device_kind}, {differed} differed, {refused} refused", flush=True)


if __name__ == "__main__":
    main()
