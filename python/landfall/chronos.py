"""Chronos-2, from the folders that its authors' package writes: forecasts without Python's PyTorch."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from . import _landfall
from .errors import ArgumentError, InvalidValueError
from .forecaster import no_gpu_after_fork

if TYPE_CHECKING:
    import numpy as np

#: What an input may hold.
_KEYS = ("target", "past_covariates", "future_covariates")

#: A covariate's rows: numbers, or texts of categories.
_Rows = Any
_Group = tuple[list["np.ndarray[Any, Any]"], dict[str, _Rows], dict[str, _Rows]]


class Chronos:
    """The weights of a Chronos-2, read from the folder with `config.json` and `model.safetensors`.

    Args:
        folder: What the authors' `save_pretrained` wrote, or `huggingface_hub` downloaded.
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
        device: str = "auto",
        threads: int | None = None,
        dtype: Literal["float32", "bfloat16"] = "float32",
    ) -> None:
        if dtype not in ("float32", "bfloat16"):
            raise ArgumentError(f'dtype {dtype!r}: give "float32" or "bfloat16"')
        no_gpu_after_fork(device)
        self._model = _landfall._Chronos(os.path.abspath(folder), device, threads, dtype == "bfloat16")

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
            horizon: Rows to forecast. Beyond the rows of a pass nine paths go on, from the quantiles 0.1 to 0.9.
            encode_categories: How categories become numbers: "target", means of the target of the group, where it has one target; or "ordinal",
                the place of each in the sorted categories of all groups. With several targets it is always "ordinal".

        Returns:
            For each entry an array `[targets, levels, horizon]` of float64, levels as in :attr:`quantiles`.

        Raises:
            ArgumentError: For inputs of another form.
            InvalidValueError: For rows that do not fit each other.
        """
        import numpy as np

        groups = [_group(i, entry) for i, entry in enumerate(inputs)]
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
        levels = len(self.quantiles)
        all_groups = self._model.forecast(given, horizon)
        rows = [[np.frombuffer(target).reshape(-1, levels).T for target in group] for group in all_groups]
        return [np.stack(group) for group in rows]


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
                raise ArgumentError(f"input {number}: future covariate {name!r} has no past; give it in past_covariates, too")
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
