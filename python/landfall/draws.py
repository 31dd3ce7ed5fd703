"""Random numbers of a traced function, and blocks of it that are computed again for their gradients.

def sample(mean, deviation):
    return mean + deviation * landfall.normal(mean.shape)

program = landfall.compile(sample, mean, deviation)
program.seed(7)      # each call draws other numbers, and from a seed on the same ones
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ._landfall import Trace, Value
from .tracing import traced

__all__ = ["checkpoint", "normal", "uniform"]

def _trace(name: str) -> Trace:
    """The trace of the function that calls."""
    refused = f"{name} belongs in a function that landfall.compile or landfall.Trainer traces; outside of one, draw with numpy or torch"
    return traced(refused).trace


def normal(shape: int | Sequence[int], dtype: Any = "float32") -> Value:
    """Normal random numbers with mean 0 and variance 1, others at each run of a program and at each step of a training. No gradient
    flows into them."""
    return _trace("normal").draw(dtype, shape, None)


def uniform(shape: int | Sequence[int], low: float = 0.0, high: float = 1.0, dtype: Any = "float32") -> Value:
    """Uniform random numbers from `low` to `high`, others at each run of a program and at each step of a training."""
    return _trace("uniform").draw(dtype, shape, (low, high))


def checkpoint(function: Callable, /, *args: Any, **named: Any) -> Any:
    """What `function` gives of these values, of which nothing that it computes for itself alone is kept for its gradients: that is
    computed again just before them, with the same random numbers. It takes less memory and more time; gradients are the same bytes.
    A checkpoint within another is a part of it."""
    trace = _trace("checkpoint")
    begins = trace.begin_block()
    try:
        return function(*args, **named)
    finally:
        if begins:
            trace.end_block()
