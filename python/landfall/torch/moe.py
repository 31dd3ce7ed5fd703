"""The permutation of a mixture of experts by the names of TransformerEngine: `transformer_engine.pytorch` is the import that changes.

    rows, row_probs, row_id_map = moe_permute_with_probs(x, probs, routing_map, num_out_tokens=2 * tokens)
    y = moe_unpermute(expert(rows), row_id_map, merging_probs=probs)

A `row_id_map` is int32, `[tokens + ceil(rows / width), width]` of width 2 most + 1: for each token the rows of its pairs, from the highest
expert down, their experts, and how many they are; behind them, row-major, which pair each row has, -1 of none. It knows about padding and
about what was dropped, and flows between the functions of this module, whatever `map_type` it is of.

Gradients are exact: rows beyond `num_out_tokens` are dropped in both directions, and a gradient of a row that is padding is 0. Sums run in
float32 (float64 of float64), and two calls give the same bytes. Errors, destinations and index checks are those of `landfall.torch.experts`;
`docs/coming-from-transformerengine.md` says what differs from TransformerEngine.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import torch

from ..errors import ArgumentError, AttributeValueError, ShapeError
from . import experts

__all__ = [
    "moe_permute",
    "moe_permute_and_pad_with_probs",
    "moe_permute_with_probs",
    "moe_sort_chunks_by_index",
    "moe_sort_chunks_by_index_with_probs",
    "moe_unpermute",
]


def _two_axes(name: str, what: str, tensor: torch.Tensor, sizes: str) -> None:
    if tensor.dim() != 2:
        raise ShapeError(f"{name}: {what} has {tensor.dim()} axes, of sizes {list(tensor.shape)}; it must be {sizes}")


def _parts(row_id_map: torch.Tensor, tokens: Any, rows: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """The map and its inverse, in the memory of the whole."""
    return row_id_map[:tokens], row_id_map[tokens:].view(-1)[:rows]


def _behind(rows: Any, width: Any) -> Any:
    """Lines of the whole that hold the inverse."""
    return (rows + width - 1) // width


def _whole(routing_map: torch.Tensor, rows: Any, most: Any, align: Any) -> torch.Tensor:
    """The `row_id_map` of a mask, not written yet."""
    width = 2 * most + 1
    return routing_map.new_empty((routing_map.shape[0] + _behind(rows, width), width), dtype=torch.int32)


def _written(routing_map: torch.Tensor, rows: int, most: int, align: int) -> torch.Tensor:
    whole = _whole(routing_map, rows, most, align)
    tokens, count = routing_map.shape
    # Cells behind the last row are of no pair either.
    whole[tokens:].fill_(-1)
    counts, offsets = (routing_map.new_empty((size,), dtype=torch.int32) for size in (count, count + 1))
    # Within an op: another one would cost its dispatch again.
    experts._route_map.write(routing_map, most, rows, align, *_parts(whole, tokens, rows), counts, offsets)
    return whole


_mask_map = torch.library.custom_op(
    "landfall::row_id_map",
    _written,
    mutates_args=(),
    schema="(Tensor routing_map, SymInt rows, SymInt most, SymInt align) -> Tensor",
)
_mask_map.register_fake(_whole)


def _index_map(index: torch.Tensor, rows: Any) -> torch.Tensor:
    """The `row_id_map` of the experts of each token, in which the place of an expert in `index` stands for the expert."""
    tokens, most = index.shape
    pairs = tokens * most
    # Pairs in the order of their experts, of one expert in that of tokens; and the row of each pair.
    order = index.reshape(-1).sort(stable=True).indices
    row = torch.empty_like(order).scatter_(0, order, torch.arange(pairs, device=index.device)).view(tokens, most)
    # From the highest expert down; what is dropped comes last.
    row, place = torch.where(row < rows, row, -1).sort(dim=1, descending=True, stable=True)
    present = row >= 0
    cells = torch.cat([row, torch.where(present, place, -1), present.sum(1, keepdim=True)], 1)
    # Where the pair of each row stands among those of its token.
    among = torch.empty_like(place).scatter_(1, place, torch.arange(most, device=index.device).expand(tokens, most))
    width = 2 * most + 1
    source = index.new_full((_behind(rows, width) * width,), -1, dtype=torch.int64)
    used = min(rows, pairs)
    source[:used] = (order // max(most, 1) * most + among.view(-1)[order])[:used]
    return torch.cat([cells, source.view(-1, width)]).to(torch.int32)


def _widest(routing_map: torch.Tensor, most: int | None) -> Any:
    return routing_map.shape[1] if most is None else most


def _capacity(name: str, given: int | None, otherwise: Any) -> Any:
    if given is None:
        return otherwise()
    if given < 0:
        raise AttributeValueError(f"{name}: num_out_tokens is {given}; it must be at least 0, or None for all")
    return given


def _map(
    name: str, inp: torch.Tensor, routing_map: torch.Tensor, rows: int | None, most: int | None
) -> tuple[Any, Any]:
    """The `row_id_map` of a mask, and its rows."""
    _two_axes(name, "inp", inp, "[tokens, columns]")
    _two_axes(name, "routing_map", routing_map, "[tokens, experts]")
    # Without a number the mask is read, for which the host waits.
    rows = _capacity(name, rows, lambda: int(routing_map.count_nonzero()))
    return _mask_map(routing_map, rows, _widest(routing_map, most), 1), rows


def moe_permute(
    inp: torch.Tensor,
    routing_map: torch.Tensor,
    num_out_tokens: int | None = None,
    max_token_num: int = -1,
    map_type: str = "mask",
    *,
    most: int | None = None,
    out: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows of tokens, grouped by expert, and the `row_id_map`: `output [num_out_tokens, H]` of `inp [T, H]`, of any float dtype. Of one expert
    they are in the order of tokens; rows without a pair are zero, and pairs beyond `num_out_tokens` are dropped, the highest experts first.

    `map_type` "mask": `routing_map [T, E]`, bool or integers, not 0 where a token goes to an expert. "index": `routing_map [T, k]`, the numbers of
    the experts of each token, integers. Without `num_out_tokens` all pairs have a row: of a mask the host waits for their number; of
    indices it is T k, as for 0. `max_token_num` is taken and not needed. `most` is the most experts of a token in a mask: with it the map is as
    narrow, without it as wide as for tokens that go to all. `out` is where the rows land, without a gradient.

        rows, row_id_map = moe_permute(torch.randn(3, 4), torch.tensor([[1, 0], [1, 1], [0, 1]]), 4)
    """
    if map_type == "mask":
        row_id_map, rows = _map("moe_permute", inp, routing_map, num_out_tokens, most)
    elif map_type == "index":
        _two_axes("moe_permute", "inp", inp, "[tokens, columns]")
        _two_axes("moe_permute", "routing_map", routing_map, "[tokens, experts of a token]")
        if most is not None:
            raise ArgumentError("moe_permute: most is about masks; of indices it is the second size of routing_map")
        pairs = routing_map.shape[0] * routing_map.shape[1]
        rows = _capacity("moe_permute", num_out_tokens or None, lambda: pairs)
        row_id_map = _index_map(routing_map, rows)
    else:
        raise _unknown("moe_permute", map_type)
    return experts.permute(inp, *_parts(row_id_map, routing_map.shape[0], rows), out=out), row_id_map


def _unknown(name: str, map_type: str) -> AttributeValueError:
    return AttributeValueError(f'{name}: map_type is {map_type!r}; it must be "mask" or "index"')


def moe_permute_with_probs(
    inp: torch.Tensor,
    probs: torch.Tensor,
    routing_map: torch.Tensor,
    num_out_tokens: int | None = None,
    *,
    most: int | None = None,
    out: tuple[torch.Tensor, torch.Tensor] | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """As `moe_permute` of a mask, with the probabilities of the rows: `output [num_out_tokens, H]`, `permuted_probs [num_out_tokens]` of
    `probs [T, E]`, of any float dtype, and the `row_id_map`. A row of a probability of 0 is zero, and so is its gradient. `out` is where the first
    two land."""
    row_id_map, rows = _map("moe_permute_with_probs", inp, routing_map, num_out_tokens, most)
    parts = _parts(row_id_map, routing_map.shape[0], rows)
    return (*experts.permute(inp, *parts, probs, drop_zero=True, out=out), row_id_map)


def moe_permute_and_pad_with_probs(
    inp: torch.Tensor,
    probs: torch.Tensor,
    routing_map: torch.Tensor,
    tokens_per_expert: torch.Tensor,
    align_size: int,
    *,
    num_out_tokens: int | None = None,
    most: int | None = None,
    out: tuple[torch.Tensor, torch.Tensor] | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """As `moe_permute_with_probs`, where the rows of each expert start at a multiple of `align_size`, and padding is zero: `output`,
    `permuted_probs`, the `row_id_map`, `pad_offsets [E]`, the rows of padding before each expert, and `target_tokens_per_expert [E]`, its rows with
    padding, both int64. `num_out_tokens` is the size of the buffer with its padding; without it the host reads `tokens_per_expert [E]`, for which it
    waits where that lies on a GPU."""
    name = "moe_permute_and_pad_with_probs"
    if align_size < 1:
        raise AttributeValueError(f"{name}: align_size is {align_size}; it must be at least 1")
    _two_axes(name, "inp", inp, "[tokens, columns]")
    _two_axes(name, "routing_map", routing_map, "[tokens, experts]")
    counts = tokens_per_expert.long()
    target = (counts + (align_size - 1)) // align_size * align_size
    rows = _capacity(name, num_out_tokens, lambda: int(target.sum()))
    target = target.to(inp.device)
    padding = target - counts.to(inp.device)
    row_id_map = _mask_map(routing_map, rows, _widest(routing_map, most), align_size)
    parts = _parts(row_id_map, routing_map.shape[0], rows)
    permuted = experts.permute(inp, *parts, probs, drop_zero=True, out=out)
    return (*permuted, row_id_map, padding.cumsum(0) - padding, target)


def moe_unpermute(
    inp: torch.Tensor,
    row_id_map: torch.Tensor,
    merging_probs: torch.Tensor | None = None,
    restore_shape: Sequence[int] | None = None,
    map_type: str = "mask",
    probs: torch.Tensor | None = None,
    pad_offsets: torch.Tensor | None = None,
    *,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """The sum of the rows of each token, `[T, H]` of `inp [rows, H]`, times `merging_probs` where they are given, of any float dtype: `[T, E]` for the map
    of a mask, `[T, k]` for one of indices. A token without a row has zeros. `probs` is the former name of `merging_probs`. `restore_shape` is compared
    with `(T, H)`; `map_type` and `pad_offsets` are taken and not needed: the map says both. `out` is where the sums land, without a gradient."""
    _two_axes("moe_unpermute", "inp", inp, "[rows, columns]")
    _two_axes("moe_unpermute", "row_id_map", row_id_map, "what moe_permute gives")
    if map_type not in ("mask", "index"):
        raise _unknown("moe_unpermute", map_type)
    if probs is not None:
        if merging_probs is not None:
            raise ArgumentError("moe_unpermute: probs is the former name of merging_probs; give one of them")
        warnings.warn("moe_unpermute: probs is the former name of merging_probs", DeprecationWarning, stacklevel=2)
        merging_probs = probs
    rows, columns = inp.shape
    tokens = row_id_map.shape[0] - _behind(rows, row_id_map.shape[1])
    if tokens < 0:
        raise ShapeError(
            f"moe_unpermute: row_id_map is {list(row_id_map.shape)}, too small for {rows} rows; give inp as many rows as the permuted buffer has"
        )
    if restore_shape is not None and tuple(restore_shape) != (tokens, columns):
        raise ShapeError(
            f"moe_unpermute: restore_shape is {tuple(restore_shape)}; by inp and row_id_map it is {(tokens, columns)}"
        )
    return experts.unpermute(inp, *_parts(row_id_map, tokens, rows), merging_probs, out=out)


def moe_sort_chunks_by_index(
    inp: torch.Tensor, split_sizes: torch.Tensor, sorted_index: torch.Tensor, *, out: torch.Tensor | None = None
) -> torch.Tensor:
    """Chunks of rows in another order: chunk j of the result is chunk `sorted_index[j]` of `inp [N, H]`, whose chunks have `split_sizes` rows. Both
    are int32 or int64, on the device of `inp`. Rows behind the last chunk stay. `out` is where the rows land, without a gradient."""
    return experts.sort_chunks_by_index(inp, split_sizes, sorted_index.to(split_sizes.dtype), out=out)


def moe_sort_chunks_by_index_with_probs(
    inp: torch.Tensor,
    probs: torch.Tensor,
    split_sizes: torch.Tensor,
    sorted_index: torch.Tensor,
    *,
    out: tuple[torch.Tensor, torch.Tensor] | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """As `moe_sort_chunks_by_index`, with `probs [N]` of the rows beside them, of any float dtype."""
    return experts.sort_chunks_by_index(inp, split_sizes, sorted_index.to(split_sizes.dtype), probs, out=out)
