"""Elements at arrays of indices, as in numpy: `x[rows]`, `x[:, columns]`, `x[rows, columns]`, of tensors and of values of a
traced function.

Arrays of indices are broadcast together, and their axes stand where the first of them stood, or first where slices are between them.
Negative indices count from the end. Indices on the host are checked at once; those of a traced function, and those on a GPU, while
the gather runs, whose result then raises `IndexOutOfRangeError`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import ops
from ._landfall import Tensor, Value, from_dlpack, tensor
from .errors import ArgumentError, IndexOutOfRangeError

__all__ = ["index"]


def _is_integer(item: Any) -> bool:
    return hasattr(item, "__index__") and not hasattr(item, "__dlpack__")


def _is_array(item: Any) -> bool:
    """Whether it is none of what names one element or a slice: an array of indices, or what will be refused as one."""
    return not (item is None or item is Ellipsis or isinstance(item, slice) or _is_integer(item))


def index(x: Tensor | Value, key: Any) -> Any:
    """The elements of `x` at an index that has arrays."""
    items = list(key) if isinstance(key, tuple) else [key]
    function = next((item for item in items if isinstance(item, Value)), None)
    if function is not None and not isinstance(x, Value):
        x = function._constant(x)
    named = sum(item is not None and item is not Ellipsis for item in items)
    if Ellipsis in [item for item in items if not _is_array(item)]:
        at = next(place for place, item in enumerate(items) if item is Ellipsis)
        items[at : at + 1] = [slice(None)] * max(x.ndim - named, 0)
    # Slices and integers first; an axis with an array of indices stays whole until then.
    picking = [place for place, item in enumerate(items) if _is_array(item) or _is_integer(item)]
    part = x[tuple(slice(None) if _is_array(item) else item for item in items)]
    places: list[tuple[int, Any]] = []
    axis = 0
    for item in items:
        if _is_array(item):
            places.append((axis, item))
        axis += not _is_integer(item)
    picked, rank = _picked(part, places)
    first = places[0][0]
    if first > 0 and picking[-1] - picking[0] + 1 > len(picking):
        axes = list(range(picked.ndim))
        picked = picked.permute(*axes[first : first + rank], *axes[:first], *axes[first + rank :])
    return picked


def _picked(x: Any, places: list[tuple[int, Any]]) -> tuple[Any, int]:
    """The elements at indices along axes, whose axes stand in the place of the first, and how many axes they have."""
    axes = [axis for axis, _ in places]
    sizes = [x.shape[axis] for axis in axes]
    indices = [_indices(x, axis, given) for axis, given in places]
    if len(axes) == 1:
        picked = _beside(x, indices[0])
        return ops.gather(x, picked, axis=axes[0], rows=True), len(picked.shape)
    # The axes side by side, then as one, in which an element has one number.
    first, others = axes[0], [axis for axis in range(x.ndim) if axis not in axes]
    moved = x.permute(*others[:first], *axes, *others[first:])
    if isinstance(moved, Tensor):
        moved = moved.contiguous()
    before, after = moved.shape[:first], moved.shape[first + len(axes) :]
    flat = moved.reshape(*before, int(np.prod(sizes)), *after)
    number: Any = 0
    for given, size in zip(indices, sizes):
        number = number * size + (given if isinstance(given, np.ndarray) else _checked(given, size))
    picked = _beside(x, number)
    return ops.gather(flat, picked, axis=first, rows=True), len(picked.shape)


def _checked(indices: Any, size: int) -> Any:
    """The indices, with a fault where one is out of range: in one number of several indices it would be another element's."""
    if isinstance(indices, Value):
        numbers: Any = indices.arange(size)
    else:
        numbers = tensor(np.arange(size), device=indices.device)
    return ops.gather(numbers, indices, axis=0, rows=True)


def _beside(x: Any, indices: Any) -> Any:
    """Indices where the elements are."""
    if not isinstance(indices, np.ndarray):
        return indices
    return x._constant(indices) if isinstance(x, Value) else tensor(indices, device=x.device)


def _indices(x: Any, axis: int, given: Any) -> Any:
    """Indices along an axis as int64, counted from the front: on the host an array of numpy, whose range is checked here."""
    size = x.shape[axis]
    if hasattr(given, "__dlpack__") and not isinstance(given, np.ndarray):
        given = given if isinstance(given, Tensor) else from_dlpack(given)
        if given.device == "cpu" or isinstance(x, Value):
            given = given.to("cpu").numpy()
    if isinstance(given, (Value, Tensor)):
        if given.dtype == "bool":
            raise _mask(given.shape)
        if given.dtype not in ("int64", "int32", "uint8"):
            raise ArgumentError(f"an index of axis {axis} is an array of {given.dtype}; it must be of integers")
        whole: Any = given
        if given.dtype != "int64":
            whole = ops.cast(whole, dtype="int64")
        return ops.where(whole < 0, whole + size, whole)
    try:
        array = np.asarray(given)
    except ValueError as error:
        raise ArgumentError(f"{given!r} is no array of indices: {error}") from None
    if array.dtype.kind == "b":
        raise _mask(array.shape)
    if array.size == 0 and isinstance(given, (list, tuple)):
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise ArgumentError(f"an index of axis {axis} is an array of {array.dtype}; it must be of integers")
    outside = (array < -size) | (array >= size)
    if outside.any():
        raise IndexOutOfRangeError(f"index {array[outside].flat[0]} is out of range of axis {axis} of size {size}")
    array = array.astype(np.int64)
    return np.where(array < 0, array + size, array)


def _mask(shape: tuple[int, ...]) -> ArgumentError:
    return ArgumentError(
        f"the index is a mask, bool{list(shape)}: how many elements it picks is known only from its contents, and a program's memory is "
        "planned before; choose in place with ops.where(mask, x, 0), or give the integers of numpy.flatnonzero(mask)"
    )
