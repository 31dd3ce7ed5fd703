"""Data frames of pandas. Importing this needs it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from . import dates as calendar
from .errors import ArgumentError, InvalidValueError
from .frames import ColumnDates, no_dates, no_numbers, out_of_bounds
from .tables import Layout


class Reader:
    """The columns of a frame."""

    kind = "pandas"

    def __init__(self, frame: Any) -> None:
        # Names in the index, as some programs have them, are columns.
        names = [name for name in frame.index.names if name is not None and name not in frame.columns]
        frame = frame.reset_index(names) if names else frame
        self.columns = [str(c) for c in frame.columns]
        # Names of another type are copied with their columns.
        self.frame = frame if list(frame.columns) == self.columns else frame.set_axis(self.columns, axis=1)
        self.rows = len(frame)
        twice = {c for c in self.columns if self.columns.count(c) > 1}
        if twice:
            raise InvalidValueError(f"column `{sorted(twice)[0]}` is there twice; rename one of them")

    def dates(self, column: str) -> ColumnDates:
        """The dates of a column."""
        cells = self.frame[column]
        if cells.isna().any():
            raise InvalidValueError(
                f"column `{column}` is missing in row {int(np.flatnonzero(cells.isna())[0])} of the frame (from "
                "0); give each row its date"
            )
        if pd.api.types.is_integer_dtype(cells.dtype):
            return cells.to_numpy(dtype=np.int64), None, None, "integer"
        if cells.dtype == object and pd.api.types.infer_dtype(cells) in ("date", "datetime"):
            try:
                cells = pd.to_datetime(cells)
            except pd.errors.OutOfBoundsDatetime as e:
                raise out_of_bounds(column) from e
            except ValueError as e:
                raise ArgumentError(
                    f"column `{column}` holds dates of several time zones, or with one and without; give all one time zone"
                ) from e
        if not pd.api.types.is_datetime64_any_dtype(cells.dtype):
            how = f'Convert it: df["{column}"] = pd.to_datetime(df["{column}"])'
            if isinstance(cells.dtype, pd.PeriodDtype):
                how = f'Convert it: df["{column}"] = df["{column}"].dt.to_timestamp()'
            raise no_dates(column, cells.dtype, how)
        zone = cells.dt.tz
        unit = getattr(cells.dt, "unit", "ns")

        def stamps(naive: Any) -> np.ndarray:
            try:
                return np.asarray(naive.dt.as_unit("ns").to_numpy(dtype="datetime64[ns]")).view(np.int64)
            except pd.errors.OutOfBoundsDatetime as e:
                raise out_of_bounds(column) from e

        if zone is None:
            return stamps(cells), None, None, unit
        clock, utc = stamps(cells.dt.tz_localize(None)), stamps(cells.dt.tz_convert("UTC").dt.tz_localize(None))
        return clock, utc, str(zone), unit

    def numbers(self, column: str) -> np.ndarray:
        """The numbers of a column, NaN where one is missing."""
        cells = self.frame[column]
        if not pd.api.types.is_numeric_dtype(cells.dtype) or pd.api.types.is_complex_dtype(cells.dtype):
            raise no_numbers(column, cells.dtype)
        single = str(cells.dtype).lower() == "float32"
        return np.asarray(cells.to_numpy(dtype=np.float32 if single else np.float64, na_value=np.nan))

    def names(self, column: str) -> tuple[np.ndarray, list[Any]]:
        """The name of each row by its place, -1 where it is missing, and the names in the order of first use."""
        places, names = pd.factorize(self.frame[column])
        return places.astype(np.int64, copy=False), names.tolist()

    def labels(self, column: str | None) -> tuple[np.ndarray, list[Any], str]:
        """The series of each row by its number, their names in the order of first use, and the type of the names."""
        if column is None:
            return np.zeros(self.rows, dtype=np.int64), [None], "text"
        cells = self.frame[column]
        codes, labels = self.names(column)
        if (codes < 0).any():
            raise InvalidValueError(
                f"column `{column}` is missing in row {int(np.flatnonzero(codes < 0)[0])} of the frame (from 0); "
                "name each row's series"
            )
        integer = pd.api.types.is_integer_dtype(cells.dtype)
        category = isinstance(cells.dtype, pd.CategoricalDtype)
        return codes, labels, "category" if category else "integer" if integer else "text"


def build(
    layout: Layout, names: Sequence[Any], dates: Mapping[str, np.ndarray], values: Mapping[str, np.ndarray], like: Any
) -> Any:
    """A frame of a layout: see :func:`landfall.frames.build`. `like` is a frame of this library, or `None`."""
    columns: dict[str, Any] = {}
    if layout.series_id is not None:
        column = pd.Series(list(names))
        if like is not None and layout.series_id in like.columns:
            column = column.astype(like[layout.series_id].dtype)
        elif layout.names == "category":
            column = column.astype("category")
        columns[layout.series_id] = column
    for name, stamps in dates.items():
        if layout.step is not None:
            columns[name] = stamps
            continue
        if layout.zone is not None and layout.clock:
            stamps = calendar.utc(stamps, layout.zone)
        index = pd.DatetimeIndex(stamps.view("datetime64[ns]"))
        if layout.zone is not None:
            index = index.tz_localize("UTC").tz_convert(layout.zone)
        unit = layout.dates if layout.dates in ("s", "ms", "us", "ns") else "ns"
        columns[name] = index.as_unit(unit) if hasattr(index, "as_unit") else index
    return pd.DataFrame({**columns, **values})
