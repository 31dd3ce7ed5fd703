"""The ops of a mixture of experts in torch, with gradients and destinations.

    routed, weights = experts.top_k(probabilities, k=2)
    map, source, counts, offsets = experts.route_map(routed, most=2, rows=2 * tokens)
    rows = experts.permute(x, map, source)
    rows = experts.grouped_matmul(rows, w, counts, offsets)
    y = experts.unpermute(rows, map, source, weights)

Each is an op of `torch.library` that works in torch's memory, on its current stream: it goes through autograd, `torch.compile` with
sizes that vary, and CUDA graphs. With `out` the results land in given tensors, as `out` of torch's own functions: without a gradient.
A destination that lies over an argument is an `AliasError` that names both ranges of bytes. No call waits for the GPU: a number of a map that
is out of range is left out, and `landfall.synchronize("cuda")` reports it; on the CPU the call raises `IndexOutOfRangeError`. Sizes, dtypes and
attributes that do not fit are a `ShapeError`, a `DTypeError` or an `AttributeValueError` that names the op, the shapes and the rule.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import torch

from .. import ops
from ..errors import ArgumentError, ShapeError

__all__ = [
    "chunk_map",
    "grouped_matmul",
    "permute",
    "route_map",
    "sort_chunks",
    "sort_chunks_by_index",
    "top_k",
    "unpermute",
]


class _Op:
    """An op of `landfall.ops` as two ops of torch: `landfall::name` makes its results, `landfall::name_out` writes to given ones."""

    def __init__(self, name: str, args: str, results: str, attributes: str = "", of: str | None = None, **fixed: Any):
        """Arguments and results are written as `x[T,H]`; a letter is a size, which an argument decides. A result has the dtype
        whose name it has, or that of the argument."""
        self._name = of or name
        self._issue = getattr(ops, self._name)._unwaited
        self._fixed = fixed
        self._args = [(arg, sizes.split(",")) for arg, sizes in re.findall(r"(\w+)\[(.*?)\]", args)]
        self._results = [(like, sizes.split(",")) for like, sizes in re.findall(r"(\w+)\[(.*?)\]", results)]
        self._attributes = re.findall(r"(\w+) (\w+)", attributes)
        given = [f"Tensor {arg}" for arg, _ in self._args] + [f"{kind} {key}" for kind, key in self._attributes]
        outs = [f"out{j}" for j in range(len(self._results))]
        made = "Tensor" if len(outs) == 1 else f"({', '.join(['Tensor'] * len(outs))})"
        self._new = torch.library.custom_op(
            f"landfall::{name}",
            self._make,
            mutates_args=(),
            schema=f"({', '.join(given)}) -> {made}",
        )
        self._new.register_fake(self._empty)
        into = [f"Tensor(a{j}!) {out}" for j, out in enumerate(outs)]
        self._into = torch.library.custom_op(
            f"landfall::{name}_out",
            self.write,
            mutates_args=outs,
            schema=f"({', '.join(given + into)}) -> ()",
        )
        self._into.register_fake(lambda *args: None)

    def gradient(self, kept: str, backward: Callable) -> None:
        """The gradient: `backward(ctx, kept, *cotangents)` gives one for each argument. `kept` names what it reads."""
        names = [arg for arg, _ in self._args]
        results = [f"result{j}" for j in range(len(self._results))]

        def setup(ctx: Any, inputs: Any, output: Any) -> None:
            found = dict(zip(names + results, (*inputs[: len(names)], *(output if len(results) > 1 else (output,)))))
            ctx.save_for_backward(*(found[name] for name in kept.split()))
            ctx.attributes = inputs[len(names) :]

        def back(ctx: Any, *cotangents: Any) -> tuple[Any, ...]:
            found = backward(ctx, *ctx.saved_tensors, *cotangents)
            return (*found, *(None for _ in self._attributes))

        self._new.register_autograd(back, setup_context=setup)

    def _empty(self, *args: Any) -> Any:
        """The results, not written yet."""
        known: dict[str, Any] = dict(zip((key for _, key in self._attributes), args[len(self._args) :]))
        tensors = {}
        for (name, sizes), arg in zip(self._args, args):
            if arg.dim() != len(sizes):
                raise ShapeError(
                    f"{self._name}: {name} has {arg.dim()} axes, of sizes {list(arg.shape)}; it must be [{', '.join(sizes)}]"
                )
            tensors[name] = arg
            for size, found in zip(sizes, arg.shape):
                known.setdefault(size, found)
        made = []
        for like, sizes in self._results:
            shape = [_size(size, known) for size in sizes]
            arg = tensors.get(like)
            made.append(args[0].new_empty(shape, dtype=getattr(torch, like)) if arg is None else arg.new_empty(shape))
        return made[0] if len(made) == 1 else tuple(made)

    def write(self, *args: Any) -> None:
        """The call: arguments, attributes, and the tensors that the results are written to."""
        count = len(self._args)
        behind = count + len(self._attributes)
        keywords = dict(zip((key for _, key in self._attributes), args[count:behind]))
        tensors = [arg.detach() for arg in args[:count]]
        self._issue(*tensors, out=tuple(out.detach() for out in args[behind:]), **keywords, **self._fixed)

    def _make(self, *args: Any) -> Any:
        made = self._empty(*args)
        self.write(*args, *(made if isinstance(made, tuple) else (made,)))
        return made

    def __call__(self, *args: Any, out: Any = None) -> Any:
        if out is None:
            return self._new(*args)
        outs = tuple(out) if isinstance(out, (tuple, list)) else (out,)
        if len(outs) != len(self._results):
            raise ArgumentError(f"{self._name}: out has {len(outs)} tensors; the call has {len(self._results)} results")
        tensors = [*args[: len(self._args)], *outs]
        if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
            raise ArgumentError(
                f"{self._name}: out has no gradient, and an argument or a destination requires one; detach it, call it under "
                "torch.no_grad(), or leave out away"
            )
        self._into(*args, *outs)
        return out


def _size(text: str, known: dict[str, Any]) -> Any:
    """A size of a result: one of an argument's or an attribute, or twice it and one, or one more."""
    if found := re.fullmatch(r"2\*(\w+)\+1", text):
        return 2 * known[found[1]] + 1
    if found := re.fullmatch(r"(\w+)\+1", text):
        return known[found[1]] + 1
    return known[text]


_top_k = _Op("top_k", "p[T,E]", "bool[T,E] p[T,E]", "SymInt k, bool renormalise")
_top_k_grad = _Op("top_k_grad", "p[T,E] routed[T,E] gw[T,E]", "p[T,E]", "bool renormalise")
_route_map = _Op(
    "route_map",
    "routed[T,E]",
    "int32[T,2*most+1] int32[rows] int32[E] int32[E+1]",
    "SymInt most, SymInt rows, SymInt align",
)
_permute = _Op("permute", "x[T,H] map[T,M] source[N]", "x[N,H]")
_permute_probs = _Op(
    "permute_probs",
    "x[T,H] map[T,M] source[N] p[T,E]",
    "x[N,H] p[N]",
    "bool drop_zero",
    of="permute",
    probs=True,
)
_pair_probs = _Op("pair_probs", "v[N] map[T,M]", "v[T,experts]", "SymInt experts")
_unpermute = _Op("unpermute", "y[N,H] map[T,M] source[N]", "y[T,H]")
_unpermute_weighted = _Op("unpermute_weighted", "y[N,H] map[T,M] source[N] w[T,E]", "y[T,H]", of="unpermute")
_unpermute_grad = _Op("unpermute_grad", "y[N,H] map[T,M] source[N] w[T,E] gz[T,H]", "y[N,H] w[T,E]")
_chunk_map = _Op("chunk_map", "sizes[S] order[S]", "sizes[rows]", "SymInt rows")
_sort_chunks = _Op("sort_chunks", "x[N,H] d[N]", "x[N,H]", "bool inverse")
_sort_chunks_probs = _Op(
    "sort_chunks_probs", "x[N,H] d[N] p[N]", "x[N,H] p[N]", "bool inverse", of="sort_chunks", probs=True
)
_grouped_matmul = _Op("grouped_matmul", "x[N,K] w[E,K,F] counts[E] offsets[O]", "x[N,F]")
_grouped_matmul_grad = _Op("grouped_matmul_grad", "x[N,K] gy[N,F] counts[E] offsets[O]", "x[E,K,F]")


def _permute_probs_back(ctx: Any, map: Any, source: Any, p: Any, gy: Any, gpy: Any) -> list[Any]:
    # What was zeroed has no gradient.
    present = [(p != 0).to(p.dtype)] if ctx.attributes[0] else []
    gx = unpermute(gy, map, source, *present) if ctx.needs_input_grad[0] else None
    return [gx, None, None, _pair_probs(gpy, map, p.shape[1]) if ctx.needs_input_grad[3] else None]


def _unpermute_weighted_back(ctx: Any, y: Any, map: Any, source: Any, w: Any, gz: Any) -> list[Any]:
    gy, gw = _unpermute_grad(y, map, source, w, gz)
    return [gy, None, None, gw]


def _sort_chunks_probs_back(ctx: Any, d: Any, gy: Any, gpy: Any) -> list[Any]:
    gx, gp = _sort_chunks_probs(gy, d, gpy, not ctx.attributes[0])
    return [gx, None, gp]


def _grouped_matmul_back(ctx: Any, x: Any, w: Any, counts: Any, offsets: Any, gy: Any) -> list[Any]:
    # The matrices are read in place.
    gx = _grouped_matmul(gy, w.transpose(1, 2), counts, offsets) if ctx.needs_input_grad[0] else None
    gw = _grouped_matmul_grad(x, gy, counts, offsets) if ctx.needs_input_grad[1] else None
    return [gx, gw, None, None]


_top_k.gradient("p result0", lambda ctx, p, routed, _, gw: [_top_k_grad(p, routed, gw, ctx.attributes[1])])
_permute.gradient("map source", lambda ctx, map, source, gy: [_unpermute(gy, map, source), None, None])
_permute_probs.gradient("map source p", _permute_probs_back)
_unpermute.gradient("map source", lambda ctx, map, source, gz: [_permute(gz, map, source), None, None])
_unpermute_weighted.gradient("y map source w", _unpermute_weighted_back)
_sort_chunks.gradient("d", lambda ctx, d, gy: [_sort_chunks(gy, d, not ctx.attributes[0]), None])
_sort_chunks_probs.gradient("d", _sort_chunks_probs_back)
_grouped_matmul.gradient("x w counts offsets", _grouped_matmul_back)


def top_k(p: torch.Tensor, k: int, renormalise: bool = True, *, out: Any = None) -> tuple[torch.Tensor, torch.Tensor]:
    """The `k` experts of the largest probabilities of each token: `routed [T, E]`, bool, and `weights [T, E]`, divided by their sum
    unless `renormalise` is off, 0 elsewhere. Of equal ones the lower index comes first. Gradient: of the weights."""
    return _top_k(p, k, renormalise, out=out)


def route_map(
    routed: torch.Tensor, most: int, rows: int, align: int = 1, *, out: Any = None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Which row of the permuted buffer each pair of a token and an expert has: `map [T, 2 most + 1]`, `source [rows]`, `counts [E]` and
    `offsets [E + 1]`, int32. `routed`: `[T, E]`, not 0 where a token goes to an expert, at most `most` of a token. Rows are grouped
    by expert, those of each start at a multiple of `align`, and pairs beyond `rows` are dropped."""
    return _route_map(routed, most, rows, align, out=out)


def permute(
    x: torch.Tensor,
    map: torch.Tensor,
    source: torch.Tensor,
    probabilities: torch.Tensor | None = None,
    drop_zero: bool = False,
    *,
    out: Any = None,
) -> Any:
    """The row of each token in the rows of its pairs: `[rows, H]` of `x [T, H]`; rows without a pair are zero. With `probabilities [T, E]`
    also those of the rows, `[rows]`. `drop_zero` zeroes rows of a probability of 0, and their gradient."""
    if probabilities is not None:
        return _permute_probs(x, map, source, probabilities, drop_zero, out=out)
    if drop_zero:
        raise ArgumentError("permute: drop_zero is about probabilities, which are not given")
    return _permute(x, map, source, out=out)


def unpermute(
    y: torch.Tensor, map: torch.Tensor, source: torch.Tensor, weights: torch.Tensor | None = None, *, out: Any = None
) -> torch.Tensor:
    """The sum of the rows of each token, `[T, H]` of `y [rows, H]`, times `weights [T, E]` where they are given: summed in float32, in
    float64 of float64, from the highest expert down, so that the result is the same each time."""
    if weights is None:
        return _unpermute(y, map, source, out=out)
    return _unpermute_weighted(y, map, source, weights, out=out)


def chunk_map(sizes: torch.Tensor, order: torch.Tensor, rows: int, *, out: Any = None) -> torch.Tensor:
    """Where each row goes when chunks of rows change their order: chunk j of the result is chunk `order[j]`, of `sizes[order[j]]` rows.
    Both are of int32, or of int64."""
    return _chunk_map(sizes, order, rows, out=out)


def sort_chunks(
    x: torch.Tensor,
    map: torch.Tensor,
    probabilities: torch.Tensor | None = None,
    inverse: bool = False,
    *,
    out: Any = None,
) -> Any:
    """Rows `[N, H]`, and with them their `probabilities [N]`, where a map of `chunk_map` sends them, or with `inverse` back."""
    if probabilities is None:
        return _sort_chunks(x, map, inverse, out=out)
    return _sort_chunks_probs(x, map, probabilities, inverse, out=out)


def sort_chunks_by_index(
    x: torch.Tensor,
    sizes: torch.Tensor,
    order: torch.Tensor,
    probabilities: torch.Tensor | None = None,
    *,
    out: Any = None,
) -> Any:
    """Chunks of rows in another order, as `sort_chunks` after `chunk_map`."""
    return sort_chunks(x, chunk_map(sizes, order, x.shape[0]), probabilities, out=out)


def grouped_matmul(
    x: torch.Tensor, w: torch.Tensor, counts: torch.Tensor, offsets: torch.Tensor, *, out: Any = None
) -> torch.Tensor:
    """The rows of each expert times its matrix: `[rows, F]` of `x [rows, K]` and `w [E, K, F]`, with `counts` and `offsets` of `route_map`; other
    rows are zero. Gradients of both, the matrices read in place."""
    return _grouped_matmul(x, w, counts, offsets, out=out)
