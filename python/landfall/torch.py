"""Landfall's programs as ops of torch.

    swiglu = landfall.torch.op("mine::swiglu", lambda x, gate: x * gate * gate.sigmoid(), x, gate)
    y = swiglu(x, gate)         # on torch's current stream; its gradient is a program too

The op is one of `torch.library`: it goes through `torch.compile` and `torch.export`, and has a gradient for each argument of
a float dtype. On a GPU a program is one CUDA graph. While torch captures a CUDA graph, the program becomes a part of that
graph, and the memory of its intermediate values, its arena, stays the program's: an op keeps its programs as long as the
process lives, so a captured graph may be replayed at any time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from . import graph
from ._landfall import Tensor
from .errors import ArgumentError

__all__ = ["op", "state_dict"]


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _spec(tensor: torch.Tensor) -> tuple[tuple[int, ...], str]:
    return tuple(tensor.shape), _name(tensor.dtype)


class _Programs:
    """The programs of a function, one for each combination of shapes, dtypes and device that it was called with."""

    def __init__(self, function: Callable):
        self._function = function
        self._made: dict[Any, graph.Program] = {}
        self._traced: dict[Any, list[tuple[str, tuple[int, ...]]]] = {}

    def outputs(self, specs: tuple) -> list[tuple[str, tuple[int, ...]]]:
        """Dtype and shape of each result for such arguments, without a program."""
        if specs not in self._traced:
            args = tuple(graph.Spec(shape, dtype) for shape, dtype in specs)
            trace, returned, _, _ = graph.trace(self._function, args, {})
            if trace.draws:
                raise ArgumentError(
                    "the function draws random numbers, and its gradients, a program of their own, would draw others; draw them with torch, "
                    "and pass them as an argument"
                )
            outputs, _ = graph._outputs(returned)
            self._traced[specs] = [(value.dtype, tuple(value.shape)) for _, value in outputs]
        return self._traced[specs]

    def __call__(self, args: tuple[torch.Tensor, ...]) -> list[torch.Tensor]:
        specs = tuple(_spec(arg) for arg in args)
        device = args[0].device
        key = (specs, device)
        if key not in self._made:
            name = "cpu" if device.type == "cpu" else f"{device.type}:{device.index or 0}"
            shapes = (graph.Spec(shape, dtype) for shape, dtype in specs)
            self._made[key] = graph.compile(self._function, *shapes, device=name)
        program = self._made[key]
        out = [torch.empty(shape, dtype=getattr(torch, dtype), device=device) for dtype, shape in self.outputs(specs)]
        program(*(arg.detach() for arg in args), out=tuple(out))
        return out


def _backward(function: Callable, differentiable: list[int], count: int) -> Callable:
    """The function of the gradients: arguments, then a cotangent for each of `count` results."""

    def backward(*args):
        args, cotangents = args[:-count], args[-count:]
        outputs, _ = graph._outputs(function(*args))
        terms = [(value * cotangent).sum() for (_, value), cotangent in zip(outputs, cotangents)]
        total = terms[0]
        for term in terms[1:]:
            total = total + term
        return total.gradients([args[i] for i in differentiable])

    return backward


def op(name: str, function: Callable, *example: torch.Tensor) -> Callable:
    """Registers a function as the op `name`, such as "mine::gelu". `example` are arguments of it: how many there are, and
    which are of a float dtype and get gradients, is taken from them; shapes may differ from call to call."""
    if not example:
        raise ArgumentError(f"{name}: give an example of each argument, such as op({name!r}, function, x)")
    programs = _Programs(function)
    specs = tuple(_spec(arg) for arg in example)
    count = len(programs.outputs(specs))
    names = graph._parameters(function, len(example), {})
    differentiable = [i for i, arg in enumerate(example) if arg.dtype.is_floating_point]
    backwards = _Programs(_backward(function, differentiable, count))

    def registered(name: str, programs: _Programs, names: list[str], results: int):
        declared = ", ".join(f"Tensor {argument}" for argument in names)
        returned = "Tensor" if results == 1 else f"({', '.join(['Tensor'] * results)})"

        def run(*args):
            out = programs(args)
            return out[0] if results == 1 else tuple(out)

        def fake(*args):
            # Sizes that a compiler leaves open are fixed here: a program has one shape.
            specs = tuple((tuple(int(d) for d in arg.shape), _name(arg.dtype)) for arg in args)
            out = [args[0].new_empty(shape, dtype=getattr(torch, dtype)) for dtype, shape in programs.outputs(specs)]
            return out[0] if results == 1 else tuple(out)

        made = torch.library.custom_op(name, run, mutates_args=(), schema=f"({declared}) -> {returned}")
        made.register_fake(fake)
        return made

    forward = registered(name, programs, names, count)
    gradients = registered(
        f"{name}_backward", backwards, names + graph._free("cotangent", count, names), len(differentiable)
    )

    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        results = output if isinstance(output, tuple) else (output,)
        ctx.results = [(tuple(r.shape), r.dtype, r.device) for r in results]

    def backward(ctx, *cotangents):
        args = ctx.saved_tensors
        given = [
            torch.zeros(shape, dtype=dtype, device=device) if g is None else g.contiguous()
            for g, (shape, dtype, device) in zip(cotangents, ctx.results)
        ]
        found = gradients(*args, *given)
        found = found if isinstance(found, (tuple, list)) else (found,)
        result = [None] * len(args)
        for i, gradient in zip(differentiable, found):
            result[i] = gradient
        return tuple(result)

    if differentiable:
        forward.register_autograd(backward, setup_context=setup_context)
    return forward


def state_dict(tensors: dict[str, Tensor]) -> dict[str, torch.Tensor]:
    """Tensors by name as torch's, in the same memory: what `Trainer.state_dict()` and `landfall.load` give, for
    `module.load_state_dict`."""
    return {name: torch.from_dlpack(tensor) for name, tensor in tensors.items()}
