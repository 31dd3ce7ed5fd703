"""Charts of forecasts. Importing this needs matplotlib."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.dates as mdates
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from . import frames
from .errors import ArgumentError, InvalidValueError, MissingColumnError
from .frames import Frame
from .tables import Layout, Table

#: Series that are drawn where none are named.
_MOST = 4


def plot(
    table: Table,
    predicted: Frame,
    layout: Layout,
    alias: str,
    targets: Sequence[str],
    levels: Sequence[float],
    ids: Mapping[str, Any],
    series: Any,
    history: int | None,
) -> Figure:
    """Draws series and their forecasts, one chart below the other."""
    columns = [alias if len(targets) == 1 else f"{alias}_{target}" for target in targets]
    if frames.kind_of(predicted) is None:
        raise ArgumentError(f"plot() takes the frame that predict() returned, not {type(predicted).__qualname__}")
    absent = [
        c for c in (layout.series_id, layout.date_column, *columns) if c is not None and c not in predicted.columns
    ]
    if absent:
        raise MissingColumnError(
            f"no column `{absent[0]}`; the frame has {', '.join(map(str, predicted.columns))}. Give plot() the frame that "
            "predict() returned"
        )
    names = (
        np.array([str(n) for n in predicted[layout.series_id]])
        if layout.series_id is not None
        else np.array([""] * len(predicted))
    )
    stamps = np.asarray(predicted[layout.date_column])
    named = [series] if np.isscalar(series) else series
    wanted = [str(name) for name in named] if named is not None else table.keys[:_MOST]
    if not wanted:
        raise InvalidValueError("series is empty; name the series to draw, or leave it out to draw the first four")
    known = {key: place for place, key in enumerate(table.keys)}
    for name in wanted:
        if name not in known:
            raise InvalidValueError(f"no series `{name}`; choose from {', '.join(list(known)[:20])}")
    charts = [(name, target, column) for name in wanted for target, column in zip(targets, columns)]
    figure, axes = plt.subplots(len(charts), 1, figsize=(9, 2.6 * len(charts)), squeeze=False, layout="constrained")
    for axis, (name, target, column) in zip(axes[:, 0], charts):
        one, mask = table.one(known[name]), names == name
        rows = history if history is not None else 4 * max(1, int(mask.sum()))
        own = frames.build(layout, [one.name] * len(one.dates), {layout.date_column: one.dates}, {}, None)
        dates = np.asarray(own[layout.date_column])[-rows:]
        axis.plot(dates, one.values[layout.columns.index(target)][-rows:], color="0.35", label=target)
        for number, (level, low, high) in enumerate(_intervals(predicted, column)):
            # The widest first; those within it are darker.
            alpha, label = 0.18 + 0.14 * number, f"{level} %"
            low, high = np.asarray(predicted[low])[mask], np.asarray(predicted[high])[mask]
            axis.fill_between(stamps[mask], low, high, color="C0", alpha=alpha, linewidth=0, label=label)
        axis.plot(stamps[mask], np.asarray(predicted[column])[mask], color="C0", label=column)
        if len(levels) > 1:
            low, high = (np.asarray(predicted[f"{column}_q{level:g}"])[mask] for level in (levels[0], levels[-1]))
            axis.fill_between(
                stamps[mask], low, high, color="C0", alpha=0.2, linewidth=0, label=f"{levels[0]:g} to {levels[-1]:g}"
            )
        axis.set_title(" ".join(part for part in (name, target if len(targets) > 1 else "") if part), loc="left")
        axis.legend(loc="upper left", frameon=False)
        if np.issubdtype(dates.dtype, np.datetime64):
            locator = mdates.AutoDateLocator(minticks=3, maxticks=8)
            axis.xaxis.set_major_locator(locator)
            axis.xaxis.set_major_formatter(mdates.ConciseDateFormatter(locator))
    return figure


def _intervals(predicted: Frame, column: str) -> list[tuple[str, str, str]]:
    """The levels of a column's intervals, the widest first, with the names of their bounds."""
    prefix = f"{column}-lo-"
    levels = [str(name)[len(prefix) :] for name in predicted.columns if str(name).startswith(prefix)]
    both = [(level, f"{prefix}{level}", f"{column}-hi-{level}") for level in levels]
    return sorted((three for three in both if three[2] in predicted.columns), key=lambda three: -float(three[0]))
