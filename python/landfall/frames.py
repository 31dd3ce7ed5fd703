"""Data frames of pandas and polars, read as series in long form, and forecasts as frames of the same kind."""

from __future__ import annotations

import dataclasses
import importlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from . import dates as calendar
from .errors import ArgumentError, InvalidValueError, MissingColumnError
from .tables import UNEVEN, Layout, Names, Table, about

#: A data frame of pandas or of polars. Neither is a dependency.
Frame = Any


def read(
    frame: Frame,
    *,
    series_id: str | None,
    named: bool,
    date_column: str,
    columns: Sequence[str],
    targets: int,
    categorical: Sequence[str] = (),
    ahead: bool = False,
    like: Layout | None = None,
) -> Table:
    """The series of a frame. `named` says that its names were asked for: else a frame without them is one series. The
    columns of `categorical` hold names, the others numbers; with `ahead` it has the rows to forecast. With `like` the
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
            if ahead:
                known = ", ".join(present)
                raise MissingColumnError(
                    f"no column `{column}`, which is known in advance; the frame has {known}. Add its values for the rows to "
                    "forecast"
                )
            raise _missing(column, "columns" if len(columns) > targets else "target", present)
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
    values = [_categories(reader, c) if c in categorical else reader.numbers(c) for c in columns]
    codes, labels, names = reader.labels(series_id)
    keys = _keys(labels, series_id, names)
    order = None if _in_order(codes, dates) else np.lexsort((dates, codes))
    if order is not None:
        dates, values = dates[order], [column[order] for column in values]
    bounds = np.concatenate([[0], np.cumsum(np.bincount(codes, minlength=len(labels)))])
    origins = np.arange(reader.rows) if order is None else order
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
    table = Table(layout, keys, labels, bounds, dates, values, origins)
    _check(table, unit)
    if unit == "integer":
        layout = dataclasses.replace(layout, step=_step(table))
    else:
        steps = {step for step in table.spacings if step not in (None, UNEVEN)}
        written = calendar.format_of(dates, zone, clock)
        layout = dataclasses.replace(layout, date_format=written, frequencies=sorted(steps))
    if like is not None:
        layout = _continued(layout, like)
        if not ahead:
            _check_frequency(table, like)
    return dataclasses.replace(table, layout=layout)


def following(table: Table, layout: Layout, ends: Mapping[str, Any], what: str) -> Table:
    """The rows of a frame that follow the last ones of series of a forecaster with this layout. Dates are compared by the
    program; integers are counted rows there, so that they are compared here."""
    step = layout.step
    if step is None:
        return table
    firsts = []
    for place, key in enumerate(table.keys):
        dates, end = table.one(place).dates, ends.get(key)
        first = int(np.searchsorted(dates, end, side="right")) if end is not None else 0
        if end is not None and first < len(dates) and dates[first] != end + step:
            raise InvalidValueError(
                f"{what}: {about(key)}{layout.date_column} has {dates[first]} where {end + step} is forecast; give one row "
                "for each step"
            )
        firsts.append(first)
    return table.part(table.bounds[:-1] + np.array(firsts), table.bounds[1:])


def _in_order(codes: np.ndarray, dates: np.ndarray) -> bool:
    """Whether the rows of each series stand behind each other and ascend."""
    same = codes[1:] == codes[:-1]
    return bool(np.all(np.where(same, dates[1:] >= dates[:-1], codes[1:] > codes[:-1])))


def _categories(reader: Any, column: str) -> Names:
    """The cells of a column of names."""
    places, labels = reader.names(column)
    missing = np.flatnonzero(places < 0)
    if len(missing):
        raise InvalidValueError(
            f"column `{column}` is missing in row {missing[0]} of the frame (from 0), and a categorical column needs a name "
            "in each row"
        )
    return Names(places, [str(label).strip() for label in labels])


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


def _check(table: Table, unit: str) -> None:
    """Refuses dates that are there twice in a series, and infinite values."""
    layout, dates, origins = table.layout, table.dates, table.origins
    assert origins is not None
    name = layout.date_column
    inside = np.full(max(len(dates) - 1, 0), True)
    inside[table.bounds[1:-1] - 1] = False
    twice = np.flatnonzero((dates[1:] == dates[:-1]) & inside)
    if len(twice):
        at = int(twice[0])
        raise InvalidValueError(
            f"{about(table.key_of(at))}{name} {calendar.shown(dates[at], unit)} is there twice, in rows {origins[at]} and "
            f"{origins[at + 1]} of the frame (from 0); keep one row per series and date, or name the column that tells series "
            "apart with series_id"
        )
    for column, values in zip(layout.columns, table.values):
        infinite = np.arange(0) if isinstance(values, Names) else np.flatnonzero(np.isinf(values))
        if len(infinite):
            at = int(infinite[0])
            raise InvalidValueError(
                f"{about(table.key_of(at))}column `{column}` is infinite in row {origins[at]} of the frame (from 0); correct "
                "it, or make it missing"
            )


def _step(table: Table) -> int:
    """The step of integers, which must be the same from each row to the next."""
    steps = np.diff(table.dates)
    inside = np.full(len(steps), True)
    inside[table.bounds[1:-1] - 1] = False
    if not inside.any():
        return 1
    found, counts = np.unique(steps[inside], return_counts=True)
    step = int(found[np.argmax(counts)])
    uneven = np.flatnonzero((steps != step) & inside)
    if len(uneven):
        at = int(uneven[0])
        raise InvalidValueError(
            f"{about(table.key_of(at))}{table.layout.date_column} steps from {table.dates[at]} to {table.dates[at + 1]}, where "
            f"the usual step is {step}; add the rows between, their values may be missing, or give dates"
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
        order = [pattern for _, pattern in calendar.FORMATS]
        plain = [f.removesuffix("%:z") for f in (layout.date_format, like.date_format)]
        if order.index(plain[0]) > order.index(plain[1]):
            raise InvalidValueError(
                f"column `{like.date_column}` has times here that are finer than those of the frame that was "
                f"fitted ({plain[0]} against "
                f"{plain[1]}); give data of the same frequency"
            )
    own = {name: getattr(layout, name) for name in ("kind", "columns", "targets", "dates", "zone", "names", "categorical")}
    return dataclasses.replace(like, **own)


def _check_frequency(table: Table, like: Layout) -> None:
    """Refuses series of another frequency than those that were fitted."""
    if not like.frequencies:
        return
    for key, step, rows in zip(table.keys, table.spacings, np.diff(table.bounds).tolist()):
        # Fewer dates may be those of a week, and business days or not.
        if rows > 5 and step not in (None, UNEVEN, *like.frequencies):
            raise InvalidValueError(
                f"{about(key)}column `{like.date_column}` has the frequency {step!r} here and had "
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
