"""The function that is being traced: what calls without a value of it find it by."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from ._landfall import Tensor, Trace, Value
from .errors import ArgumentError

__all__ = ["Traced", "traced", "tracing"]


class Traced:
    """A function while it is traced: its calls, and arrays beside its arguments that it reads and writes where they lie."""

    def __init__(self) -> None:
        self.trace = Trace()
        #: The arrays, by name.
        self.arrays: dict[str, Tensor] = {}
        self._owners: list[object] = []

    def place(self, owner: object, kind: str) -> str:
        """What the names of an owner's arrays begin with. An owner has its place once."""
        if any(owner is other for other in self._owners):
            raise ArgumentError(
                f"the {kind} took its step in this function already; it takes one for each call of the function"
            )
        self._owners.append(owner)
        return f"{kind}{len(self._owners) - 1}"

    def array(self, name: str, array: Tensor) -> Value:
        """The value of an array, by a name that no input has."""
        self.arrays[name] = array
        return self.trace.input(name, array.dtype, array.shape)


#: The function that is traced now.
_TRACED: ContextVar[Traced | None] = ContextVar("traced", default=None)


@contextmanager
def tracing(function: Traced) -> Iterator[None]:
    """While a function is called whose calls are recorded."""
    outer = _TRACED.set(function)
    try:
        yield
    finally:
        _TRACED.reset(outer)


def traced(refused: str) -> Traced:
    """The function that calls this while it is traced; outside of one an error says what is `refused`."""
    function = _TRACED.get()
    if function is None:
        raise ArgumentError(refused)
    return function
