"""Parameters of a function: arrays by name, nested as the function takes them, and each of them once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import nested
from ._landfall import Tensor, Value, from_dlpack
from .errors import ArgumentError

__all__ = ["Parameters"]


class Parameters:
    """Arrays that a function takes by keyword, in nested dictionaries, lists and tuples."""

    #: The arrays by dotted name, each memory once.
    arrays: dict[str, Any]
    #: Other names of an array, and the name that it has in `arrays`: weights that two layers share.
    tied: dict[str, str]

    def __init__(self, params: Mapping[str, Any] | None, copied: bool = False):
        if params is not None and not isinstance(params, Mapping):
            raise ArgumentError(f"params is a {type(params).__qualname__}; it must be a dictionary of arrays by name")
        self._nested = dict(params or {})
        self.arrays, self.tied = {}, {}
        seen: dict[Any, str] = {}
        for name, given in nested.flatten(self._nested).items():
            # Copies of one array are two.
            first = name if copied else seen.setdefault(_memory(given), name)
            if first == name:
                self.arrays[name] = given
            else:
                self.tied[name] = first

    @property
    def names(self) -> set[str]:
        """The keywords by which the function takes them."""
        return set(self._nested)

    def keywords(self, values: Mapping[str, Value]) -> dict[str, Any]:
        """What the function takes, with values in place of arrays: of an array of two names the same value under both."""
        named = {**values, **{name: values[first] for name, first in self.tied.items()}}
        return nested.unflatten(named, like=self._nested)


def _memory(given: Any) -> Any:
    """What two arrays have in common that are one."""
    array = given if isinstance(given, Tensor) else from_dlpack(given)
    # Arrays without elements have no memory.
    return (array.data_ptr, array.dtype, array.shape, array.strides, array.device) if array.size else object()
