"""Rows of forecasts, which become a frame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from . import frames
from .errors import InvalidValueError
from .frames import Frame, Layout, OneSeries


def following(layout: Layout, stamps: list[int] | None, end: Any, steps: int) -> np.ndarray:
    """The dates of a forecast."""
    if layout.step is not None:
        return np.arange(1, steps + 1, dtype=np.int64) * layout.step + int(end)
    return np.asarray(stamps, dtype=np.int64)


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

    def add(
        self,
        name: Any,
        dates: Mapping[str, np.ndarray],
        values: Any,
        further: Any,
        kept: Any,
        actual: Mapping[str, np.ndarray] | None = None,
    ) -> None:
        """Adds rows of a series: those of `kept`. `further` has for each target the ends of names, and values."""
        for column, stamps in dates.items():
            self.dates.setdefault(column, []).append(stamps[kept])
        columns: dict[str, Any] = dict(actual or {})
        for c, column in enumerate(self.columns):
            columns[column] = np.asarray(values[c], dtype=np.float64)
            for end, numbers in further[c]:
                columns[f"{column}{end}"] = np.asarray(numbers, dtype=np.float64)
        for column, numbers in columns.items():
            self.values.setdefault(column, []).append(numbers[kept])
        self.names.extend([name] * len(next(iter(columns.values()))[kept]))

    def add_window(
        self, one: OneSeries, past: OneSeries, stamps: list[int] | None, values: Any, further: Any
    ) -> None:
        """Adds the forecast of a window beside the actual values of its dates."""
        steps = len(values[0])
        dates = following(self.layout, stamps, past.dates[past.known() - 1], steps)
        places = np.minimum(np.searchsorted(one.dates, dates), len(one.dates) - 1)
        there = one.dates[places] == dates
        actual = {
            t: np.where(there, one.values[i][places].astype(np.float64), np.nan) for i, t in enumerate(self.targets)
        }
        cutoffs = np.full(steps, past.dates[-1], dtype=np.int64)
        columns = {self.layout.date_column: dates, "cutoff": cutoffs}
        # Where the last values before the cutoff are missing the forecast begins with them.
        self.add(one.name, columns, values, further, dates > past.dates[-1], actual)

    def frame(self, like: Frame | None) -> Frame:
        """All rows."""
        dates = {name: np.concatenate(parts) for name, parts in self.dates.items()}
        values = {name: np.concatenate(parts) for name, parts in self.values.items()}
        return frames.build(self.layout, self.names, dates, values, like)
