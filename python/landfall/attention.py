"""Attention with PyTorch's axes, arguments and defaults: heads before tokens."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from ._landfall import Value
from .errors import ArgumentError
from .functions import Function

__all__ = ["scaled_dot_product_attention"]


@lru_cache(maxsize=64)
def _function(options: tuple[tuple[str, Any], ...]) -> Function:
    """The function of these options, which has a program for each combination of shapes, dtypes and device."""

    def attention(query: Value, key: Value, value: Value, *mask: Value) -> Value:
        return query.scaled_dot_product_attention(key, value, mask[0] if mask else None, **dict(options))

    return Function(attention)


def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    out: Any = None,
) -> Any:
    """Attention of queries `[.., heads, M, e]` over keys `[.., heads, N, e]` and values `[.., heads, N, f]`, as PyTorch's function of
    this name has it: the same axes, arguments and defaults. (`attend` and `masked_attention` take tokens before heads.)

    `attn_mask` is bool, true where a query sees a key, or of the dtype of the queries and added to the scores; it is broadcast to
    `[.., heads, M, N]`. `is_causal` hides the keys behind key i from query i. `scale` is 1/sqrt(e) where none is given. With
    `enable_gqa` keys and values may have fewer heads. There is no dropout. Arguments are arrays, or values of a traced function.
    """
    if dropout_p != 0.0:
        raise ArgumentError(f"dropout_p is {dropout_p}; this attention has no dropout, so it must be 0")
    options = {"is_causal": is_causal, "scale": scale, "enable_gqa": enable_gqa}
    args = [query, key, value] + ([] if attn_mask is None else [attn_mask])
    traced = [isinstance(arg, Value) for arg in args]
    if all(traced):
        if out is not None:
            raise ArgumentError("out beside values of a traced function, whose memory is planned; leave it out")
        return query.scaled_dot_product_attention(*args[1:], **options)
    if any(traced):
        raise ArgumentError(
            f"argument {traced.index(False)} is an array beside values of a traced function; pass it to the function as an argument"
        )
    return _function(tuple(options.items()))(*args, out=out)
