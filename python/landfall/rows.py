"""Rows of forecasts, which become a frame."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from . import frames
from .errors import InvalidValueError
from .frames import Frame
from .tables import Layout, OneSeries


@dataclasses.dataclass(frozen=True)
class Forecasts:
    """Forecasts of some series, each array of shape (series, steps)."""

    #: The names of the series, as the run has them.
    keys: list[str]
    #: Rows of each series.
    steps: int
    #: Nanoseconds since 1970, of series with dates.
    stamps: np.ndarray | None
    #: The forecast of each column.
    values: list[np.ndarray]
    #: Quantiles and bounds of each column, by how their names end.
    further: list[list[tuple[str, np.ndarray]]]

    @classmethod
    def of(cls, keys: list[str], steps: int, stamps: bytes | None, values: list[bytes], further: Any) -> Forecasts:
        """What the program answers, whose arrays are bytes."""

        def array(data: bytes, dtype: Any = np.float64) -> np.ndarray:
            return np.frombuffer(data, dtype=dtype).reshape(len(keys), steps)

        return cls(
            keys,
            steps,
            None if stamps is None else array(stamps, np.int64),
            [array(column) for column in values],
            [[(end, array(column)) for end, column in ends] for ends in further],
        )

    def dates(self, layout: Layout, place: int, end: int | None) -> np.ndarray:
        """The dates of the forecast of a series, by its place, that ends at a date."""
        if layout.step is None:
            assert self.stamps is not None
            return self.stamps[place]
        assert end is not None
        return end + np.arange(1, self.steps + 1, dtype=np.int64) * layout.step

    def key(self, place: int, layout: Layout) -> str:
        """The name of a series by its place; the series of a frame without names has an empty one."""
        return self.keys[place] if layout.series_id is not None else ""


class Rows:
    """Rows of forecasts, which become a frame."""

    def __init__(self, layout: Layout, targets: Sequence[str], alias: str, windows: bool = False) -> None:
        """`windows` says that they stand beside cutoffs and actual values."""
        self.layout = layout
        self.names: list[Any] = []
        self.dates: dict[str, list[np.ndarray]] = {}
        self.values: dict[str, list[np.ndarray]] = {}
        several = len(targets) > 1
        self.targets = list(targets)
        self.columns = [f"{alias}_{target}" if several else alias for target in targets]
        parts = [(layout.series_id, "the names of the series"), (layout.date_column, "the dates")]
        if windows:
            parts += [("cutoff", "the cutoffs"), *((target, "the actual values") for target in targets)]
        held: dict[str | None, str] = {}
        for name, what in [*parts, *((column, "the forecast") for column in self.columns)]:
            if name in held:
                how = "choose another alias" if what == "the forecast" else "rename that column of the frame"
                raise InvalidValueError(f"column `{name}` of the result would hold {held[name]} and {what}; {how}")
            if name is not None:
                held[name] = what

    def add(self, found: Forecasts, ids: Mapping[str, Any], ends: Mapping[str, int], steps: int) -> None:
        """Adds the first rows of the forecasts of all series, which end at these dates."""
        keys = [found.key(place, self.layout) for place in range(len(found.keys))]
        dates = [found.dates(self.layout, place, ends.get(key))[:steps] for place, key in enumerate(keys)]
        names = [ids.get(key, key) for key in keys for _ in range(steps)]
        columns = self._columns(found, lambda column: column[:, :steps].ravel())
        self._add(names, {self.layout.date_column: np.concatenate(dates)}, columns)

    def add_window(self, one: OneSeries, past: OneSeries, found: Forecasts, place: int) -> None:
        """Adds the forecast of a series, by its place, of a window beside the actual values of its dates."""
        dates = found.dates(self.layout, place, int(past.dates[past.known - 1]))
        at = np.minimum(np.searchsorted(one.dates, dates), len(one.dates) - 1)
        there = one.dates[at] == dates
        # Where the last values before the cutoff are missing the forecast begins with them.
        kept = dates > past.dates[-1]
        actual = {
            target: np.where(there, np.asarray(values)[at].astype(np.float64), np.nan)[kept]
            for target, values in zip(self.targets, one.values)
        }
        columns = actual | self._columns(found, lambda column: column[place, kept])
        cutoffs = np.full(len(dates), past.dates[-1], dtype=np.int64)
        stamps = {self.layout.date_column: dates[kept], "cutoff": cutoffs[kept]}
        self._add([one.name] * int(kept.sum()), stamps, columns)

    def _columns(self, found: Forecasts, kept: Callable[[np.ndarray], np.ndarray]) -> dict[str, np.ndarray]:
        """The rows that are kept of each column of forecasts."""
        columns = {}
        for column, values, further in zip(self.columns, found.values, found.further):
            columns[column] = kept(values)
            columns |= {f"{column}{end}": kept(numbers) for end, numbers in further}
        return columns

    def _add(self, names: list[Any], dates: Mapping[str, np.ndarray], values: Mapping[str, np.ndarray]) -> None:
        self.names.extend(names)
        for held, added in ((self.dates, dates), (self.values, values)):
            for column, numbers in added.items():
                held.setdefault(column, []).append(numbers)

    def frame(self, like: Frame | None) -> Frame:
        """All rows."""
        dates = {name: np.concatenate(parts) for name, parts in self.dates.items()}
        values = {name: np.concatenate(parts) for name, parts in self.values.items()}
        return frames.build(self.layout, self.names, dates, values, like)
