"""Data frames of pandas and polars as series in long form, and forecasts as frames of the same kind."""

from __future__ import annotations

import csv
import dataclasses
import importlib
import io
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from . import dates as calendar
from .errors import ArgumentError, InvalidValueError, MissingColumnError
from .notices import warn

#: A data frame of pandas or of polars. Neither is a dependency.
Frame = Any


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
        """The name of the column of dates in the file. Integers are counted rows, and the name of a date would make
        years of them."""
        name = self.date_column if self.step is None else "step"
        while self.step is not None and name in (self.series_id, *self.columns):
            name += "_"
        return name

    def shown(self, date: int) -> str:
        """A date, for a person."""
        return calendar.shown(date, "integer" if self.step is not None else self.dates)

    def settings(self) -> dict[str, Any]:
        """How the program reads the file, as settings."""
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
class OneSeries:
    """The rows of a series, sorted by date."""

    #: As the file has it; empty for the series of a frame without names.
    key: str
    #: As the frame has it.
    name: Any
    #: Nanoseconds since 1970, or integers.
    dates: np.ndarray
    #: A column for each of the layout's, NaN where a value is missing; of names, texts.
    values: list[np.ndarray]

    def first(self, rows: int) -> OneSeries:
        """Its first rows."""
        return dataclasses.replace(self, dates=self.dates[:rows], values=[v[:rows] for v in self.values])

    def known(self) -> int:
        """Rows up to the last one with a value: those that a forecast follows."""
        any_value = np.logical_or.reduce([v != "" if v.dtype == object else ~np.isnan(v) for v in self.values])
        found = np.flatnonzero(any_value)
        return int(found[-1]) + 1 if len(found) else 0


@dataclasses.dataclass(frozen=True)
class Table:
    """The series of a frame."""

    layout: Layout
    series: list[OneSeries]

    def csv(self) -> str:
        """The text of a file that holds it, number for number."""
        layout = self.layout
        head = [layout.series_id, layout.date_header, *layout.columns]
        lines = [",".join(_quoted(name) for name in head if name is not None)]
        for one in self.series:
            lines.extend(self._rows(one))
        return "\n".join(lines) + "\n"

    def warn_of_uneven_dates(self) -> None:
        """Says which series has dates that no forecast continues."""
        for one in self.series:
            if self.layout.step is None and len(one.dates) > 1 and calendar.places(one.dates) is None:
                where = f"series `{one.key}`: " if one.key else ""
                warn(
                    f"{where}column `{self.layout.date_column}` is not evenly spaced, so that predict() cannot continue its "
                    "dates; give evenly spaced dates, or integers 0, 1, 2, ... for dates"
                )
                return

    def until(self, at: Any) -> list[int]:
        """How many rows of each series are known at a date that a person gives, none of those that have no row of it."""
        layout, instant = self.layout, calendar.instant(at, self.layout)
        counts, reasons = [], []
        for one in self.series:
            count = int(np.searchsorted(one.dates, instant, side="right"))
            if count and one.dates[count - 1] == instant:
                counts.append(count)
                continue
            counts.append(0)
            before, after = (layout.shown(date) for date in one.dates[[max(count - 1, 0), min(count, len(one.dates) - 1)]])
            if not count:
                reason = f"the first row is {after}, after {at}"
            elif count == len(one.dates):
                reason = f"the last row is {before}, before {at}, and the rows between are not known"
            else:
                reason = f"there is no row of {at}; the nearest ones are {before} and {after}"
            reasons.append((f"series `{one.key}`" if one.key else "", reason))
        if not any(counts):
            raise InvalidValueError(f"at {at}: " + ": ".join(part for part in reasons[0] if part))
        for series, reason in reasons:
            warn(f"{series} is left out: {reason}")
        return counts

    def cut(self, rows: Sequence[int]) -> Table:
        """The first rows of each series; those of which there are none are left out."""
        return dataclasses.replace(self, series=[one.first(n) for one, n in zip(self.series, rows) if n > 0])

    def ahead(self, rows: Sequence[int], columns: Sequence[str]) -> Table:
        """These columns of the rows behind the first ones of each series."""
        places = [self.layout.columns.index(column) for column in columns]
        series = [
            dataclasses.replace(one, dates=one.dates[n:], values=[one.values[place][n:] for place in places])
            for one, n in zip(self.series, rows)
            if n > 0
        ]
        return Table(of_columns(self.layout, columns), series)

    def _rows(self, one: OneSeries) -> list[str]:
        cells = [calendar.written(one.dates, self.layout), *(_cells(v) for v in one.values)]
        if self.layout.series_id is not None:
            cells.insert(0, [_quoted(one.key)] * len(one.dates))
        return [",".join(row) for row in zip(*cells)]


def _quoted(cell: str) -> str:
    return '"' + cell.replace('"', '""') + '"' if any(c in cell for c in ',"\n\r') else cell


def of_columns(layout: Layout, columns: Sequence[str]) -> Layout:
    """The layout of some of the columns, which says of the dates what the whole one says."""
    # Integers are counted rows under the same name.
    names = [c for c in layout.categorical if c in columns]
    return dataclasses.replace(layout, columns=list(columns), targets=len(columns), categorical=names)


def _cells(values: np.ndarray) -> list[str]:
    return [_quoted(text) for text in values] if values.dtype == object else _numbers(values)


def _numbers(values: np.ndarray) -> list[str]:
    # The fewest digits that are this number and no other of its type.
    texts = values.astype(str).tolist() if values.dtype == np.float32 else [repr(v) for v in values.tolist()]
    return ["" if text == "nan" else text for text in texts]


def read(
    frame: Frame,
    *,
    series_id: str | None,
    named: bool,
    date_column: str,
    columns: Sequence[str],
    targets: int,
    categorical: Sequence[str] = (),
    named_by: str | None = None,
    like: Layout | None = None,
) -> Table:
    """The series of a frame. `named` says that its names were asked for: else a frame without them is one series. The
    columns of `categorical` hold names, the others numbers; `named_by` is the setting that names a column. With `like` the
    frame is to be continued by a forecaster that was fitted on such a frame."""
    reader = _reader(frame)
    present = reader.columns
    if series_id is not None and series_id not in present:
        if named:
            raise _missing(series_id, "series_id", present)
        series_id = None
    if date_column not in present:
        raise _missing(date_column, "date_column", present)
    for column in columns:
        if column not in present:
            raise _missing(column, named_by or ("columns" if len(columns) > targets else "target"), present)
    used = [name for name in (series_id, date_column, *columns) if name is not None]
    for name in used:
        if used.count(name) > 1:
            raise InvalidValueError(
                f"column `{name}` is asked for twice: each has one part, the series' name, the date or a value"
            )
        if name != name.strip() or not name:
            raise InvalidValueError(f"column {name!r}: its name is empty or begins or ends with a blank; rename it")
    if reader.rows == 0:
        raise InvalidValueError("the frame has no rows")
    dates, utc, zone, unit = reader.dates(date_column)
    clock = utc is not None and (calendar.same_time(dates) if like is None else like.clock)
    if utc is not None and not clock:
        dates = utc
    values = [_texts(reader, c) if c in categorical else reader.numbers(c) for c in columns]
    codes, labels, names = reader.labels(series_id)
    keys = _keys(labels, series_id, names)
    series = []
    order = np.lexsort((dates, codes))
    for code, rows in enumerate(np.split(order, np.cumsum(np.bincount(codes))[:-1])):
        one = OneSeries(keys[code], labels[code], dates[rows], [v[rows] for v in values])
        _check(one, rows, columns, date_column, unit)
        series.append(one)
    layout = Layout(
        kind=reader.kind,
        series_id=series_id,
        date_column=date_column,
        columns=list(columns),
        targets=targets,
        dates=unit,
        zone=zone,
        clock=clock,
        names=names,
        categorical=[column for column in columns if column in categorical],
    )
    if unit == "integer":
        layout = dataclasses.replace(layout, step=_step(series, date_column))
    else:
        steps = [found[1] for one in series if (found := calendar.places(one.dates)) is not None]
        written = calendar.format_of([one.dates for one in series], zone, clock)
        layout = dataclasses.replace(layout, date_format=written, frequencies=sorted(set(steps)))
    if like is None:
        return Table(layout, series)
    layout = _continued(layout, like)
    if named_by is None:
        _check_frequency(series, like)
    return Table(layout, series)


def following(table: Table, layout: Layout, ends: Mapping[str, Any], what: str) -> Table:
    """The rows of a frame that follow the last ones of series of a forecaster with this layout. Dates are compared by the
    program; integers are counted rows there, so that they are compared here."""
    step = layout.step
    if step is None:
        return table
    series = []
    for one in table.series:
        end = ends.get(one.key)
        kept = one.dates > end if end is not None else np.full(len(one.dates), True)
        dates = one.dates[kept]
        if end is not None and len(dates) and dates[0] != end + step:
            where = f"series `{one.key}`: " if one.key else ""
            raise InvalidValueError(
                f"{what}: {where}{layout.date_column} has {dates[0]} where {end + step} is forecast; give one row for each step"
            )
        series.append(dataclasses.replace(one, dates=dates, values=[v[kept] for v in one.values]))
    return dataclasses.replace(table, series=[one for one in series if len(one.dates)])


def _texts(reader: Any, column: str) -> np.ndarray:
    """The names of a column."""
    cells = reader.names(column)
    missing = next((row for row, cell in enumerate(cells) if cell is None), None)
    if missing is not None:
        raise InvalidValueError(
            f"column `{column}` is missing in row {missing} of the frame (from 0), and a categorical column needs a name "
            "in each row"
        )
    texts = np.empty(len(cells), dtype=object)
    texts[:] = [str(cell).strip() for cell in cells]
    return texts


def _missing(name: str, setting: str, present: Sequence[str]) -> MissingColumnError:
    known = ", ".join(present)
    return MissingColumnError(f"no column `{name}`; the frame has {known}. Name the column by {setting}=...")


def _keys(labels: Sequence[Any], series_id: str | None, names: str) -> list[str]:
    if series_id is None:
        return [""]
    for label in labels:
        if not isinstance(label, (int, np.integer) if names == "integer" else str):
            raise ArgumentError(
                f"column `{series_id}` holds {label!r} of the type {type(label).__name__}; it must hold text, integers or "
                "categories of text"
            )
        if isinstance(label, str) and (not label or label != label.strip()):
            raise InvalidValueError(
                f"column `{series_id}`: the name {label!r} is empty or begins or ends with a blank; rename the series"
            )
    return [str(label) for label in labels]


def _check(one: OneSeries, rows: np.ndarray, columns: Sequence[str], date_column: str, unit: str) -> None:
    where = f"series `{one.key}`: " if one.key else ""
    twice = np.flatnonzero(one.dates[1:] == one.dates[:-1])
    if len(twice):
        at = int(twice[0])
        date = calendar.shown(one.dates[at], unit)
        raise InvalidValueError(
            f"{where}{date_column} {date} is there twice, in rows {rows[at]} and {rows[at + 1]} of the frame "
            "(from 0); keep one "
            "row per series and date, or name the column that tells series apart with series_id"
        )
    for column, values in zip(columns, one.values):
        infinite = np.flatnonzero(np.isinf(values)) if values.dtype != object else np.arange(0)
        if len(infinite):
            row = int(rows[infinite[0]])
            raise InvalidValueError(
                f"{where}column `{column}` is infinite in row {row} of the frame (from 0); correct it, or make it "
                "missing"
            )


def _step(series: Sequence[OneSeries], date_column: str) -> int:
    """The step of integers, which must be the same from each row to the next."""
    steps = np.concatenate([np.diff(one.dates) for one in series])
    if not len(steps):
        return 1
    found, counts = np.unique(steps, return_counts=True)
    step = int(found[np.argmax(counts)])
    for one in series:
        uneven = np.flatnonzero(np.diff(one.dates) != step)
        if len(uneven):
            at = int(uneven[0])
            where = f"series `{one.key}`: " if one.key else ""
            raise InvalidValueError(
                f"{where}{date_column} steps from {one.dates[at]} to {one.dates[at + 1]}, where the usual step is "
                f"{step}; add the rows "
                "between, their values may be missing, or give dates"
            )
    return step


def _continued(layout: Layout, like: Layout) -> Layout:
    """The layout of a frame that a forecaster continues: written as the one that it was fitted on."""
    if (layout.step is None) != (like.step is None):
        was, now = ("dates" if one.step is None else "integers" for one in (like, layout))
        raise InvalidValueError(
            f"column `{like.date_column}` holds {now} here and held {was} in the frame that was fitted; give the same"
        )
    if layout.step not in (like.step, 1) and like.step is not None:
        raise InvalidValueError(
            f"column `{like.date_column}` has steps of {layout.step} here and had steps of {like.step} in the "
            "frame that was fitted"
        )
    if like.date_format is not None and layout.date_format is not None:
        if (layout.zone is None) != (like.zone is None):
            raise InvalidValueError(
                f"column `{like.date_column}`: the time zone is {layout.zone} here and was {like.zone} in the "
                "frame that was fitted; give the same"
            )
        order = [pattern for _, _, pattern in calendar.FORMATS]
        plain = [f.removesuffix("%:z") for f in (layout.date_format, like.date_format)]
        if order.index(plain[0]) > order.index(plain[1]):
            raise InvalidValueError(
                f"column `{like.date_column}` has times here that are finer than those of the frame that was "
                f"fitted ({plain[0]} against "
                f"{plain[1]}); give data of the same frequency"
            )
    return dataclasses.replace(like, kind=layout.kind, dates=layout.dates, zone=layout.zone, names=layout.names)


def _check_frequency(series: Sequence[OneSeries], like: Layout) -> None:
    """Refuses series of another frequency than those that were fitted."""
    for one in series:
        # Fewer dates may be those of a week, and business days or not.
        spaced = calendar.places(one.dates) if like.frequencies and len(one.dates) > 5 else None
        if spaced is not None and spaced[1] not in like.frequencies:
            where = f"series `{one.key}`: " if one.key else ""
            raise InvalidValueError(
                f"{where}column `{like.date_column}` has the frequency {spaced[1]!r} here and had "
                f"{' or '.join(map(repr, like.frequencies))} in the frame that was fitted; give data of the same frequency"
            )


def build(
    layout: Layout,
    names: Sequence[Any],
    dates: Mapping[str, np.ndarray],
    values: Mapping[str, np.ndarray],
    like: Frame | None,
) -> Frame:
    """A frame of the layout's kind: the names of its rows' series, columns of dates, columns of numbers. `like` is
    the frame that was fitted, where it is still there: names then have its type."""
    build_frame = _library(layout.kind).build
    return build_frame(layout, names, dates, values, like if kind_of(like) == layout.kind else None)


def kind_of(frame: Frame) -> str | None:
    """`pandas` or `polars`, or `None` for what is no frame of either."""
    for kind in ("pandas", "polars"):
        module = sys.modules.get(kind)
        if module is not None and isinstance(frame, module.DataFrame):
            return kind
    return None


def _library(kind: str) -> Any:
    """The module of a library of frames, which imports that library."""
    return importlib.import_module(f".frames_{kind}", __package__)


def _reader(frame: Frame) -> Any:
    kind = kind_of(frame)
    if kind is not None:
        return _library(kind).Reader(frame)
    if type(frame).__name__ == "LazyFrame":
        raise ArgumentError("a LazyFrame holds no rows yet; collect() it first")
    name = f"{type(frame).__module__}.{type(frame).__qualname__}"
    raise ArgumentError(f"a data frame of pandas or polars is needed, not {name}")


def no_dates(column: str, dtype: Any, how: str) -> ArgumentError:
    """What is said of a column that holds no dates, and how to convert it."""
    return ArgumentError(f"column `{column}` has the type {dtype}; it must hold dates, timestamps or integers. {how}")


def out_of_bounds(column: str) -> InvalidValueError:
    """What is said of dates that nanoseconds cannot count."""
    return InvalidValueError(f"column `{column}`: a date is before 1678 or after 2261; dates between can be read")


def no_numbers(column: str, dtype: Any) -> ArgumentError:
    """What is said of a column that holds no numbers."""
    return ArgumentError(f"column `{column}` has the type {dtype}; it must hold numbers")


#: Dates of a column: as its clock shows them; in UTC, where it has a time zone; the zone; the unit.
ColumnDates = tuple[np.ndarray, "np.ndarray | None", "str | None", str]


def read_csv(text: str, layout: Layout, ids: Mapping[str, Any]) -> Table:
    """The table that :meth:`Table.csv` wrote."""
    rows = list(csv.reader(io.StringIO(text)))[1:]
    first = 0 if layout.series_id is None else 1
    keys = [row[0] if first else "" for row in rows]
    if layout.step is not None:
        dates = np.array([int(row[first]) for row in rows], dtype=np.int64)
    else:
        plain = [row[first].removesuffix("+00:00").replace(" ", "T") for row in rows]
        dates = np.array(plain, dtype="datetime64[ns]").view(np.int64)
    columns = range(first + 1, first + 1 + len(layout.columns))
    values = [
        np.array([row[c] for row in rows], dtype=object)
        if name in layout.categorical
        else np.array([float(row[c] or "nan") for row in rows])
        for c, name in zip(columns, layout.columns)
    ]
    series = []
    places: dict[str, list[int]] = {}
    for place, key in enumerate(keys):
        places.setdefault(key, []).append(place)
    for key, its in places.items():
        series.append(OneSeries(key, ids.get(key, key), dates[its], [v[its] for v in values]))
    return Table(layout, series)
