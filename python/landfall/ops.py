"""Every op of the engine: `ops.softmax(x, axis=-1, out=y)`.

Arguments are `landfall.Tensor`, numpy arrays, torch tensors and anything with `__dlpack__`; ops on each element by itself
take numbers too. Without `out` the result is a new tensor. With `out` it lands in that array's memory, and the array is
returned. An op that updates an argument writes it where it lies, and returns it.

Functions that are several ops (`argmax`, `log_softmax`, `one_hot`, `tile`, `normal`) are methods of `landfall.Value`: they exist
in a function that `landfall.compile` or `landfall.Trainer` traces.
"""

from ._landfall import _ops

_all = dict(_ops())
globals().update(_all)
__all__ = sorted(_all)
