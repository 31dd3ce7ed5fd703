"""Landfall: a tensor engine in which every result lands in the memory you gave it."""

import os as _os

from . import errors, ops
from ._landfall import (
    Tensor,
    _forget_engines,
    counters,
    empty,
    from_dlpack,
    from_numpy,
    load,
    save,
    synchronize,
    tensor,
    zeros,
)
from .graph import Program, Spec, Value, compile, spec
from .train import Trainer
from .errors import (
    AliasError,
    ArgumentError,
    AttributeValueError,
    DeviceError,
    DTypeError,
    Error,
    ExchangeError,
    IndexOutOfRangeError,
    OutOfMemoryError,
    ReadOnlyError,
    ShapeError,
)

__all__ = [
    "AliasError",
    "ArgumentError",
    "AttributeValueError",
    "DTypeError",
    "DeviceError",
    "Error",
    "ExchangeError",
    "IndexOutOfRangeError",
    "OutOfMemoryError",
    "Program",
    "ReadOnlyError",
    "ShapeError",
    "Spec",
    "Tensor",
    "Trainer",
    "Value",
    "compile",
    "counters",
    "empty",
    "errors",
    "from_dlpack",
    "from_numpy",
    "load",
    "ops",
    "save",
    "spec",
    "synchronize",
    "tensor",
    "zeros",
]

# A fork copies an engine without its threads: a child makes its own.
if hasattr(_os, "register_at_fork"):
    _os.register_at_fork(after_in_child=_forget_engines)
