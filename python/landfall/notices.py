"""What a forecaster warns of."""

from __future__ import annotations

import sys
import warnings

from .frame_files import of_frame


class DataWarning(UserWarning):
    """What was filled, changed or left out of a frame."""


class BaselineWarning(UserWarning):
    """That a baseline, which needs no training, is as good on the test windows."""


def warn(note: str, kind: type[Warning] = DataWarning) -> None:
    """Warns of something in the caller's own line."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__package__") == __package__:
        level, frame = level + 1, frame.f_back
    warnings.warn(of_frame(note), kind, stacklevel=level)
