"""What a forecaster warns of."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping
from typing import Any


class DataWarning(UserWarning):
    """What was filled, changed or left out of a frame."""


class BaselineWarning(UserWarning):
    """That a baseline, which needs no training, is as good on the test windows, or is what forecasts, or a half of it."""


#: Settings of a training by steps.
_OF_STEPS = ("epochs", "max_steps", "lr", "seed")


def of_results(told: Mapping[str, Any], alias: str, settings: Mapping[str, Any]) -> None:
    """Warns of what is to be known first of the results of a run."""
    chosen = told.get("forecaster")
    # The ensemble is no baseline.
    share = None if chosen is None or chosen.get("ensemble") else chosen["share"]
    if share == 0.0:
        baseline = f"The forecasts named `{alias}` are those of a baseline, {told['winner']}."
        warn(" ".join([baseline, told["unbeaten"] or ""]).strip(), BaselineWarning)
    elif share is not None and share < 1.0:
        mean = f"The forecasts named `{alias}` are the {told['winner']}."
        warn(" ".join([mean, told["unbeaten"] or ""]).strip(), BaselineWarning)
    elif told["unbeaten"]:
        warn(told["unbeaten"], BaselineWarning)
    unused = [name for name in _OF_STEPS if name in settings]
    if chosen is not None and settings.get("model") in ("dlinear", "nlinear") and not told["steps"] and unused:
        warn(
            f"{settings['model']} is fitted by ridge regression, in no steps: {', '.join(unused)} had no effect",
            UserWarning,
        )


def warn(note: str, kind: type[Warning] = DataWarning) -> None:
    """Warns of something in the caller's own line."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__package__") == __package__:
        level, frame = level + 1, frame.f_back
    warnings.warn(note, kind, stacklevel=level)
