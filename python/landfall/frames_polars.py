"""Data frames of polars. Importing this needs it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from . import _landfall
from . import dates as calendar
from .errors import InvalidValueError
from .frames import ColumnDates, no_dates, no_numbers, out_of_bounds
from .tables import Layout


class Reader:
    """The columns of a frame."""

    kind = "polars"

    def __init__(self, frame: Any) -> None:
        self.frame = frame
        self.columns = list(frame.columns)
        self.rows = frame.height

    def dates(self, column: str) -> ColumnDates:
        """The dates of a column."""
        cells = self.frame[column]
        if cells.null_count():
            row = int(cells.is_null().arg_max() or 0)
            raise InvalidValueError(
                f"column `{column}` is missing in row {row} of the frame (from 0); give each row its date"
            )
        if cells.dtype.is_integer():
            return cells.cast(pl.Int64).to_numpy().copy(), None, None, "integer"

        def stamps(naive: Any) -> np.ndarray:
            in_ns = naive.cast(pl.Datetime("ns"), strict=False)
            # A product that overflows is no error there.
            if in_ns.null_count() or (in_ns.cast(naive.dtype) != naive).any():
                raise out_of_bounds(column)
            return np.array(in_ns.to_physical().to_numpy())

        if cells.dtype == pl.Date:
            return stamps(cells), None, None, "date"
        if not isinstance(cells.dtype, pl.Datetime):
            raise no_dates(column, cells.dtype, f'Convert it: df.with_columns(pl.col("{column}").str.to_datetime())')
        unit, zone = cells.dtype.time_unit, cells.dtype.time_zone

        if zone is None:
            return stamps(cells), None, None, unit
        utc = stamps(cells.dt.convert_time_zone("UTC").dt.replace_time_zone(None))
        return stamps(cells.dt.replace_time_zone(None)), utc, zone, unit

    def numbers(self, column: str) -> np.ndarray:
        """The numbers of a column, NaN where one is missing."""
        cells = self.frame[column]
        if not (cells.dtype.is_numeric() or cells.dtype == pl.Boolean):
            raise no_numbers(column, cells.dtype)
        return np.array(cells.cast(pl.Float32 if cells.dtype == pl.Float32 else pl.Float64).to_numpy())

    def names(self, column: str) -> tuple[np.ndarray, list[Any]]:
        """The name of each row by its place, -1 where it is missing, and the names in the order of first use."""
        cells = self.frame[column]
        if isinstance(cells.dtype, (pl.String, pl.Categorical, pl.Enum)) or cells.dtype.is_integer():
            # Arrow's columns, of which no Python object is made.
            found = _landfall.Columns.of_arrow(cells.cast(pl.String).to_frame()).names(cells.name)
            assert found is not None
            names: list[Any] = found[1]
            names = [int(name) for name in names] if cells.dtype.is_integer() else names
            return np.frombuffer(found[0], dtype=np.int64), names
        names = [name for name in cells.unique(maintain_order=True).to_list() if name is not None]
        places = {name: place for place, name in enumerate(names)}
        codes = (-1 if name is None else places[name] for name in cells.to_list())
        return np.fromiter(codes, dtype=np.int64, count=self.rows), names

    def labels(self, column: str | None) -> tuple[np.ndarray, list[Any], str]:
        """The series of each row by its number, their names in the order of first use, and the type of the names."""
        if column is None:
            return np.zeros(self.rows, dtype=np.int64), [None], "text"
        cells = self.frame[column]
        if cells.null_count():
            row = int(cells.is_null().arg_max() or 0)
            raise InvalidValueError(
                f"column `{column}` is missing in row {row} of the frame (from 0); name each row's series"
            )
        codes, labels = self.names(column)
        names = (
            "category"
            if cells.dtype in (pl.Categorical, pl.Enum)
            else "integer"
            if cells.dtype.is_integer()
            else "text"
        )
        return codes, labels, names


def build(
    layout: Layout, names: Sequence[Any], dates: Mapping[str, np.ndarray], values: Mapping[str, np.ndarray], like: Any
) -> Any:
    """A frame of a layout: see :func:`landfall.frames.build`. `like` is a frame of this library, or `None`."""
    columns: list[Any] = []
    if layout.series_id is not None:
        dtype = None
        if like is not None and layout.series_id in like.columns:
            dtype = like.schema[layout.series_id]
        elif layout.names == "category":
            dtype = pl.Categorical
        columns.append(pl.Series(layout.series_id, list(names), dtype=dtype))
    for name, stamps in dates.items():
        if layout.zone is not None and layout.clock:
            stamps = calendar.utc(stamps, layout.zone)
        column = pl.Series(name, stamps)
        if layout.step is None:
            column = column.cast(pl.Datetime("ns"))
            if layout.dates == "date":
                column = column.cast(pl.Date)
            else:
                unit: Any = layout.dates if layout.dates in ("ms", "us", "ns") else "us"
                column = column.cast(pl.Datetime(unit))
                if layout.zone is not None:
                    column = column.dt.replace_time_zone("UTC").dt.convert_time_zone(layout.zone)
        columns.append(column)
    columns.extend(pl.Series(name, column) for name, column in values.items())
    return pl.DataFrame(columns)
