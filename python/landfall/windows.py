"""Windows of a cross-validation: which rows are known at each cutoff."""

from __future__ import annotations

import numpy as np

from . import dates
from .errors import InvalidValueError
from .notices import warn
from .tables import Table


def known(whole: Table, horizon: int, n_windows: int, step_size: int) -> tuple[Table, list[np.ndarray]]:
    """The series that are long enough, and for each window how many rows of each are known at its cutoff. Rows that the
    dates skip are counted, because they are forecast too."""
    held_out = [horizon + step_size * (n_windows - 1 - window) for window in range(n_windows)]
    places = [_places(whole.one(place).dates, whole) for place in range(len(whole))]
    lengths = [int(its[-1]) + 1 for its in places]
    long_enough = [at for at, length in enumerate(lengths) if length > held_out[0]]
    if not long_enough:
        raise InvalidValueError(
            f"{n_windows} windows of horizon {horizon}, {step_size} rows apart, take {held_out[0]} rows and "
            f"some before them to fit on; the longest series has {max(lengths)}: give longer series, or fewer or closer "
            "windows"
        )
    for key, length in zip(whole.keys, lengths):
        if length <= held_out[0]:
            warn(f"series `{key}` is left out: it has {length} rows and the windows take {held_out[0]}")
    counts = [
        np.array([int(places[at].searchsorted(places[at][-1] - rows, side="right")) for at in long_enough])
        for rows in held_out
    ]
    return whole.series(long_enough), counts


def _places(of: np.ndarray, whole: Table) -> np.ndarray:
    """How many steps each row is behind the first one."""
    spaced = dates.places(of) if whole.layout.step is None else None
    return np.arange(len(of)) if spaced is None else spaced[0]
