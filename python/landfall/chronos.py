"""Chronos-2 and Chronos-Bolt, from the folders that their authors' package writes: forecasts and training without Python's PyTorch."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from . import _landfall, keywords, signals
from .errors import ArgumentError, InvalidValueError
from .forecaster import no_gpu_after_fork

if TYPE_CHECKING:
    import numpy as np

#: What an input may hold.
_KEYS = ("target", "past_covariates", "future_covariates")

#: A covariate's rows: numbers, or texts of categories.
_Rows = Any
_Group = tuple[list["np.ndarray[Any, Any]"], dict[str, _Rows], dict[str, _Rows]]
#: A group as the engine takes it: targets, past covariates, past and future of known ones.
_Given = tuple[list[bytes], list[bytes], list[tuple[bytes, bytes]]]

#: Names of dtypes as the engine has them.
_DTYPES = {"float32": "f32", "tf32": "tf32", "bfloat16": "bf16", "float16": "f16"}


@dataclass(frozen=True)
class LowRank:
    """A low-rank adapter (LoRA): a weight `W` counts as `W + alpha/rank · B·A`, of which A and B alone are trained.

    Args:
        rank: Rows of A and columns of B.
        alpha: The factor of their product, times the rank.
        targets: Names of the layers, or what these end with behind a dot; those of the authors if left out: the products of all attentions
            and the last layer.
    """

    rank: int = 8
    alpha: float = 16.0
    targets: Sequence[str] | None = None

    def _options(self) -> dict[str, Any]:
        keywords.whole("rank", self.rank)
        usual = json.loads(_landfall._low_rank())
        targets = usual["targets"] if self.targets is None else [str(target) for target in self.targets]
        return {"rank": int(self.rank), "alpha": _number("alpha", self.alpha), "targets": targets}


class Chronos:
    """The weights of a Chronos-2 or Chronos-Bolt, read from the folder with `config.json` and `model.safetensors`, which says which of both it is.

    A Chronos-Bolt forecasts each series for itself: an input with several targets or covariates is refused, and so is :meth:`fit`.

    Args:
        folder: What the authors' `save_pretrained` wrote, or `huggingface_hub` downloaded.
        adapter: A folder with a low-rank adapter that is merged into the weights: of :meth:`FineTuned.save_adapter`, or of the PEFT
            library.
        device: "cpu", "cuda" or "auto".
        threads: Of the processor; all if left out.
        dtype: In which it computes, "float32" or "bfloat16".

    Raises:
        FileError: For a folder that cannot be read, or a model that is not supported, by its option.

    Example:
        >>> model = landfall.chronos.Chronos("chronos-2")  # doctest: +SKIP
        >>> model.forecast([sales], horizon=12)[0].shape  # targets, levels, rows  # doctest: +SKIP
        (1, 21, 12)
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        adapter: str | os.PathLike[str] | None = None,
        device: str = "auto",
        threads: int | None = None,
        dtype: Literal["float32", "bfloat16"] = "float32",
    ) -> None:
        if dtype not in ("float32", "bfloat16"):
            raise ArgumentError(f'dtype {dtype!r}: give "float32" or "bfloat16"')
        no_gpu_after_fork(device)
        apart = None if adapter is None else os.path.abspath(adapter)
        self._model = _landfall._Chronos(os.path.abspath(folder), apart, device, threads, dtype == "bfloat16")

    @property
    def quantiles(self) -> list[float]:
        """The levels of the quantiles that it forecasts, ascending."""
        return self._model.levels

    @property
    def context_length(self) -> int:
        """Rows of a series that it reads at most: its last ones."""
        return self._model.context

    def forecast(
        self,
        inputs: Sequence[Any] | np.ndarray[Any, Any],
        horizon: int,
        *,
        encode_categories: Literal["target", "ordinal"] = "target",
    ) -> list[np.ndarray[Any, Any]]:
        """The quantiles of the next rows.

        Args:
            inputs: One entry for each group of series that see each other: rows `[rows]` of one series, or `[targets, rows]`; or a mapping with
                "target", "past_covariates" (rows of each by name) and "future_covariates" (the rows after them, by names that the
                past has, too), as the authors' `predict` takes them. NaN is a missing value. Texts are categories.
            horizon: Rows to forecast. Beyond the rows of a pass paths go on from quantiles: those at 0.1 to 0.9, of a Chronos-Bolt all.
            encode_categories: How categories become numbers: "target", means of the target of the group, where it has one target; or "ordinal",
                the place of each in the sorted categories of all groups. With several targets it is always "ordinal".

        Returns:
            For each entry an array `[targets, levels, horizon]` of float64, levels as in :attr:`quantiles`.

        Raises:
            ArgumentError: For inputs of another form.
            InvalidValueError: For rows that do not fit each other; for several series in an input to a Chronos-Bolt.
        """
        import numpy as np

        given = _given([_group(i, entry) for i, entry in enumerate(inputs)], encode_categories)
        levels = len(self.quantiles)
        all_groups = self._model.forecast(given, horizon)
        rows = [[np.frombuffer(target).reshape(-1, levels).T for target in group] for group in all_groups]
        return [np.stack(group) for group in rows]

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Writes the weights as a folder that the authors' package reads; an adapter is merged into them.

        Raises:
            FileError: For a folder that cannot be written.
        """
        self._model.save(os.path.abspath(folder))

    def export_onnx(
        self,
        path: str | os.PathLike[str],
        *,
        context: int | None = None,
        horizon: int | None = None,
        members: int = 1,
    ) -> None:
        """Writes the forecast of one pass as an ONNX model.

        Its input `context` (double) `[batch, context]` holds the last rows of series, the last one last and NaN where none is known; its output
        `quantiles` (double) is `[batch, horizon, levels]`. What is forecast is what :meth:`forecast` does, in float32. With several members these
        have a further axis behind the batch, and input `future` (double) `[batch, members, horizon]` holds the rows to forecast of covariates
        that are known in advance, as numbers; those of the others, and of the targets, hold NaN.

        Args:
            path: A file that does not exist.
            context: Rows of the context; all that the model reads if left out. Shorter series begin with NaN, which costs time.
            horizon: Rows to forecast; those of a pass, which are the most, if left out.
            members: Series of a group, which see each other: targets and covariates. 1 for a Chronos-Bolt.

        Raises:
            InvalidValueError: For rows or groups that the model does not read, or rows that it does not forecast in one pass.
            FileError: For a file that exists, or cannot be written.

        Example:
            >>> model.export_onnx("chronos.onnx", context=512, horizon=24)  # doctest: +SKIP
            >>> session = onnxruntime.InferenceSession("chronos.onnx")  # doctest: +SKIP
            >>> session.run(None, {"context": sales[None, -512:]})[0].shape  # doctest: +SKIP
            (1, 24, 21)
        """
        for name, rows in [("context", context), ("horizon", horizon), ("members", members)]:
            if rows is not None:
                keywords.whole(name, rows)
        self._model.export_onnx(os.path.abspath(path), context, horizon, members)

    def fit(
        self,
        inputs: Sequence[Any] | np.ndarray[Any, Any],
        horizon: int,
        *,
        validation: Sequence[Any] | np.ndarray[Any, Any] | None = None,
        adapter: LowRank | None = None,
        steps: int = 1000,
        batch: int = 256,
        lr: float | None = None,
        weight_decay: float = 0.0,
        clip: float | None = 1.0,
        context: int | None = None,
        shortest: int | None = None,
        every: int = 100,
        dtype: Literal["float32", "tf32", "bfloat16", "float16"] = "float32",
        seed: int = 2021,
        encode_categories: Literal["target", "ordinal"] = "target",
        folder: str | os.PathLike[str] | None = None,
        progress: Callable[[dict[str, Any]], None] | None = None,
    ) -> FineTuned:
        """Trains the weights further, on windows drawn from series of your own, by the loss that the authors train by: AdamW, with a learning rate
        that falls to 0 along a line. This model stays as it is.

        Args:
            inputs: As of :meth:`forecast`, with as many targets and the same covariates in each. "future_covariates" says which covariates are known
                in advance, by their names; rows of it are not read.
            horizon: Rows to forecast of each window, at most those of one pass.
            validation: Inputs whose last windows choose: the weights with the smallest loss on them are kept, and those before the first step are
                among them. The last weights are kept if left out.
            adapter: Trains this adapter and leaves the weights alone; all weights if left out.
            steps: Steps in all.
            batch: Series of a batch, covariates too; as many whole inputs as have them.
            lr: First learning rate; 1e-6 for all weights and 1e-5 for an adapter if left out.
            weight_decay: Of matrices.
            clip: Largest gradient norm; None clips nothing.
            context: Rows of context that are read at most; those of the model if left out.
            shortest: Rows of context that a window has at least; the horizon if left out.
            every: Steps between two validations, and between two checkpoints.
            dtype: Of arithmetic; weights are float32. "tf32" is float32 whose products round their factors, on a GPU.
            seed: Of the windows, and of the adapter's first values.
            encode_categories: As of :meth:`forecast`.
            folder: Where checkpoints are written: a training that was interrupted goes on from there, to the same weights.
            progress: Called every `every` steps, with the step, the losses since the last call, the learning rate and the loss of the validation.

        Returns:
            The trained model, on the same device.

        Raises:
            ArgumentError: For inputs of another form.
            InvalidValueError: For rows, or numbers, that do not fit each other; for a Chronos-Bolt, which is not trained further.
            NonFiniteError: For a step whose loss or gradient is not finite.
            FileError: For a folder with another training, or one that cannot be written.

        Example:
            >>> past = [rows[:-12] for rows in series]  # doctest: +SKIP
            >>> tuned = model.fit(past, horizon=12, validation=series, adapter=LowRank())  # doctest: +SKIP
            >>> tuned.save("chronos-2-sales")  # doctest: +SKIP
        """
        counts = {"steps": steps, "batch": batch, "every": every, "context": context, "shortest": shortest}
        for name, count in {"horizon": horizon, **counts}.items():
            if count is not None or name not in ("context", "shortest"):
                keywords.whole(name, count)
        if dtype not in _DTYPES:
            raise ArgumentError(f"dtype {dtype!r}: give {', '.join(map(repr, _DTYPES))}")
        if adapter is not None and not isinstance(adapter, LowRank):
            raise ArgumentError(f"adapter is a {type(adapter).__qualname__}; give a landfall.chronos.LowRank")
        if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 1 << 64:
            raise InvalidValueError(f"seed {seed!r}: give a whole number from 0 on, below 2 to the power of 64")
        options = {
            "horizon": int(horizon),
            **{name: None if count is None else int(count) for name, count in counts.items()},
            "lr": None if lr is None else _number("lr", lr),
            "weight_decay": _number("weight_decay", weight_decay),
            "clip": None if clip is None else _number("clip", clip),
            "dtype": _DTYPES[dtype],
            "seed": seed,
            "adapter": None if adapter is None else adapter._options(),
        }
        groups = [_series(i, entry) for i, entry in enumerate(inputs)]
        others = [_series(i, entry) for i, entry in enumerate(() if validation is None else validation)]
        # Together, so that categories have the same places.
        given, count = _given(groups + others, encode_categories), len(groups)
        told = None if progress is None else lambda text: progress(json.loads(text))
        where = None if folder is None else os.path.abspath(folder)
        with signals.raised():
            model = self._model.fit((given[:count], given[count:]), json.dumps(options), where, told)
        return FineTuned._of(model)


class FineTuned(Chronos):
    """A Chronos-2 that :meth:`Chronos.fit` trained: it forecasts, is saved and trained further as any other."""

    @classmethod
    def _of(cls, model: _landfall._Chronos) -> FineTuned:
        own = cls.__new__(cls)
        own._model = model
        return own

    @property
    def history(self) -> list[dict[str, Any]]:
        """The curve: of each point its `step`, the `losses` of the steps since the point before, `lr`, and the loss of the `validation`."""
        points: list[dict[str, Any]] = json.loads(self._model.curve()[0])
        return points

    @property
    def chosen(self) -> tuple[int, float] | None:
        """The step whose weights these are, and their loss on the validation; None without a validation."""
        return self._model.curve()[1]

    def windows(self, step: int) -> list[tuple[int, int]]:
        """The windows that a step, counted from 0, was trained on: the number of the input and the first row that was forecast."""
        return self._model.windows(step)

    def save_adapter(self, folder: str | os.PathLike[str]) -> None:
        """Writes the adapter alone, in the form of the PEFT library.

        Raises:
            ArgumentError: Where all weights were trained.
            FileError: For a folder that cannot be written.
        """
        if not self._model.save_adapter(os.path.abspath(folder)):
            raise ArgumentError("all weights were trained and there is no adapter; save() writes them")


def _number(name: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise ArgumentError(f"{name} {value!r}: give a number") from None


def _given(groups: Sequence[_Group], encode_categories: str) -> list[_Given]:
    """Groups as the engine takes them."""
    if encode_categories not in ("target", "ordinal"):
        raise ArgumentError(f'encode_categories {encode_categories!r}: give "target" or "ordinal"')
    codes = _Codes(groups, encode_categories == "ordinal")
    given = []
    for number, (targets, past, future) in enumerate(groups):
        own = {name: codes.of(number, name) for name in past}
        given.append(
            (
                [_bytes(row) for row in targets],
                [_bytes(own[name][0]) for name in sorted(past) if name not in future],
                [(_bytes(own[name][0]), _bytes(own[name][1])) for name in sorted(future)],
            )
        )
    return given


def _series(number: int, entry: Any) -> _Group:
    """As :func:`_group`, of what is trained on: the future is that of the windows."""
    if isinstance(entry, Mapping) and isinstance(entry.get("future_covariates"), Iterable):
        entry = {**entry, "future_covariates": dict.fromkeys(entry["future_covariates"], ())}
    return _group(number, entry)


def _group(number: int, entry: Any) -> _Group:
    """Targets, past of all covariates, and future of those that are known, of an entry."""
    import numpy as np

    past: dict[str, _Rows] = {}
    future: dict[str, _Rows] = {}
    target = entry
    if isinstance(entry, Mapping):
        unknown = [key for key in entry if key not in _KEYS]
        if unknown or "target" not in entry:
            what = f"has {unknown[0]!r}" if unknown else "has no target"
            raise ArgumentError(f"input {number} {what}: give target, past_covariates and future_covariates")
        target = entry["target"]
        past, future = (dict(entry.get(key) or {}) for key in _KEYS[1:])
        for name in future:
            if name not in past:
                raise ArgumentError(
                    f"input {number}: future covariate {name!r} has no past; give it in past_covariates, too"
                )
    try:
        targets = np.asarray(target, dtype=np.float64)
    except (TypeError, ValueError) as why:
        raise ArgumentError(f"input {number}: its target is no numbers: {why}") from None
    if targets.ndim not in (1, 2):
        raise ArgumentError(f"input {number}: its target has {targets.ndim} axes; give [rows] or [targets, rows]")
    for name, rows in past.items():
        if len(rows) != targets.shape[-1]:
            raise InvalidValueError(
                f"input {number}: past covariate {name!r} has {len(rows)} rows, and the target {targets.shape[-1]}; give as many"
            )
    return list(np.atleast_2d(targets)), past, future


def _bytes(row: _Rows) -> bytes:
    import numpy as np

    return np.ascontiguousarray(row, dtype=np.float64).tobytes()


class _Codes:
    """The covariates of all groups as numbers."""

    def __init__(self, groups: Sequence[_Group], ordinal: bool) -> None:
        self._groups = groups
        self._ordinal = ordinal
        self._kept: dict[str, list[tuple[Any, Any]]] = {}

    def of(self, number: int, name: str) -> tuple[_Rows, _Rows]:
        """Past and future of a covariate of a group."""
        targets, past, future = self._groups[number]
        rows, ahead = past[name], future.get(name, [])
        if not _texts(rows):
            return rows, ahead
        if len(targets) == 1 and not self._ordinal:
            own = _landfall._target_means(targets[0].tolist(), _names(rows), _names(ahead))
            return own
        if name not in self._kept:
            of = [(_names(p.get(name, [])), _names(f.get(name, []))) for _, p, f in self._groups]
            self._kept[name] = _landfall._ordinal(of)
        return self._kept[name][number]


def _texts(rows: _Rows) -> bool:
    import numpy as np

    kind = np.asarray(rows).dtype.kind
    return kind in "OUSb" and not all(isinstance(x, (int, float)) and not isinstance(x, bool) for x in rows)


def _names(rows: _Rows) -> list[str | None]:
    """Categories as texts; None where one is missing."""
    return [None if x is None or x != x else str(x) for x in rows]
