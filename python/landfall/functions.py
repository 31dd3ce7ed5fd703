"""Functions that are compiled when they are called: one program for each combination of dtypes and shapes.

predict = landfall.jit(lambda x, weight: (x @ weight).softmax(axis=-1), params={"weight": weight})
predict(x)              # compiled for the shape of x
predict(x[:3])          # and for this one
predict.programs        # both; at most `limit` are kept
"""

from __future__ import annotations

import inspect
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from . import ops
from ._landfall import Tensor, Trace, Value, empty, from_dlpack
from .errors import ArgumentError, ShapeError
from .graph import Program, Spec, _argument, _described, _parameters, build, device_of, results, seed_of, trace
from .parameters import Parameters

__all__ = ["Buckets", "Function", "jit"]

#: Dtype and shape of each argument by position, then by name.
Specs = tuple[tuple[Any, ...], tuple[Any, ...]]


class _Kept:
    """What was made for keys: once for each, also where several threads ask, and the least recently used dropped beyond a limit."""

    def __init__(self, limit: int | None):
        self.limit = limit
        self._lock = threading.Lock()
        self._made: OrderedDict[Any, Future[Any]] = OrderedDict()

    def get(self, key: Any, make: Callable[[], Any]) -> Any:
        with self._lock:
            made = self._made.get(key)
            is_new = made is None
            if made is None:
                made = self._made[key] = Future()
            self._made.move_to_end(key)
            while self.limit is not None and len(self._made) > self.limit:
                self._made.popitem(last=False)
        if is_new:
            try:
                made.set_result(make())
            except BaseException as error:
                with self._lock:
                    if self._made.get(key) is made:
                        del self._made[key]
                made.set_exception(error)
        return made.result()

    def all(self) -> list[Any]:
        """What there is, the least recently used first."""
        with self._lock:
            return [made.result() for made in self._made.values() if made.done() and not made.exception()]

    def clear(self) -> None:
        with self._lock:
            self._made.clear()


class Buckets:
    """Lengths that are rounded up: `Buckets({"tokens": 1, "mask": 1}, [64, 128, 256])` pads axis 1 of the arguments `tokens` and `mask` to the
    next of these sizes, so that three programs serve all lengths up to 256.

    `value` is what stands in the padding, one number, or one for each argument by name (0 where it has none). The function computes with the
    padding as with any other elements: whatever sums, means, normalizes or attends along the axis must leave it out by a mask or lengths that it
    takes as an argument. Results are cut back to the shapes that the function gives for the arguments as they are.
    """

    def __init__(self, axes: Mapping[str, int], sizes: Iterable[int], value: float | Mapping[str, float] = 0):
        self.axes = dict(axes)
        self.sizes = sorted(sizes)
        self.value = value
        if not self.axes or not self.sizes or self.sizes[0] < 1:
            raise ArgumentError(
                f"buckets of {self.axes} of the sizes {self.sizes}; they have an axis for each argument by name, and sizes from 1"
            )

    def pad(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments by name, of which those of these buckets are padded."""
        absent = [name for name in self.axes if name not in arguments]
        if absent:
            raise ArgumentError(f"buckets name the argument {absent[0]}; the arguments are {', '.join(arguments)}")
        lengths = {}
        for name, axis in self.axes.items():
            _, shape, _ = _described(name, arguments[name])
            if not -len(shape) <= axis < len(shape):
                raise ShapeError(f"buckets name axis {axis} of {name}, which has the shape {tuple(shape)}")
            lengths[name] = int(shape[axis])
        longest = max(lengths.values())
        if longest > self.sizes[-1]:
            raise ShapeError(
                f"the arguments are of length {longest} ({lengths}); the largest bucket is {self.sizes[-1]}"
            )
        if len(set(lengths.values())) > 1:
            raise ShapeError(f"the arguments of buckets are of one length, not of {lengths}")
        size = next(size for size in self.sizes if size >= longest)
        padded = {name: self._padded(name, arguments[name], size) for name in self.axes}
        return {**arguments, **padded}

    def _padded(self, name: str, given: Any, size: int) -> Any:
        array = given if isinstance(given, Tensor) else from_dlpack(given)
        axis = self.axes[name] % array.ndim
        length = array.shape[axis]
        if length == size:
            return given
        value = self.value.get(name, 0) if isinstance(self.value, Mapping) else self.value
        padded = empty((*array.shape[:axis], size, *array.shape[axis + 1 :]), array.dtype, array.device)
        behind = (slice(None),) * axis
        padded[(*behind, slice(0, length))] = given
        padded[(*behind, slice(length, size))] = value
        return padded


class Function:
    """A function that is compiled at the first call for each combination of dtypes and shapes; later calls run the program of theirs.

    A call takes arrays and numbers by position or by name, and `out`, as one of a `Program`; a number is an argument without axes, and another
    number runs the same program. Several threads may call it: a program is compiled once, and
    runs one call after another. Called with values, in another traced function, it is a part of that one. Programs of a parent process are
    compiled again in a forked child.
    """

    def __init__(
        self,
        function: Callable,
        *,
        params: Mapping[str, Any] | None = None,
        device: str | None = None,
        limit: int | None = 64,
        buckets: Buckets | Sequence[Buckets] = (),
        dropout: bool = False,
        seed: int = 0,
    ):
        if not callable(function):
            raise ArgumentError(f"{function!r} is a {type(function).__qualname__}; it must be a function")
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
            raise ArgumentError(f"limit is {limit!r}; it must be a number of programs from 1, or None")
        self.function = function
        self._parameters = Parameters(params)
        self._devices = _specs((), self._parameters.arrays)[1]
        self._device = device
        self._drawing = (bool(dropout), seed_of(seed))
        self._buckets = (buckets,) if isinstance(buckets, Buckets) else tuple(buckets)
        self._names = _positional(function, self._parameters.names)
        self._programs, self._shapes = _Kept(limit), _Kept(limit and 16 * limit)

    @property
    def limit(self) -> int | None:
        """How many programs are kept, the most recently used; `None` is all of them."""
        return self._programs.limit

    @property
    def programs(self) -> list[Program]:
        """The programs that are kept, the least recently used first. Each owns its memory."""
        return self._programs.all()

    def clear(self) -> None:
        """Forgets the programs, whose memory is given back when nothing else refers to them."""
        self._programs.clear()

    def program(self, /, *args: Any, **named: Any) -> Program:
        """The program for arguments of these dtypes and shapes, arrays or `landfall.spec(shape, dtype)`: compiled, if it is not yet."""
        args, named = self._in_place(args, named)
        specs, devices = _specs(args, named)
        return self.compiled(specs, device_of(devices | self._devices, self._device))

    def compiled(self, specs: Specs, device: str) -> Program:
        """The program for dtypes and shapes, on a device."""
        args, named = _given(specs)
        make = lambda: build(self.function, args, named, self._parameters, device, *self._drawing)  # noqa: E731
        return self._programs.get((specs, device, os.getpid()), make)

    def results(self, specs: Specs) -> list[tuple[str, tuple[int, ...]]]:
        """Dtype and shape of each result for arguments of these dtypes and shapes, without a program."""
        return self._traced(specs)[0]

    def draws(self, specs: Specs) -> bool:
        """Whether the function draws random numbers."""
        return self._traced(specs)[1]

    def _traced(self, specs: Specs) -> tuple[list[tuple[str, tuple[int, ...]]], bool]:
        def make() -> tuple[list[tuple[str, tuple[int, ...]]], bool]:
            calls, returned, _, _ = trace(self.function, *_given(specs), self._parameters)
            return [(value.dtype, tuple(value.shape)) for _, value in results(returned)[0]], calls.trace.draws

        return self._shapes.get(specs, make)

    def _in_place(self, args: tuple[Any, ...], named: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments by name as those by position, where their places come next: both are one program."""
        left = dict(named)
        while len(args) < len(self._names) and self._names[len(args)] in left:
            args = (*args, left.pop(self._names[len(args)]))
        return args, left

    def __call__(self, /, *args: Any, out: Any = None, **named: Any) -> Any:
        """Runs the program of these arguments."""
        if any(isinstance(given, Value) for given in (*args, *named.values())):
            if self._parameters.arrays or out is not None:
                raise ArgumentError(
                    "a function with params, or out, beside values of a traced function; call the function itself with the values that it needs"
                )
            return self.function(*args, **named)
        # Another array in place of a parameter is one of this call.
        instead = {name: named.pop(name) for name in list(named) if name in self._parameters.arrays}
        args, named = self._in_place(args, named)
        if not self._buckets:
            return self.program(*args, **named)(*args, out=out, **named, **instead)
        names = _parameters(self.function, len(args), self._parameters.names | named.keys())
        padded = {**dict(zip(names, args)), **named}
        for buckets in self._buckets:
            padded = buckets.pad(padded)
        longer = tuple(padded[name] for name in names)
        program = self.program(*longer, **{name: padded[name] for name in named})
        found = program._results({**padded, **instead}, None)
        shapes = [shape for _, shape in self.results(_specs(args, named)[0])]
        cut = [_cut(result, shape) for result, shape in zip(found, shapes)]
        if out is None:
            return program._restore(cut)
        for result, target in zip(cut, program._targets(out).values()):
            ops.copy(result, out=target)
        return out

    def __repr__(self) -> str:
        name = getattr(self.function, "__qualname__", repr(self.function))
        return f"<landfall.Function {name} with {len(self.programs)} programs>"


def _positional(function: Callable, skipped: set[str]) -> list[str]:
    """The names of the parameters that may be given by position and by name."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    return [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD and p.name not in skipped]


def _spec(name: str, given: Any, devices: set[str]) -> tuple[str, tuple[int, ...]]:
    """Dtype and shape of an argument, whose device joins the others."""
    dtype, shape, device = _argument(name, given)
    if device is None:
        # A spec has the dtype as it was given.
        dtype = Trace().input(name, dtype, shape).dtype
    else:
        devices.add(device)
    return dtype, tuple(shape)


def _specs(args: Iterable[Any], named: Mapping[str, Any]) -> tuple[Specs, set[str]]:
    """Dtype and shape of each argument, and the devices of arrays."""
    devices: set[str] = set()
    by_place = tuple(_spec(f"argument {place}", given, devices) for place, given in enumerate(args))
    by_name = tuple((name, *_spec(name, given, devices)) for name, given in sorted(named.items()))
    return (by_place, by_name), devices


def _given(specs: Specs) -> tuple[tuple[Spec, ...], dict[str, Spec]]:
    """Arguments of these dtypes and shapes."""
    args, named = specs
    return tuple(Spec(shape, dtype) for dtype, shape in args), {
        name: Spec(shape, dtype) for name, dtype, shape in named
    }


def _cut(result: Tensor, shape: tuple[int, ...]) -> Tensor:
    """The first elements along each axis."""
    if len(shape) != result.ndim or any(size > own for size, own in zip(shape, result.shape)):
        raise ShapeError(
            f"a result has the shape {tuple(result.shape)} of padded arguments and {shape} of those that were given; padding may only make axes longer"
        )
    return result if shape == tuple(result.shape) else result[tuple(slice(0, size) for size in shape)]


def jit(
    function: Callable,
    *,
    params: Mapping[str, Any] | None = None,
    device: str | None = None,
    limit: int | None = 64,
    buckets: Buckets | Sequence[Buckets] = (),
    dropout: bool = False,
    seed: int = 0,
) -> Function:
    """A function that is compiled when it is called, once for each combination of dtypes and shapes of its arguments.

    `params`, `device`, `dropout` and `seed` are those of `landfall.compile`; every program reads the same parameters where they lie. `limit` programs are kept, the
    most recently used. With `buckets` lengths are rounded up, so that few programs serve many lengths (`landfall.Buckets`).
    """
    return Function(
        function, params=params, device=device, limit=limit, buckets=buckets, dropout=dropout, seed=seed
    )
