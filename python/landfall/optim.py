"""Optimizers for any traced function.

def step(x, y, **weights):
    loss = ((x @ weights["weight"] + weights["bias"] - y) ** 2).mean()
    adam.minimise(loss, weights)
    return loss

adam = landfall.optim.Minimiser(weights, landfall.optim.Adam(), lr=1e-3)
program = landfall.compile(step, x, y, params=weights)
loss = program(x, y)      # forward pass, gradients and update: one program, which writes the weights where they lie
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from . import nested, ops
from ._landfall import Minimiser as _Minimiser
from ._landfall import Optimizer as _Optimizer
from ._landfall import Tensor, Trace, Value, _rates, tensor, zeros
from .errors import ArgumentError, AttributeValueError, DTypeError, ShapeError
from .graph import _described, _uncalled, device_of
from .keywords import whole
from .parameters import Parameters
from .tracing import traced

__all__ = ["Adam", "AdamW", "Lion", "Minimiser", "Optimizer", "Sgd", "Update"]

#: The dtypes in which moments of 16-bit parameters are kept; others keep theirs.
_WIDE = {"float16": "float32", "bfloat16": "float32"}


@dataclass(frozen=True)
class Update:
    """What a function of an optimizer of your own is given, as values: parameters of any number in one dimension, and what belongs
    to them."""

    #: The parameters, `[n]`.
    parameter: Value
    #: Their gradients, clipped.
    gradient: Value
    #: What is kept for each, zeros at first: of float32 where the parameters have 16 bits.
    moments: tuple[Value, ...]
    #: The learning rate, a scalar.
    rate: Value
    #: The number of the step, from 1, a scalar.
    step: Value
    #: Their weight decay, a scalar: 0 for those that do not decay.
    weight_decay: Value


class Optimizer:
    """An optimizer that is a function of an `Update`, written as for `compile`. It returns the new parameters; with `moments`, 1 or 2
    values that are kept for each parameter, a tuple of the new parameters and the new moments. Parameters come in parts of any
    size, so what happens to one must not depend on others.

    def heavy_ball(u):
        velocity = 0.9 * u.moments[0] + u.gradient
        return u.parameter - u.rate * velocity, velocity

    optimizer = landfall.optim.Optimizer(heavy_ball, moments=1)
    """

    #: Names of the moments in a `state_dict`.
    names: tuple[str, ...]

    def __init__(self, function: Callable[[Update], Value | tuple[Value, ...]], moments: int = 0):
        if not callable(function):
            raise ArgumentError(f"function is a {type(function).__qualname__}; it must be a function of an Update")
        if moments:
            whole("moments", moments)
        self._function = function
        self.names = tuple(f"moment{number}" for number in range(moments))
        self._native = _Optimizer.own(self._trace, moments)

    def _trace(self, tracer: Trace, dtype: str, elements: int) -> list[Value]:
        """Calls the function with parameters of this number; the values that it returned."""
        wide = _WIDE.get(dtype, dtype)

        def scalar(name: str) -> Value:
            return tracer.input(name, dtype, ())

        moments = tuple(tracer.input(name, wide, (elements,)) for name in self.names)
        update = Update(
            tracer.input("parameter", dtype, (elements,)),
            tracer.input("gradient", dtype, (elements,)),
            moments,
            scalar("rate"),
            scalar("step"),
            scalar("weight_decay"),
        )
        returned = self._function(update)
        values = list(returned) if isinstance(returned, (tuple, list)) else [returned]
        wanted = [("parameters", dtype), *((name, wide) for name in self.names)]
        if len(values) != len(wanted):
            raise ArgumentError(
                f"the optimizer's function returned {len(values)} values; it must return {len(wanted)}: the new parameters"
                f"{' and the new moments' if moments else ''}"
            )
        for (name, kind), value in zip(wanted, values):
            if not isinstance(value, Value):
                raise ArgumentError(f"the new {name} are {value!r}; they must be a value{_uncalled(value)}")
            if value.shape != (elements,):
                raise ShapeError(f"the new {name} have the shape {list(value.shape)}; it must be [{elements}]")
            if value.dtype != kind:
                raise DTypeError(f"the new {name} are {value.dtype}; they must be {kind}")
        return values


class _Named(Optimizer):
    """An optimizer of the library."""

    def __init__(self, native: _Optimizer, *names: str):
        self._native, self.names = native, names


class Adam(_Named):
    """Adam (Kingma & Ba 2015); weight decay is added to the gradient, as `torch.optim.Adam`."""

    def __init__(self, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8):
        super().__init__(_Optimizer.adam(_pair(betas), eps, False), "exp_avg", "exp_avg_sq")


class AdamW(_Named):
    """Adam with decoupled weight decay, which shrinks the parameters (Loshchilov & Hutter 2019), as `torch.optim.AdamW`."""

    def __init__(self, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8):
        super().__init__(_Optimizer.adam(_pair(betas), eps, True), "exp_avg", "exp_avg_sq")


class Sgd(_Named):
    """Gradient descent with momentum, as `torch.optim.SGD` without dampening."""

    def __init__(self, momentum: float = 0.0, nesterov: bool = False):
        super().__init__(_Optimizer.sgd(momentum, nesterov), *(["momentum_buffer"] if momentum else []))


class Lion(_Named):
    """Lion (Chen et al. 2023): `p ← p − lr · (sign(β₁·m + (1 − β₁)·g) + weight decay · p)`, then `m ← β₂·m + (1 − β₂)·g`."""

    def __init__(self, betas: tuple[float, float] = (0.9, 0.99)):
        super().__init__(_Optimizer.lion(_pair(betas)), "exp_avg")


def _pair(betas: Any) -> tuple[float, float]:
    """The decay rates of both moments."""
    if not isinstance(betas, (tuple, list)) or len(betas) != 2:
        raise ArgumentError(f"betas are {betas!r}; there are two, the decay rates of the first and the second moment")
    first, second = betas
    return first, second


def apart(groups: Any, freeze: Any) -> tuple[list[tuple[str, float, float | None]], list[str]]:
    """Groups and frozen names as the compiled part takes them."""
    if isinstance(freeze, str) or not isinstance(freeze, Iterable):
        raise ArgumentError(f'freeze is {freeze!r}; it must be a list of names, such as ["head."]')
    names = list(freeze)
    listed = []
    if not isinstance(groups or {}, Mapping):
        raise ArgumentError(
            f"groups is a {type(groups).__qualname__}; it must be a dictionary of a dictionary for each name"
        )
    for name, options in (groups or {}).items():
        if not isinstance(options, Mapping) or not options.keys() <= {"lr_factor", "weight_decay"}:
            raise ArgumentError(
                f"group {name} is {options!r}; it must be a dictionary of lr_factor, which multiplies the learning rate, "
                "and weight_decay"
            )
        listed.append((name, options.get("lr_factor", 1.0), options.get("weight_decay")))
    for name in [*names, *(name for name, _, _ in listed)]:
        if not isinstance(name, str):
            raise ArgumentError(f"{name!r} is a {type(name).__qualname__}; parameters have texts as names")
    return listed, names


def rates_of(function: Callable[[int], float], steps: int) -> list[float]:
    """The rate of each step by a function of its number, from 0."""
    rates = [function(step) for step in range(steps)]
    for step, rate in enumerate(rates):
        if not isinstance(rate, Real) or not math.isfinite(rate) or rate < 0:
            raise AttributeValueError(
                f"schedule gave {rate!r} for step {step}; a learning rate must be a number, finite and at least 0"
            )
    return [float(rate) for rate in rates]


class Minimiser:
    """Updates parameters, arrays by name, by an optimizer, in any function that `compile` traces. They may be nested, as there.

    What the optimizer keeps lies in memory of the device, and is named by `state_dict`. The parameters stay the caller's: a program that
    was compiled with `params=` writes them where they lie, and several may read and write them, each with a minimiser of its own or
    with the same.

    - `lr`: the learning rate; `minimiser.lr = 1e-4` sets another one between steps.
    - `weight_decay`: of arrays with two axes or more; biases and norms decay where their group has a weight decay.
    - `groups`: `{"head.": {"lr_factor": 10.0, "weight_decay": 0.1}}`, for the parameters under dotted names.
    - `freeze`: names under which parameters stay as they are: "head" or "head." is head.weight, and not multihead.weight.
    - `clip`: the largest norm of all gradients.
    - `schedule`: the learning rate of each of `steps` steps, of which the last one stays: a function of the step's number from 0, or
      "cosine", "one-cycle", "constant", which begin with `lr`.

    A step whose loss or gradients are not finite changes nothing, its number included.
    """

    def __init__(
        self,
        params: Mapping[str, Any],
        optimizer: Optimizer,
        *,
        lr: float | None = None,
        weight_decay: float = 0.0,
        groups: Mapping[str, Mapping[str, float]] | None = None,
        freeze: Iterable[str] = (),
        clip: float | None = None,
        schedule: str | Callable[[int], float] | None = None,
        steps: int | None = None,
        device: str | None = None,
    ):
        if not isinstance(params, Mapping) or not params:
            raise ArgumentError(f"params is {params!r}; it must be a dictionary of arrays by name")
        if not isinstance(optimizer, Optimizer):
            raise ArgumentError(
                f"optimizer is {optimizer!r}; it must be one of landfall.optim, such as landfall.optim.Adam()"
            )
        described = {name: _described(name, given) for name, given in Parameters(params).arrays.items()}
        self._specs = {name: (dtype, tuple(shape)) for name, (dtype, shape, _) in described.items()}
        dtypes = sorted({str(dtype) for dtype, _ in self._specs.values()})
        if len(dtypes) > 1 or "float" not in dtypes[0]:
            raise DTypeError(
                f"the parameters are {' and '.join(dtypes)}; those of one minimiser are of one float dtype"
            )
        self._device = device_of({of for _, _, of in described.values()}, device)
        self.optimizer = optimizer
        self._native = _Minimiser(
            optimizer._native,
            [(name, list(shape)) for name, (_, shape) in self._specs.items()],
            apart(groups, freeze),
            weight_decay,
            clip,
        )
        self._moments = {
            f"{moment}.{name}": zeros(self._specs[name][1], _WIDE.get(dtypes[0], dtypes[0]), self._device)
            for name in self._native.trainable
            for moment in optimizer.names
        }
        self._cursor = zeros((8,), "int64", self._device)
        self._is_scheduled = schedule is not None
        self._rates = self._copied(np.array(self._scheduled(lr, schedule, steps)))

    def _copied(self, array: np.ndarray) -> Tensor:
        return tensor(array, device=self._device)

    @staticmethod
    def _scheduled(lr: Any, schedule: Any, steps: Any) -> list[float]:
        """The learning rate of each step."""
        if (schedule is None) != (steps is None):
            raise ArgumentError(
                "schedule and steps belong together: the learning rates, and of how many steps they are"
            )
        if steps is not None:
            whole("steps", steps)
        if callable(schedule):
            if lr is not None:
                raise ArgumentError("lr is given beside a schedule that is a function; its result is the learning rate")
            return rates_of(schedule, steps)
        if lr is None:
            raise ArgumentError("lr is missing; it is the learning rate, such as 1e-3")
        (lr,) = rates_of(lambda _: lr, 1)
        return [lr] if schedule is None else _rates(schedule, lr, steps, steps)

    def minimise(self, loss: Value, params: Mapping[str, Any]) -> Value:
        """Appends gradients and update to the function that is traced, of its values of the parameters, by name; others among
        them stay as they are. The norm of the gradients, a value.

        Values that the function computes of the parameters, before or after, are of the parameters before the update."""
        if not isinstance(loss, Value) or loss.ndim != 0:
            raise ArgumentError(
                f"the loss is {loss!r}; it must be a value without axes, such as a mean{_uncalled(loss)}"
            )
        names, values = self._native.trainable, nested.flatten(params)
        for name in names:
            given = values.get(name)
            if not isinstance(given, Value):
                raise ArgumentError(
                    f"parameter {name} is {given!r}; it must be a value of the function, one of params="
                )
            dtype, shape = self._specs[name]
            if (given.dtype, given.shape) != (str(dtype), shape):
                raise ShapeError(
                    f"parameter {name} is {given.dtype}{list(given.shape)}; the minimiser was made for {dtype}{list(shape)}"
                )
        function = traced("an optimizer takes its step in a function that landfall.compile traces; call minimise there")
        place = function.place(self, "optimizer")
        cursor = function.array(f"{place}.cursor", self._cursor)
        lr = ops.lookup(function.array(f"{place}.rates", self._rates), cursor)  # type: ignore[call-overload]  # stubs of ops know arrays alone
        moments = [
            [
                function.array(f"{place}.{moment}.{name}", self._moments[f"{moment}.{name}"])
                for moment in self.optimizer.names
            ]
            for name in names
        ]
        norm, _ = self._native.minimise(loss, lr, cursor, [values[name] for name in names], moments)
        return norm

    @property
    def lr(self) -> float:
        """The learning rate of the next step."""
        rates = tensor(self._rates, device="cpu").numpy()
        return float(rates[min(self.position, len(rates) - 1)])

    @lr.setter
    def lr(self, rate: float) -> None:
        if self._is_scheduled:
            raise ArgumentError("the learning rate follows a schedule; leave that out to set it by hand")
        self._write(self._rates, np.array(rates_of(lambda _: rate, 1)))

    @property
    def position(self) -> int:
        """Steps done."""
        return int(self._counted()[0])

    def _counted(self) -> np.ndarray:
        """A copy of the cursor."""
        return tensor(self._cursor, device="cpu").numpy()

    def _write(self, to: Tensor, array: Any) -> None:
        ops.copy(self._copied(array), out=to)

    def state_dict(self) -> dict[str, Tensor]:
        """Copies of what is kept, by names as those of PyTorch: `step`, `exp_avg.weight`, `exp_avg_sq.weight`, `momentum_buffer.weight`; `lf.save`
        writes them to a file."""
        state = {name: tensor(kept) for name, kept in self._moments.items()}
        return {"step": self._copied(self._counted()[:1]), **state}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from a `state_dict`, of the same parameters and optimizer; all of it is checked before anything is written."""
        shapes = {"step": (1,), **{name: kept.shape for name, kept in self._moments.items()}}
        if missing := [name for name in shapes if name not in state]:
            raise ArgumentError(f"{missing[0]} is missing; nothing was changed")
        if unknown := [name for name in state if name not in shapes]:
            raise ArgumentError(f"{unknown[0]} is nothing that this optimizer keeps; nothing was changed")
        kinds = {"step": "int64", **{name: kept.dtype for name, kept in self._moments.items()}}
        given = {name: tensor(array, kinds[name], "cpu") for name, array in state.items()}
        for name, array in given.items():
            if array.shape != shapes[name]:
                raise ShapeError(f"{name} is {list(array.shape)}; it must be {list(shapes[name])}; nothing was changed")
        cursor = self._counted()
        cursor[:1] = given.pop("step").numpy()
        self._write(self._cursor, cursor)
        for name, array in given.items():
            self._write(self._moments[name], array)
