"""Functions as programs: traced once, their memory planned and checked, run without allocation.

    def predict(x, weight, bias):
        return (x @ weight + bias).softmax(axis=-1)

    program = landfall.compile(predict, x, params={"weight": weight, "bias": bias})
    y = program(x)

A function is called once, with values in place of arrays: a value has a dtype, a shape and methods, and no contents. What
it returns, a value, a tuple or a dictionary of values, are the program's outputs.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Collection, Container, Iterable, Mapping
from itertools import count as counter
from itertools import islice
from typing import Any

from ._landfall import Program as _Program
from ._landfall import Tensor, Trace, Value, _compile, from_dlpack, tensor
from .errors import ArgumentError, DTypeError, ShapeError
from .parameters import Parameters
from .tracing import Traced, tracing

__all__ = ["Program", "Spec", "Value", "compile", "spec"]


class Spec:
    """The dtype and shape of an argument that is not at hand when a function is compiled."""

    def __init__(self, shape: int | tuple[int, ...], dtype: Any = "float32"):
        self.shape = (shape,) if isinstance(shape, int) else tuple(shape)
        self.dtype = dtype

    def __repr__(self) -> str:
        return f"landfall.spec({self.shape}, {self.dtype!r})"


spec = Spec


def _described(name: str, given: Any) -> tuple[Any, tuple[int, ...], str | None]:
    """Dtype, shape and device of an argument, an array or a spec."""
    if isinstance(given, Spec):
        return given.dtype, given.shape, None
    if callable(given) and not hasattr(given, "__dlpack__"):
        raise ArgumentError(
            f"{name} is {given!r}, a function; it must be an array, or landfall.spec(shape, dtype): call it, and give what it returns"
        )
    array = given if isinstance(given, Tensor) else from_dlpack(given)
    return array.dtype, array.shape, array.device


#: The dtype of an argument that is a number.
_NUMBERS = {bool: "bool", int: "int64", float: "float32"}


def _number(given: Any) -> bool | int | float | None:
    """A number of Python or numpy as one of Python; nothing of anything else."""
    if getattr(given, "shape", None) == () and hasattr(given, "item") and not hasattr(given, "__dlpack__"):
        given = given.item()
    return given if type(given) in _NUMBERS else None


def _argument(name: str, given: Any) -> tuple[Any, tuple[int, ...], str | None]:
    """Dtype, shape and device of an argument of a call: as `_described`, or a number, which has no axes and no device."""
    number = _number(given)
    return _described(name, given) if number is None else (_NUMBERS[type(number)], (), None)


def _free(start: str, count: int, taken: Container[str]) -> list[str]:
    """So many numbered names that are not among those taken."""
    return list(islice((name for i in counter() if (name := f"{start}{i}") not in taken), max(count, 0)))


def _parameters(function: Callable, count: int, skipped: Collection[str]) -> list[str]:
    """The names of the first `count` parameters of a function that are not among `skipped`."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return _free("arg", count, skipped)
    names: list[str] = []
    for parameter in parameters:
        if parameter.kind is parameter.VAR_POSITIONAL:
            names += _free(parameter.name, count - len(names), {*names, *skipped})
        elif parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            if parameter.name not in skipped:
                names.append(parameter.name)
    if len(names) < count:
        raise ArgumentError(
            f"{getattr(function, '__name__', 'the function')} takes {len(names)} arrays by position, {count} were given"
        )
    return names[:count]


def _outputs(returned: Any) -> tuple[list[tuple[str, Value]], Callable[[list], Any]]:
    """The values that a function returned, by name, and how their results are returned. Results have their names among results:
    a parameter may have the same one."""
    if isinstance(returned, Value):
        return [("out", returned)], lambda results: results[0]
    if isinstance(returned, Mapping):
        names = list(returned)
        for name in names:
            if not isinstance(name, str):
                raise ArgumentError(f"the function returned a dictionary with the key {name!r}; a name is a text")
        return [(name, returned[name]) for name in names], lambda results: dict(zip(names, results))
    if isinstance(returned, (tuple, list)):
        return [(f"out{i}", value) for i, value in enumerate(returned)], tuple
    raise ArgumentError(
        f"the function returned {returned!r}; it must return a value, or a tuple or a dictionary of values: "
        f"what it computes with its arguments{_uncalled(returned)}"
    )


def _uncalled(given: Any) -> str:
    """What a function that stands in a value's place should have been."""
    return "; call it, and return what it gives" if callable(given) else ""


class Program:
    """A compiled function. Call it with arrays: `program(x)` gives new tensors, `program(x, out=y)` writes to `y`.

    The program owns its memory, the arena, for as long as it lives. `bind` places arguments and results in arrays of your
    own, from where `run` then computes without a copy.
    """

    def __init__(self, program: _Program, names: list[str], restore: Callable[[list], Any], tied: Mapping[str, str]):
        self._program = program
        self._names = names
        self._restore = restore
        self._tied = tied

    @property
    def inputs(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        """Dtype and shape of each input, parameters included."""
        return {name: (dtype, tuple(shape)) for name, dtype, shape in self._program.inputs}

    @property
    def outputs(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        """Dtype and shape of each output."""
        return {name: (dtype, tuple(shape)) for name, dtype, shape in self._program.outputs}

    @property
    def device(self) -> str:
        """The device that it runs on."""
        return self._program.device

    def __call__(self, /, *args: Any, out: Any = None, **named: Any) -> Any:
        """Runs on these arguments, which are copied on the device; the results are new tensors, or lie in `out`: one array,
        or as many in the form in which the function returned its values. An argument that is called `out` is given by position.

        What was bound, and a parameter, stays as it is: a call that is given another array for it reads that one, once.
        """
        given = self._given(args, named)
        if out is None:
            return self._restore(self._results(given, None))
        self._results(given, self._targets(out))
        return out

    def _results(self, given: dict[str, Any], out: dict[str, Any] | None) -> list[Tensor]:
        """Runs on arguments by name, all of them or none: the results in order, unless there are destinations."""
        missing = [name for name in self._names if name not in given]
        if missing and given:
            raise ArgumentError(f"the argument {missing[0]} is missing")
        numbers = {name: number for name, array in given.items() if (number := _number(array)) is not None}
        return self._program.call({**given, **self._arrays(numbers)} if numbers else given, out)

    def _arrays(self, numbers: dict[str, bool | int | float]) -> dict[str, Tensor]:
        """Numbers as the arrays of arguments without axes."""
        inputs = self.inputs
        for name, number in numbers.items():
            dtype, shape = inputs[name]
            if shape != ():
                raise ShapeError(f"{name} is the number {number!r}; the program takes an array of the shape {shape} there")
            if isinstance(number, float) and "float" not in dtype:
                raise DTypeError(
                    f"{name} is {number!r}; the program takes {dtype} there: compile it for an argument of a float dtype"
                )
        return {name: tensor(number, dtype=inputs[name][0], device=self.device) for name, number in numbers.items()}

    def _given(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of a call by name."""
        if len(args) > len(self._names):
            raise ArgumentError(f"the program takes {', '.join(self._names)}; {len(args)} arguments were given")
        given = dict(zip(self._names, args))
        twice = sorted(given.keys() & named.keys())
        if twice:
            raise ArgumentError(f"{twice[0]} was given twice, by position and by name")
        unknown = [name for name in named if name not in self.inputs]
        if unknown:
            raise ArgumentError(
                f"the program has no argument {unknown[0]}; it has {', '.join(self.inputs)}{self._tie(unknown[0])}"
            )
        return {**given, **named}

    def _tie(self, name: str) -> str:
        """Which input a name is that is none."""
        return f"; {name} is the same array as {self._tied[name]}, and one input" if name in self._tied else ""

    def _targets(self, out: Any) -> dict[str, Any]:
        """The destinations of a call by the names of the outputs."""
        names = [name for name, _, _ in self._program.outputs]
        if isinstance(out, Mapping):
            unknown = [name for name in out if name not in names]
            absent = [name for name in names if name not in out]
            if unknown or absent:
                wrong = (
                    f"out names {unknown[0]!r}, which is no output" if unknown else f"out lacks the output {absent[0]}"
                )
                raise ArgumentError(f"{wrong}; the program has {', '.join(names)}")
            return dict(out)
        listed = list(out) if isinstance(out, (tuple, list)) else [out]
        if len(listed) != len(names):
            raise ArgumentError(f"out has {len(listed)} arrays, the program has {len(names)} outputs")
        return dict(zip(names, listed))

    def find_non_finite(self, /, *args: Any, **named: Any) -> None:
        """Searches the values of a run for the first that has a NaN or an infinite number: `NonFiniteError` names it, an input or the line of
        the function that made it, with the element. The arguments are as in a call; without any it runs on what was bound or given last.

        It computes each op by itself and reads every value: for finding an error, not for each call. Infinite numbers that belong there, such as
        the -inf of a mask, are found too."""
        self._program.find_non_finite(self._given(args, named))

    def bind(
        self, inputs: Mapping[str, Any] | None = None, outputs: Mapping[str, Any] | None = None, /, **arrays: Any
    ) -> None:
        """Places inputs and outputs in the memory of these arrays, by name. `run` then reads and writes them in place. A name that
        an input and an output have is given in the dictionary of the one that is meant: `bind({"x": x}, {"x": y})`."""
        inputs, outputs = dict(inputs or {}), dict(outputs or {})
        for name, array in arrays.items():
            places = inputs if self._is_input(name) else outputs
            if name in places:
                raise ArgumentError(f"{name} was given twice, in a dictionary and by name")
            places[name] = array
        self._program.bind(inputs, outputs)

    def _is_input(self, name: str) -> bool:
        """Whether a name is an input's, and not an output's."""
        if name in self.inputs and name in self.outputs:
            raise ArgumentError(
                f"{name} is an input and an output of the program; say which: bind({{{name!r}: ..}}) is the input, "
                f"bind({{}}, {{{name!r}: ..}}) the output, memory({name!r}, 'input') or 'output'"
            )
        if name not in self.inputs and name not in self.outputs:
            raise ArgumentError(
                f"the program has no output {name}, and no input; it has the inputs {', '.join(self.inputs)} and the outputs "
                f"{', '.join(self.outputs)}{self._tie(name)}"
            )
        return name in self.inputs

    def run(self, stream_of: Any = None) -> None:
        """Runs on what is bound, or was given last, without a copy. On a GPU it is issued on the current stream of the library
        of the array `stream_of`."""
        self._program.run(stream_of)

    def seed(self, seed: int) -> None:
        """Draws from this seed on, an integer from 0: the runs that follow draw what they drew after it before."""
        self._program.seed(seed_of(seed))

    def memory(self, name: str, of: str | None = None) -> Tensor:
        """The memory of an input or output, without a copy. An output's holds its result until the next run. `of`, "input" or
        "output", says which is meant where both have the name."""
        if of not in (None, "input", "output"):
            raise ArgumentError(f"of is {of!r}; it must be 'input' or 'output'")
        return self._program.memory(name, self._is_input(name) if of is None else of == "input")

    def report(self) -> dict[str, Any]:
        """The memory plan: bytes, instructions, launches, and a row for each value."""
        return json.loads(self._program._report())

    def __repr__(self) -> str:
        inputs = ", ".join(f"{name}: {dtype}{list(shape)}" for name, (dtype, shape) in self.inputs.items())
        outputs = ", ".join(f"{name}: {dtype}{list(shape)}" for name, (dtype, shape) in self.outputs.items())
        return f"<landfall.Program ({inputs}) -> ({outputs}) on {self.device}>"


def seed_of(seed: Any) -> int:
    """A seed, which 64 bits hold."""
    if isinstance(seed, bool) or not hasattr(seed, "__index__") or not 0 <= int(seed) < 2**64:
        raise ArgumentError(f"seed is {seed!r}; it must be an integer from 0 and below 2**64")
    return int(seed)


def trace(
    function: Callable, args: tuple, named: Mapping[str, Any], parameters: Parameters
) -> tuple[Traced, Any, list[str], set[str]]:
    """Calls a function with values: what was traced, what it returned, the names of its arguments, the devices of the arrays."""
    if not callable(function):
        raise ArgumentError(f"a function comes first, before its arguments; {type(function).__qualname__} is none")
    names = _parameters(function, len(args), parameters.names | named.keys())
    calls, devices = Traced(), set()

    def value(name: str, given: Any) -> Value:
        dtype, shape, device = _argument(name, given)
        if device is not None:
            devices.add(device)
        return calls.trace.input(name, dtype, shape)

    values = [value(name, given) for name, given in zip(names, args)]
    keywords = {name: value(name, given) for name, given in named.items()}
    weights = {name: value(name, given) for name, given in parameters.arrays.items()}
    with tracing(calls):
        returned = function(*values, **keywords, **parameters.keywords(weights))
    return calls, returned, [*names, *named], devices


def device_of(devices: Iterable[str | None], device: str | None) -> str:
    """The one device of arrays, or the one that was asked for. What has no contents is on none."""
    known = sorted(name for name in devices if name is not None)
    if device is None and len(known) > 1:
        raise ArgumentError(f"the arrays are on {' and '.join(known)}; they must be on one device")
    return device or (known or ["cpu"])[0]


def results(returned: Any) -> tuple[list[tuple[str, Value]], Callable[[list], Any]]:
    """The values that a function returned by name, and how their results are returned; what is no value is refused."""
    outputs, restore = _outputs(returned)
    for name, value in outputs:
        if not isinstance(value, Value):
            raise ArgumentError(
                f"output {name} is {value!r}; it must be a value that the function computed{_uncalled(value)}"
            )
    return outputs, restore


def build(
    function: Callable,
    args: tuple,
    named: Mapping[str, Any],
    parameters: Parameters,
    device: str | None,
    dropout: bool = False,
    seed: int = 0,
) -> Program:
    """The program of a function with arguments by position and by name, bound to its parameters."""
    calls, returned, names, devices = trace(function, args, named, parameters)
    outputs, restore = results(returned)
    program = _compile(calls.trace, outputs, device_of(devices, device), bool(dropout))
    if program.draws:
        program.seed(seed_of(seed))
    held = {**parameters.arrays, **calls.arrays}
    if held:
        program.bind(held, {})
    return Program(program, names, restore, parameters.tied)


def compile(
    function: Callable,
    *args: Any,
    params: Mapping[str, Any] | None = None,
    device: str | None = None,
    dropout: bool = False,
    seed: int = 0,
) -> Program:
    """Compiles a function for arguments of these dtypes and shapes: arrays, or `landfall.spec(shape, dtype)`. `landfall.jit` is for those
    of several shapes.

    `params` are arrays that the function takes by keyword, also in nested dictionaries, lists and tuples, which it then takes with values in
    place of arrays; inputs of the program have dotted names, `layers.0.weight`. The program reads them where they lie, without a copy, and
    so sees what is written there later. They must lie row-major without gaps. One array under two names, a tied weight, is one input, which
    has the first. An optimizer that takes its step in the function writes them there (`landfall.optim`).

    With `dropout`, `x.dropout(rate)` drops as in training; without, it is `x`. A program that draws, by that, `landfall.normal` or
    `landfall.uniform`, draws other numbers at each run, on its device, and from a `seed` on always the same ones.
    """
    return build(function, args, {}, Parameters(params), device, dropout, seed)
