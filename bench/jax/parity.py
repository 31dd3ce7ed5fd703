"""Compares `landfall.jax` with TransformerEngine's permutation in JAX's own ops (`pure_jax_token_dispatch`, `pure_jax_token_combine`), on the CPU.

    python parity.py FOLDER

`FOLDER` holds TransformerEngine's Python files (see peers/transformer_engine.py). Rows, with padding and without, and the rows of experts are
compared bit for bit; sums and gradients, which are added up in another order, by the error of their dtype.
"""

import pathlib
import sys

import jax
import jax.numpy as jnp
import numpy as np

import landfall.jax as lj

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "peers"))
import transformer_engine  # noqa: E402


def of_landfall(chosen, experts, align):
    """Rows and sums of tokens; `chosen [T, k]` are the experts of tokens."""
    tokens, k = chosen.shape
    token = jnp.arange(tokens)[:, None]
    routed = jnp.zeros((tokens, experts), jnp.uint8).at[token, chosen].set(1)
    rows = tokens * k + experts * (align - 1)
    map, source, counts, _ = lj.route_map(routed, most=k, rows=rows, align=align)

    def combine(y, weights):
        dense = jnp.zeros((tokens, experts), weights.dtype).at[token, chosen].set(weights)
        return lj.unpermute(y, map, source, dense)

    return lambda x: lj.permute(x, map, source), combine, -(-counts // align) * align


def of_transformer_engine(te, chosen, experts, align):
    tokens, k = chosen.shape
    padded = align if align > 1 else 0

    def dispatch(x):
        return te.pure_jax_token_dispatch(x, chosen, experts, k, align_size=padded)

    _, state, sizes = dispatch(jnp.zeros((tokens, 1)))
    combine = lambda y, weights: te.pure_jax_token_combine(y, state, weights, k, tokens, 1).reshape(tokens, -1)  # noqa: E731
    return lambda x: dispatch(x)[0], combine, sizes


def near(what, ours, theirs, dtype):
    tolerance = {"float32": 1e-5, "bfloat16": 3e-2}[dtype]
    ours, theirs = np.asarray(ours, "float32"), np.asarray(theirs, "float32")
    scale = max(1.0, np.abs(theirs).max())
    np.testing.assert_allclose(ours / scale, theirs / scale, rtol=tolerance, atol=tolerance, err_msg=what)


def main():
    te = transformer_engine.jax(sys.argv[1])
    for tokens, experts, columns, k in [(13, 5, 33, 2), (64, 8, 16, 8), (200, 64, 40, 3), (9, 1, 4, 1)]:
        for align in (1, 4, 16):
            for dtype in ("float32", "bfloat16"):
                random = np.random.default_rng(tokens)
                chosen = jnp.array(np.argsort(random.random((tokens, experts)), axis=1)[:, :k].astype("int32"))
                draw = lambda *shape: jnp.asarray(random.standard_normal(shape), dtype)  # noqa: B023, E731
                ours, theirs = of_landfall(chosen, experts, align), of_transformer_engine(te, chosen, experts, align)
                np.testing.assert_array_equal(ours[2], theirs[2])
                x, weights = draw(tokens, columns), draw(tokens, k)
                found, wanted = ours[0](x), theirs[0](x)
                np.testing.assert_array_equal(np.asarray(found, "float32"), np.asarray(wanted, "float32"))
                y, gy, gz = draw(*found.shape), draw(*found.shape), draw(tokens, columns)
                near("sums", ours[1](y, weights), theirs[1](y, weights), dtype)
                of = lambda way: (*jax.vjp(way[0], x)[1](gy), *jax.vjp(way[1], y, weights)[1](gz))  # noqa: B023, E731
                for what, one, other in zip(("x", "rows", "weights"), of(ours), of(theirs)):
                    near(f"gradient of {what}", one, other, dtype)
        print(f"{tokens} tokens, {experts} experts, {columns} columns, top {k}: as TransformerEngine", flush=True)


if __name__ == "__main__":
    main()
