"""Landfall's ops in JAX: custom calls of XLA that work in XLA's buffers, on its stream, without a copy.

    routed, weights = landfall.jax.top_k(probabilities, k=2)
    map, source, counts, offsets = landfall.jax.route_map(routed, most=2, rows=2 * tokens)
    rows = landfall.jax.permute(x, map, source)
    rows = landfall.jax.grouped_matmul(rows, w, counts, offsets)
    y = landfall.jax.unpermute(rows, map, source, weights)

They go through `jit`, `grad`, `vmap` (one call after another) and `shard_map` (each shard by itself), and may be captured in XLA's
command buffers. Sizes are static, as all are in JAX: `rows` is the capacity of the permuted buffer, and what it does not hold is
dropped. Every call checks the ranges of its buffers by the op's alias rule: results that XLA placed over an argument are an error that
names both ranges. A number of a map that is out of range is left out; on the CPU the call fails, on a GPU `landfall.synchronize`
says so.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ._landfall import _xla_handler, _xla_results
from .errors import ArgumentError

__all__ = [
    "call",
    "chunk_map",
    "grouped_matmul",
    "permute",
    "route_map",
    "sort_chunks",
    "sort_chunks_by_index",
    "top_k",
    "unpermute",
]

_TARGET = "landfall_call"


@lru_cache(maxsize=1)
def _devices() -> list[str]:
    """The devices whose calls Landfall takes, for which its handler is registered."""
    jax.ffi.register_ffi_target(_TARGET, _xla_handler("cpu"), platform="cpu")
    try:
        gpus = [f"cuda:{device.local_hardware_id}" for device in jax.local_devices(backend="cuda")]
    except RuntimeError:
        # This JAX has no GPU.
        return ["cpu"]
    handlers = [_xla_handler(gpu) for gpu in gpus]
    jax.ffi.register_ffi_target(_TARGET, handlers[0], platform="CUDA")
    return ["cpu", *gpus]


def _attribute(value: Any) -> Any:
    """A value as XLA's attribute of one of the kinds that the handler reads."""
    if isinstance(value, (bool, np.bool_)):
        return np.bool_(value)
    if isinstance(value, int):
        return np.int64(value)
    if isinstance(value, float):
        return np.float64(value)
    if isinstance(value, tuple):
        return np.array(value, np.int64)
    return value


def call(name: str, *args: Any, swapped: tuple[int, ...] = (), **attributes: Any) -> Any:
    """Calls the op `name` of `landfall.ops`, with its attributes as keywords: one result, or a tuple of several.

    It has no gradient of its own: the functions of this module have. An op that updates an argument gives its new value; XLA copies
    the argument where it is needed after. `swapped` are the numbers of arguments that are read with their last two axes swapped,
    without a copy."""
    arrays = [jnp.asarray(arg) for arg in args]
    shapes = [list(array.shape) for array in arrays]
    for i in swapped:
        if not 0 <= i < len(shapes) or len(shapes[i]) < 2:
            raise ArgumentError(f"{name}: swapped has {i}; it must be the number of an argument with at least 2 axes")
        shapes[i][-2:] = reversed(shapes[i][-2:])
    specs = [(str(array.dtype), shape) for array, shape in zip(arrays, shapes)]
    results, workspace, updated, given = _xla_results(name, attributes, specs, _devices())
    out = [jax.ShapeDtypeStruct(tuple(shape), jnp.dtype(dtype)) for dtype, shape in results]
    count = len(out)
    if workspace:
        out.append(jax.ShapeDtypeStruct((workspace,), jnp.uint8))
    made = jax.ffi.ffi_call(
        _TARGET,
        out,
        vmap_method="sequential",
        input_output_aliases={argument: j for j, argument in enumerate(updated) if argument is not None},
    )
    values = {key: _attribute(value) for key, value in given}
    if swapped:
        values["landfall_swapped"] = np.array(swapped, np.int64)
    run = lambda *arrays: made(*arrays, landfall_op=name, **values)  # noqa: E731
    if arrays and not any(jnp.issubdtype(array.dtype, jnp.inexact) for array in arrays):
        # No gradient flows through integers.
        plain, run = run, jax.custom_vjp(run)
        run.defvjp(lambda *arrays: (plain(*arrays), None), lambda _, __: (None,) * len(arrays))
    found = run(*arrays)[:count]
    return found[0] if count == 1 else tuple(found)


def _differentiable(forward: Callable, backward: Callable) -> Callable:
    """A function of static options and arrays with a gradient: `backward` takes the options, the arrays, the results and their
    cotangents, and gives a cotangent for each array, `None` for integers."""
    function = jax.custom_vjp(forward, nondiff_argnums=(0,))

    def run(options, *arrays):
        results = function(options, *arrays)
        return results, (arrays, results)

    def back(options, saved, cotangents):
        arrays, results = saved
        return tuple(backward(options, arrays, results, cotangents))

    function.defvjp(run, back)
    return function


_top_k = _differentiable(
    lambda options, p: call("top_k", p, k=options[0], renormalise=options[1]),
    lambda options, arrays, results, g: [call("top_k_grad", arrays[0], results[0], g[1], renormalise=options[1])],
)


def top_k(probabilities: Any, k: int, renormalise: bool = True) -> tuple[jax.Array, jax.Array]:
    """The `k` experts of the largest probabilities of each token: `routed [T, E]`, bool, and `weights [T, E]`, divided by their sum
    unless `renormalise` is off, 0 elsewhere. Of equal ones the lower index comes first."""
    return _top_k((k, renormalise), probabilities)


def route_map(routed: Any, most: int, rows: int, align: int = 1) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """Which row of the permuted buffer each pair of a token and an expert has: `map [T, 2 most + 1]`, `source [rows]`, `counts [E]` and
    `offsets [E + 1]`, int32. `routed`: `[T, E]`, not 0 where a token goes to an expert, at most `most` of a token. Rows are grouped
    by expert, those of each start at a multiple of `align`, and pairs beyond `rows` are dropped."""
    return call("route_map", routed, most=most, rows=rows, align=align)


def _permute_back(options, arrays, _, cotangents):
    x, map, source, *p = arrays
    present = [(p[0] != 0).astype(p[0].dtype)] if p and options[1] else []
    if not p:
        return [_unpermute((), cotangents, map, source), None, None]
    gp = call("pair_probs", cotangents[1], map, experts=p[0].shape[1])
    return [_unpermute((), cotangents[0], map, source, *present), None, None, gp]


_permute = _differentiable(
    lambda options, *arrays: call("permute", *arrays, probs=options[0], drop_zero=options[1]), _permute_back
)


def permute(x: Any, map: Any, source: Any, probabilities: Any = None, drop_zero: bool = False) -> Any:
    """The row of each token in the rows of its pairs: `[rows, H]` of `x [T, H]`; rows without a pair are zero. With `probabilities [T, E]`
    also those of the rows, `[rows]`. `drop_zero` zeroes rows of a probability of 0, as TransformerEngine does."""
    if probabilities is None:
        if drop_zero:
            raise ArgumentError("permute: drop_zero is about probabilities, which are not given")
        return _permute((False, False), x, map, source)
    return _permute((True, drop_zero), x, map, source, probabilities)


def _unpermute_back(_, arrays, __, cotangent):
    y, map, source, *weights = arrays
    if not weights:
        return [_permute((False, False), cotangent, map, source), None, None]
    gy, gw = call("unpermute_grad", y, map, source, weights[0], cotangent)
    return [gy, None, None, gw]


_unpermute = _differentiable(lambda _, *arrays: call("unpermute", *arrays), _unpermute_back)


def unpermute(y: Any, map: Any, source: Any, weights: Any = None) -> jax.Array:
    """The sum of the rows of each token, `[T, H]` of `y [rows, H]`, times `weights [T, E]` where they are given: summed in float32, from the
    highest expert down, so that the result is the same each time."""
    return _unpermute((), y, map, source, *([] if weights is None else [weights]))


def chunk_map(sizes: Any, order: Any, rows: int) -> jax.Array:
    """Where each row goes when chunks of rows change their order: chunk j of the result is chunk `order[j]`, of `sizes[order[j]]` rows."""
    return call("chunk_map", sizes, order, rows=rows)


def _sort_back(options, arrays, _, cotangents):
    d, moved = arrays[1], cotangents if options[0] else [cotangents]
    back = _sort((options[0], not options[1]), moved[0], d, *moved[1:])
    return [back[0], None, back[1]] if options[0] else [back, None]


_sort = _differentiable(
    lambda options, *arrays: call("sort_chunks", *arrays, probs=options[0], inverse=options[1]), _sort_back
)


def sort_chunks(x: Any, map: Any, probabilities: Any = None, inverse: bool = False) -> Any:
    """Rows, and with them their `probabilities [N]`, where a map of `chunk_map` sends them, or with `inverse` back."""
    given = [] if probabilities is None else [probabilities]
    return _sort((bool(given), inverse), x, map, *given)


def sort_chunks_by_index(x: Any, sizes: Any, order: Any, probabilities: Any = None) -> Any:
    """Chunks of rows in another order, as `sort_chunks` after `chunk_map`."""
    return sort_chunks(x, chunk_map(sizes, order, jnp.shape(x)[0]), probabilities)


def _grouped_back(_, arrays, __, cotangent):
    x, w, counts, offsets = arrays
    gx = call("grouped_matmul", cotangent, w, counts, offsets, swapped=(1,))
    return [gx, call("grouped_matmul_grad", x, cotangent, counts, offsets), None, None]


_grouped = _differentiable(lambda _, *arrays: call("grouped_matmul", *arrays), _grouped_back)


def grouped_matmul(x: Any, w: Any, counts: Any, offsets: Any) -> jax.Array:
    """The rows of each expert times its matrix: `[rows, F]` of `x [rows, K]` and `w [E, K, F]`, with `counts` and `offsets` of `route_map`; other
    rows are zero."""
    return _grouped((), x, w, counts, offsets)
