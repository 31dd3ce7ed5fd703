"""Training of a loss that is written as a function.

def loss(batch, params):
    predicted = batch["x"] @ params["weight"] + params["bias"]
    return ((predicted - batch["y"]) ** 2).mean()

trainer = landfall.Trainer(loss, {"weight": w, "bias": b}, {"x": x, "y": y}, batch=32, epochs=10, lr=1e-3)
trainer.fit()
torch_module.load_state_dict(...)  # trainer.state_dict() has the parameters by name
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from numbers import Real
from typing import Any

from ._landfall import Tensor, Value, _training_options
from ._landfall import Trainer as _Trainer
from .errors import ArgumentError
from .graph import _described, _uncalled, device_of
from .keywords import to_json, whole
from .optim import Optimizer, apart, rates_of
from .parameters import Parameters
from .tracing import Traced, tracing

__all__ = ["Trainer"]

#: What comes after the last item of an iterable.
_END = object()


def _results(returned: Any) -> tuple[Any, dict[str, Value]]:
    """The loss that a function returned, and the values beside it by name."""
    if not (isinstance(returned, tuple) and len(returned) == 2 and isinstance(returned[1], Mapping)):
        return returned, {}
    for name, value in returned[1].items():
        if not isinstance(name, str) or not isinstance(value, Value):
            raise ArgumentError(
                f"beside the loss the function returned {value!r} by the name {name!r}; a name is a text, and what has it a value"
                f"{_uncalled(value)}"
            )
    return returned[0], dict(returned[1])


class Trainer:
    """Trains `params`, arrays by name, also in nested dictionaries, lists and tuples as of `landfall.compile`, to make `loss(batch, params)`
    small over samples of `data`, arrays by name with one row for each sample. They are copied: one array under two
    names is two parameters, and a loss that reads one name twice ties them. The function is called once, with dictionaries of values; it returns a scalar, or a scalar and a dictionary of
    values, which `kept` reads after a step.

    `buffers` are arrays by name that steps read and may assign, and that are not trained: the loss is then `loss(batch, params,
    buffers)`, and what it returns by the name of a buffer is written to that at the end of the step.

    The options are those of the program: batch, epochs, max_steps, lr, optimizer ("adam", "adamw", "sgd", "lion"), betas,
    weight_decay, clip, accumulate, average, dtype, seed, order, schedule. `optimizer` may be one of `landfall.optim`, which may be your
    own, and `schedule` a function of the step's number, from 0, that gives its learning rate. `groups` and `freeze` are as those
    of `landfall.optim.Minimiser`. The arrays are copied; nothing that was given is written.
    """

    def __init__(
        self,
        loss: Callable[..., Value | tuple[Value, Mapping[str, Value]]],
        params: Mapping[str, Any],
        data: Mapping[str, Any],
        *,
        buffers: Mapping[str, Any] | None = None,
        groups: Mapping[str, Mapping[str, float]] | None = None,
        freeze: Iterable[str] = (),
        device: str | None = None,
        **options: Any,
    ):
        buffers = {} if buffers is None else buffers
        optimizer, schedule = options.get("optimizer"), options.get("schedule")
        own = options.pop("optimizer")._native if isinstance(optimizer, Optimizer) else None
        if own is not None and "betas" in options:
            raise ArgumentError("betas are given beside an optimizer of landfall.optim, which has its own")
        rates = options.pop("schedule") if callable(schedule) else None
        if rates is not None and "lr" in options:
            raise ArgumentError("lr is given beside a schedule that is a function; its result is the learning rate")
        merged = json.loads(_training_options())
        unknown = sorted(set(options) - set(merged))
        if unknown:
            raise ArgumentError(f"a trainer has no option {unknown[0]!r}; it has {', '.join(sorted(merged))}")
        betas = options.get("betas")
        if isinstance(betas, (tuple, list)):
            if len(betas) != 2:
                raise ArgumentError(
                    f"betas are {betas!r}; there are two, the decay rates of the first and the second moment"
                )
            options["betas"] = {"first": betas[0], "second": betas[1]}
        merged.update(options)
        for name in ("batch", "accumulate", "epochs", "max_steps"):
            if name != "max_steps" or merged[name] is not None:
                whole(name, merged[name])
        for name, value in merged.items():
            for number in value.values() if isinstance(value, dict) else [value]:
                if isinstance(number, Real) and not math.isfinite(number):
                    raise ArgumentError(f"{name} is {number}; it must be finite")
        for what, arrays in (("params", params), ("data", data), ("buffers", buffers)):
            if not isinstance(arrays, Mapping):
                raise ArgumentError(
                    f"{what} is a {type(arrays).__qualname__}; it must be a dictionary of arrays by name"
                )
        parameters = Parameters(params, copied=True)
        for first, second, both in [
            ("a parameter", "data", parameters.arrays.keys() & data.keys()),
            ("a parameter", "a buffer", parameters.arrays.keys() & buffers.keys()),
            ("a buffer", "data", buffers.keys() & data.keys()),
        ]:
            if both:
                raise ArgumentError(f"{min(both)} is the name of {first} and of {second}; give one of them another name")
        if not data:
            raise ArgumentError(
                "data is empty; it has an array for each name that the loss reads, with one row for each sample"
            )
        calls, devices = Traced(), set()
        tracer = calls.trace
        rows = {}
        for name, given in data.items():
            dtype, shape, device_ = _described(name, given)
            devices.add(device_)
            if not shape:
                raise ArgumentError(f"data {name} has no axes; it has one row for each sample")
            rows[name] = (dtype, shape)
        count = min(shape[0] for _, shape in rows.values())
        batch = min(merged["batch"], count) // max(1, merged["accumulate"])
        values = {name: tracer.input(name, dtype, (batch, *shape[1:])) for name, (dtype, shape) in rows.items()}
        weights: dict[str, Value] = {}
        held: dict[str, Value] = {}
        for named, arrays in ((weights, parameters.arrays), (held, buffers)):
            for name, given in arrays.items():
                dtype, shape, device_ = _described(name, given)
                devices.add(device_)
                named[name] = tracer.input(name, dtype, shape)
        if not callable(loss):
            raise ArgumentError(f"loss is a {type(loss).__qualname__}; it must be a function of a batch and parameters")
        with tracing(calls):
            given = parameters.keywords(weights)
            returned = loss(values, given, held) if buffers else loss(values, given)
        if calls.arrays:
            raise ArgumentError(
                "an optimizer takes its step in the loss, whose parameters the trainer updates; call minimise in a function of landfall.compile"
            )
        scalar, beside = _results(returned)
        if not isinstance(scalar, Value) or scalar.ndim != 0:
            raise ArgumentError(
                f"the loss is {scalar!r}; it must be a value without axes, such as a mean{_uncalled(scalar)}"
            )
        self._trainer = _Trainer(
            tracer,
            (scalar, list(beside.items())),
            (parameters.arrays, dict(buffers)),
            dict(data),
            (to_json(merged), apart(groups, freeze), own),
            device_of(devices, device),
        )
        if rates is not None:
            self._trainer.schedule(rates_of(rates, self.steps))

    @property
    def steps(self) -> int:
        """Steps of the whole training."""
        return self._trainer.steps

    @property
    def position(self) -> int:
        """Steps done."""
        return self._trainer.position

    def step(self, count: int = 1) -> None:
        """Runs so many steps, and reads nothing back. A step whose loss or gradient is not finite changes nothing, the position
        included; `fit` raises then."""
        self._trainer.step(count)

    def records(self, first: int, last: int) -> list[dict[str, float]]:
        """What the steps numbered `first` to `last` report, of those that have run: step, loss, grad_norm and lr. The last 1,024 are
        kept."""
        return self._trainer.records(first, last)

    def kept(self, name: str) -> Tensor:
        """A copy of what the loss returned by this name of the last step; of micro-batches (`accumulate`) that of the last one."""
        return self._trainer.kept(name)

    def buffers(self) -> dict[str, Tensor]:
        """Copies of the buffers by name."""
        return self._trainer.buffers()

    def replace(self, data: Mapping[str, Any]) -> None:
        """Writes other samples over those that the trainer has: arrays of the same names, dtypes and shapes. Steps before it see the
        old samples, steps after it the new ones, and no step is compiled anew. Samples are no part of a file of `save`."""
        if not isinstance(data, Mapping):
            raise ArgumentError(f"data is a {type(data).__qualname__}; it must be a dictionary of arrays by name")
        self._trainer.replace(dict(data))

    def fit(
        self,
        report: Callable[[dict[str, float]], None] | None = None,
        every: int = 100,
        *,
        data: Iterable[Mapping[str, Any]] | None = None,
        steps: int | None = None,
    ) -> list[float]:
        """Runs the steps that are left; the loss of each. `report` is called with the record of every `every`-th step.

        With `data`, a generator or another iterable of dictionaries as `replace` takes them, each replaces the samples for `steps` steps,
        while a thread makes the next one. The training ends with its last step, or with the data. Items are taken on that thread one
        after another; a trainer of `load` that stands within an item's steps gives its first item those that are left.

        A step whose loss or gradient is not finite raises `NonFiniteError`, which names the first such value."""
        whole("every", every)
        if (data is None) != (steps is None):
            raise ArgumentError(
                "data and steps belong together: the iterable of samples, and the steps on each item of it"
            )
        if data is None or steps is None:
            return self._run(self.steps, report, every)
        whole("steps", steps)
        return self._stream(data, steps, report, every)

    def _run(self, end: int, report: Callable[[dict[str, float]], None] | None, every: int) -> list[float]:
        """Runs the steps before number `end`, from 0."""
        losses: list[float] = []
        done = self.position
        while done < end:
            count = min(every - done % every, end - done)
            self.step(count)
            records = self._trainer.since(done)
            losses += [record["loss"] for record in records]
            done += len(records)
            if report is not None and records and (done % every == 0 or done == self.steps):
                report(records[-1])
        return losses

    def _stream(
        self,
        data: Iterable[Mapping[str, Any]],
        steps: int,
        report: Callable[[dict[str, float]], None] | None,
        every: int,
    ) -> list[float]:
        """Runs the steps that are left, so many on each item of the data."""
        if not isinstance(data, Iterable):
            raise ArgumentError(
                f"data is a {type(data).__qualname__}; it must be a generator, or another iterable, of dictionaries of arrays"
            )
        items, losses, made = iter(data), list[float](), None
        with ThreadPoolExecutor(1, "data") as thread:
            while self.position < self.steps:
                item: Any = (made or thread.submit(next, items, _END)).result()
                if item is _END and made is None:
                    raise ArgumentError("data has no item; it must give a dictionary of arrays for each so many steps")
                if item is _END:
                    break
                end = min((self.position // steps + 1) * steps, self.steps)
                self.replace(item)
                if end < self.steps:
                    made = thread.submit(next, items, _END)
                losses += self._run(end, report, every)
        return losses

    def state_dict(self, average: bool = False) -> dict[str, Tensor]:
        """Copies of the parameters by name; with `average` of their moving average, which the option `average` keeps."""
        return self._trainer.state_dict(average)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Sets all parameters from arrays by name. Their moving average begins anew; the optimizer's moments stay as they are."""
        self._trainer.load_state_dict(dict(state))

    def save(self, path: Any) -> None:
        """Writes all that steps change, the parameters among it, to a safetensors file."""
        self._trainer.save(path)

    def load(self, path: Any) -> None:
        """Goes on from a file of `save`."""
        self._trainer.load(path)
