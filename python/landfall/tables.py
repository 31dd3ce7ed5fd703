"""The series of a data frame, as columns that the program reads."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from . import _landfall
from . import dates as calendar
from .errors import FileError, InvalidValueError
from .notices import warn


@dataclasses.dataclass(frozen=True)
class Layout:
    """What a frame's columns are, so that forecasts can be of its kind."""

    #: `pandas` or `polars`.
    kind: str
    #: The column that names the series, if there is one.
    series_id: str | None
    #: The column of the dates.
    date_column: str
    #: The columns of numbers, those to forecast first.
    columns: list[str]
    #: How many of them are forecast.
    targets: int
    #: `integer`, `date`, or the unit of the timestamps: `ns`, `us`, `ms` or `s`.
    dates: str
    #: The time zone of the timestamps.
    zone: str | None = None
    #: Whether dates are kept as the zone's clock shows them, because they all show the same time of day; else as UTC.
    clock: bool = False
    #: How the dates are written, of those that are no integers.
    date_format: str | None = None
    #: The step of integers.
    step: int | None = None
    #: The type of the series' names: `integer`, `category` or `text`.
    names: str = "text"
    #: The columns that hold names and no numbers.
    categorical: list[str] = dataclasses.field(default_factory=list)
    #: The steps between the dates of the series, such as `daily`.
    frequencies: list[str] = dataclasses.field(default_factory=list)

    @property
    def date_header(self) -> str:
        """The name of the column of dates in the run. Integers are counted rows, and the name of a date would make
        years of them."""
        name = self.date_column if self.step is None else "step"
        while self.step is not None and name in (self.series_id, *self.columns):
            name += "_"
        return name

    def shown(self, date: int) -> str:
        """A date, for a person."""
        return calendar.shown(date, "integer" if self.step is not None else self.dates)

    def settings(self) -> dict[str, Any]:
        """How the program reads the columns, as settings."""
        return {
            "separator": ",",
            "decimal": ".",
            "series_id": self.series_id,
            "date_column": self.date_column if self.step is None else None,
            "date_format": self.date_format,
            "columns": self.columns,
            "target": self.columns[: self.targets] if self.targets < len(self.columns) else None,
        }


@dataclasses.dataclass(frozen=True)
class Names:
    """The cells of a column of names."""

    #: The place of each cell among the names.
    places: np.ndarray
    #: The names, each once.
    names: list[str]

    def __getitem__(self, rows: Any) -> Names:
        return Names(self.places[rows], self.names)


@dataclasses.dataclass(frozen=True)
class OneSeries:
    """The rows of a series, sorted by date."""

    #: As the run has it; empty for the series of a frame without names.
    key: str
    #: As the frame has it.
    name: Any
    #: Nanoseconds since 1970, or integers.
    dates: np.ndarray
    #: A column for each of the layout's, NaN where a value is missing.
    values: list[np.ndarray | Names]
    #: Rows up to the last one with a value: those that a forecast follows.
    known: int


@dataclasses.dataclass(frozen=True)
class Table:
    """The series of a frame: their rows behind each other, those of each sorted by date."""

    layout: Layout
    #: The names of the series, as the run has them; one that is empty for the series of a frame without names.
    keys: list[str]
    #: The same names as the frame has them.
    names: list[Any]
    #: The first row of each series, and behind the last one the number of rows.
    bounds: np.ndarray
    #: Nanoseconds since 1970, or integers.
    dates: np.ndarray
    #: A column for each of the layout's, NaN where a value is missing.
    values: list[np.ndarray | Names]
    #: The row of the frame that each row was.
    origins: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.keys)

    def one(self, place: int) -> OneSeries:
        """A series by its place."""
        rows = slice(self.bounds[place], self.bounds[place + 1])
        values = [column[rows] for column in self.values]
        return OneSeries(self.keys[place], self.names[place], self.dates[rows], values, int(self.known[place]))

    @functools.cached_property
    def known(self) -> np.ndarray:
        """Rows of each series up to the last one with a value."""
        named = any(isinstance(column, Names) for column in self.values)
        missing = [np.isnan(column) for column in self.values if not isinstance(column, Names)]
        if named or not missing:
            return np.diff(self.bounds)
        row = np.where(np.logical_and.reduce(missing), -1, np.arange(len(self.dates)))
        return np.maximum(np.maximum.reduceat(row, self.bounds[:-1]) + 1 - self.bounds[:-1], 0)

    @property
    def ends(self) -> dict[str, int]:
        """The last date with a value of each series that has one."""
        known = self.known
        return {
            key: int(self.dates[start + rows - 1])
            for key, start, rows in zip(self.keys, self.bounds.tolist(), known.tolist())
            if rows
        }

    def columns(self) -> _landfall.Columns:
        """What the program reads."""
        layout = self.layout
        given: list[tuple[str, str, Any, list[str] | None]] = []
        if layout.series_id is not None:
            places = np.repeat(np.arange(len(self.keys)), np.diff(self.bounds))
            given.append((layout.series_id, "names", places, self.keys))
        in_utc = layout.zone is not None and not layout.clock
        kind = "integers" if layout.step is not None else "instants" if in_utc else "dates"
        given.append((layout.date_header, kind, self.dates, None))
        for name, column in zip(layout.columns, self.values):
            if isinstance(column, Names):
                given.append((name, "names", column.places, column.names))
            else:
                given.append((name, "numbers", column, None))
        return _landfall.Columns.of_arrays(given, self.origins)

    def warn_of_uneven_dates(self) -> None:
        """Says which series has dates that no forecast continues."""
        if self.layout.step is not None:
            return
        for key, spaced in zip(self.keys, self.spacings):
            if spaced is UNEVEN:
                warn(
                    f"{about(key)}column `{self.layout.date_column}` is not evenly spaced, so that predict() cannot continue its "
                    "dates; give evenly spaced dates, or integers 0, 1, 2, ... for dates"
                )
                return

    @functools.cached_property
    def spacings(self) -> list[str | None]:
        """The step of each series, such as `daily`; of a series of one row `None`."""
        # Most series have the dates of another one.
        found: dict[bytes, str | None] = {}
        steps = []
        for start, end in zip(self.bounds[:-1].tolist(), self.bounds[1:].tolist()):
            dates = self.dates[start:end]
            same = dates.tobytes()
            if same not in found:
                spaced = calendar.places(dates)
                found[same] = spaced[1] if spaced is not None else UNEVEN if len(dates) > 1 else None
            steps.append(found[same])
        return steps

    def until(self, at: Any) -> np.ndarray:
        """How many rows of each series are known at a date that a person gives, none of those that have no row of it."""
        layout, instant = self.layout, calendar.instant(at, self.layout)
        counts, reasons = [], []
        for key, start, end in zip(self.keys, self.bounds[:-1].tolist(), self.bounds[1:].tolist()):
            dates = self.dates[start:end]
            count = int(np.searchsorted(dates, instant, side="right"))
            if count and dates[count - 1] == instant:
                counts.append(count)
                continue
            counts.append(0)
            before, after = (layout.shown(date) for date in dates[[max(count - 1, 0), min(count, len(dates) - 1)]])
            if not count:
                reason = f"the first row is {after}, after {at}"
            elif count == len(dates):
                reason = f"the last row is {before}, before {at}, and the rows between are not known"
            else:
                reason = f"there is no row of {at}; the nearest ones are {before} and {after}"
            reasons.append((f"series `{key}`" if key else "", reason))
        if not any(counts):
            raise InvalidValueError(f"at {at}: " + ": ".join(part for part in reasons[0] if part))
        for series, reason in reasons:
            warn(f"{series} is left out: {reason}")
        return np.array(counts)

    def key_of(self, row: int) -> str:
        """The name of the series of a row."""
        return self.keys[int(np.searchsorted(self.bounds, row, side="right")) - 1]

    def cut(self, rows: np.ndarray) -> Table:
        """The first rows of each series; those of which there are none are left out."""
        return self.part(self.bounds[:-1], self.bounds[:-1] + rows)

    def ahead(self, rows: np.ndarray, columns: Sequence[str]) -> Table:
        """These columns of the rows behind the first ones of each series, of which there are some."""
        ends = np.where(rows > 0, self.bounds[1:], self.bounds[:-1])
        return self.of_columns(columns).part(self.bounds[:-1] + rows, ends)

    def of_columns(self, columns: Sequence[str]) -> Table:
        """The same rows with these columns alone."""
        values = [self.values[self.layout.columns.index(column)] for column in columns]
        return dataclasses.replace(self, layout=of_columns(self.layout, columns), values=values)

    def series(self, places: Sequence[int]) -> Table:
        """These series."""
        chosen = np.zeros(len(self.keys), dtype=bool)
        chosen[list(places)] = True
        return self.part(self.bounds[:-1], np.where(chosen, self.bounds[1:], self.bounds[:-1]))

    def part(self, starts: np.ndarray, ends: np.ndarray) -> Table:
        """The rows of each series from one on and before another one, of series that have some."""
        counts = ends - starts
        there = np.flatnonzero(counts > 0)
        bounds = np.concatenate([[0], np.cumsum(counts[there])])
        rows = np.arange(bounds[-1]) + np.repeat(starts[there] - bounds[:-1], counts[there])
        return dataclasses.replace(
            self,
            keys=[self.keys[place] for place in there],
            names=[self.names[place] for place in there],
            bounds=bounds,
            dates=self.dates[rows],
            values=[column[rows] for column in self.values],
            origins=None if self.origins is None else self.origins[rows],
        )


#: The step of dates that are not evenly spaced.
UNEVEN = "uneven"


def about(key: str) -> str:
    """How a message about a series begins."""
    return f"series `{key}`: " if key else ""


def of_columns(layout: Layout, columns: Sequence[str]) -> Layout:
    """The layout of some of the columns, which says of the dates what the whole one says."""
    # Integers are counted rows under the same name.
    names = [c for c in layout.categorical if c in columns]
    return dataclasses.replace(layout, columns=list(columns), targets=len(columns), categorical=names)


def kept(path: Path, layout: Layout, ids: Mapping[str, Any]) -> Table:
    """The table that a run keeps.

    Raises:
        FileError: A run that keeps it as text, as runs did before `data.arrow`.
    """
    if not path.exists():
        raise FileError(
            f"{path.parent} keeps its data as text, as runs did before data.arrow: give the frame to predict(df), or call fit(df) again"
        )
    columns = _landfall.Columns.read(path)
    header = layout.date_header
    dates = _array(columns.dates if layout.step is None else columns.integers, header, np.int64)
    places, keys = np.zeros(len(dates), dtype=np.int64), [""]
    if layout.series_id is not None:
        places, keys = _names(columns, layout.series_id)
    values = [
        Names(*_names(columns, name)) if name in layout.categorical else _array(columns.numbers, name, np.float64)
        for name in layout.columns
    ]
    bounds = np.concatenate([[0], np.cumsum(np.bincount(places, minlength=len(keys)))])
    return Table(layout, keys, [ids.get(key, key) for key in keys], bounds, dates, values)


def _array(column: Callable[[str], bytes | None], name: str, dtype: Any) -> np.ndarray:
    """A column of a run's own data."""
    data = column(name)
    if data is None:
        raise FileError(f"the data of the run has no column `{name}` of its type; the run was changed after it was written")
    return np.frombuffer(data, dtype=dtype)


def _names(columns: _landfall.Columns, name: str) -> tuple[np.ndarray, list[str]]:
    found = columns.names(name)
    places = _array(lambda _: found and found[0], name, np.int64)
    return places, found[1] if found else []
