"""Landfall's programs as ops of torch.

    swiglu = landfall.torch.op("mine::swiglu", lambda x, gate: x * gate * gate.sigmoid(), x, gate)
    y = swiglu(x, gate)         # on torch's current stream; its gradient is a program too

The op is one of `torch.library`: it goes through `torch.compile` and `torch.export`, and has a gradient for each argument of
a float dtype. On a GPU a program is one CUDA graph. While torch captures a CUDA graph, the program becomes a part of that
graph, and the memory of its intermediate values, its arena, stays the program's: an op keeps each program that was captured as
long as the process lives, so a captured graph may be replayed at any time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .. import graph
from .._landfall import Tensor
from ..errors import ArgumentError
from ..functions import Function

__all__ = ["op", "state_dict"]


def _spec(tensor: torch.Tensor) -> tuple[str, tuple[int, ...]]:
    # Sizes that a compiler leaves open are fixed here: a program has one shape.
    return str(tensor.dtype).removeprefix("torch."), tuple(int(size) for size in tensor.shape)


class _Programs:
    """The programs of a function that torch's tensors are given to."""

    def __init__(self, function: Callable, limit: int | None):
        self._function = Function(function, limit=limit)
        #: Programs that a CUDA graph of torch's has in it: their memory is the graph's as long as it is replayed.
        self._captured: set[graph.Program] = set()

    def outputs(self, args: tuple[torch.Tensor, ...]) -> list[tuple[torch.dtype, tuple[int, ...]]]:
        """Dtype and shape of each result for such arguments, without a program."""
        specs = (tuple(_spec(arg) for arg in args), ())
        if self._function.draws(specs):
            raise ArgumentError(
                "the function draws random numbers, and its gradients, a program of their own, would draw others; draw them with torch, "
                "and pass them as an argument"
            )
        return [(getattr(torch, dtype), shape) for dtype, shape in self._function.results(specs)]

    def __call__(self, args: tuple[torch.Tensor, ...]) -> list[torch.Tensor]:
        device = args[0].device
        name = "cpu" if device.type == "cpu" else f"{device.type}:{device.index or 0}"
        program = self._function.compiled((tuple(_spec(arg) for arg in args), ()), name)
        if device.type == "cuda" and torch.cuda.is_current_stream_capturing():
            self._captured.add(program)
        out = [
            torch.empty(shape, dtype=getattr(torch, dtype), device=device) for dtype, shape in program.outputs.values()
        ]
        program(*(arg.detach() for arg in args), out=tuple(out))
        return out


def _backward(function: Callable, differentiable: list[int], floats: list[int]) -> Callable:
    """The function of the gradients: arguments, then a cotangent for each result of a float dtype."""

    def backward(*args: Any) -> Any:
        args, cotangents = args[: -len(floats)], args[-len(floats) :]
        outputs, _ = graph.results(function(*args))
        # The terms are of the results' dtypes, which may differ; only their gradients are computed.
        terms = [(outputs[i][1] * cotangent).sum().cast("float32") for i, cotangent in zip(floats, cotangents)]
        total = terms[0]
        for term in terms[1:]:
            total = total + term
        return total.gradients([args[i] for i in differentiable], allow_unused=True)

    return backward


def _registered(name: str, programs: _Programs, names: list[str], results: int) -> Any:
    """A custom op of torch that runs programs."""
    declared = ", ".join(f"Tensor {argument}" for argument in names)
    returned = "Tensor" if results == 1 else f"({', '.join(['Tensor'] * results)})"

    def run(*args: torch.Tensor) -> Any:
        out = programs(args)
        return out[0] if results == 1 else tuple(out)

    def fake(*args: torch.Tensor) -> Any:
        out = [args[0].new_empty(shape, dtype=dtype) for dtype, shape in programs.outputs(args)]
        return out[0] if results == 1 else tuple(out)

    made = torch.library.custom_op(name, run, mutates_args=(), schema=f"({declared}) -> {returned}")
    made.register_fake(fake)
    return made


def op(name: str, function: Callable, *example: torch.Tensor, limit: int | None = 64) -> Callable:
    """Registers a function as the op `name`, such as "mine::gelu". `example` are arguments of it: how many there are, and
    which are of a float dtype and get gradients, is taken from them; shapes may differ from call to call, and `limit` programs, one for each,
    are kept, and those that a CUDA graph has captured.

    Results may be of several dtypes. Gradients are those of the results of a float dtype; the others are not differentiable. An
    argument of a float dtype that no such result depends on has a gradient of zeros, one of integers or truth values has none."""
    if not example:
        raise ArgumentError(f"{name}: give an example of each argument, such as op({name!r}, function, x)")
    for place, arg in enumerate(example):
        if not isinstance(arg, torch.Tensor):
            raise ArgumentError(
                f"{name}: example {place} is {arg!r}; it must be a tensor of torch, of which dtype and number of axes count"
            )
    programs = _Programs(function, limit)
    outputs = programs.outputs(example)
    names = graph._parameters(function, len(example), {})
    forward = _registered(name, programs, names, len(outputs))
    differentiable = [i for i, arg in enumerate(example) if arg.dtype.is_floating_point]
    floats = [i for i, (dtype, _) in enumerate(outputs) if dtype.is_floating_point]
    if not differentiable or not floats:
        return forward
    gradients = _registered(
        f"{name}_backward",
        _Programs(_backward(function, differentiable, floats), limit),
        names + graph._free("cotangent", len(floats), names),
        len(differentiable),
    )

    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)
        results = output if isinstance(output, tuple) else (output,)
        ctx.results = [(tuple(results[i].shape), results[i].dtype, results[i].device) for i in floats]

    def backward(ctx: Any, *cotangents: Any) -> Any:
        args = ctx.saved_tensors
        given = [
            torch.zeros(shape, dtype=dtype, device=device) if cotangents[i] is None else cotangents[i].contiguous()
            for i, (shape, dtype, device) in zip(floats, ctx.results)
        ]
        found = gradients(*args, *given)
        found = found if isinstance(found, (tuple, list)) else (found,)
        result: list[Any] = [None] * len(args)
        for i, gradient in zip(differentiable, found):
            result[i] = gradient
        return tuple(result)

    forward.register_autograd(backward, setup_context=setup_context)
    return forward


def state_dict(tensors: dict[str, Tensor]) -> dict[str, torch.Tensor]:
    """Tensors by name as torch's, in the same memory: what `Trainer.state_dict()` and `landfall.load` give, for
    `module.load_state_dict`."""
    return {name: torch.from_dlpack(tensor) for name, tensor in tensors.items()}
