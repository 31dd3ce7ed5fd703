"""Landfall: a tensor engine in which every result lands in the memory you gave it."""

import os as _os
from typing import Any as _Any

from . import errors, nested, ops, optim
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
from .attention import scaled_dot_product_attention
from .draws import checkpoint, normal, uniform
from .errors import *  # noqa: F403
from .forecaster import Forecaster
from .functions import Buckets, Function, jit
from .graph import Program, Spec, Value, compile, spec
from .notices import BaselineWarning, DataWarning
from .train import Trainer

__all__ = [
    "BaselineWarning",
    "Buckets",
    "DataWarning",
    "Forecaster",
    "Function",
    "Program",
    "Spec",
    "Tensor",
    "Trainer",
    "Value",
    "checkpoint",
    "compile",
    "counters",
    "empty",
    "errors",
    "from_dlpack",
    "from_numpy",
    "jit",
    "load",
    "nested",
    "normal",
    "ops",
    "optim",
    "save",
    "scaled_dot_product_attention",
    "spec",
    "synchronize",
    "tensor",
    "uniform",
    "zeros",
]
__all__ += errors.__all__


def __getattr__(name: str) -> _Any:
    if name == "__version__":
        from importlib import metadata

        return metadata.version("landfall-ml")
    from .names import elsewhere

    raise AttributeError(f"module 'landfall' has no attribute {name!r}{elsewhere(name)}")


# A fork copies an engine without its threads: a child makes its own.
if hasattr(_os, "register_at_fork"):
    _os.register_at_fork(after_in_child=_forget_engines)
