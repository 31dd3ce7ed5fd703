"""The settings of a forecaster: those of the program, by their names there."""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Iterable, Mapping
from numbers import Real
from typing import Any

import numpy as np

from . import _landfall
from .errors import ArgumentError, InvalidValueError

#: Arguments of a forecaster that are no settings of the program.
_OWN = ("alias", "folder", "progress")

#: Settings that are the frame's: what it says need not be said again.
_OF_THE_FRAME = ("data", "separator", "decimal", "thousands", "date_format", "synthetic", "samples", "channels")

#: What other libraries call a setting.
_ELSEWHERE = {
    "h": "horizon",
    "input_size": "context",
    "lookback": "context",
    "learning_rate": "lr",
    "batch_size": "batch",
    "windows_batch_size": "batch",
    "random_seed": "seed",
    "random_state": "seed",
    "id_col": "series_id",
    "time_col": "date_column",
    "target_col": "target",
    "precision": "dtype",
    "accelerator": "device",
    "optimizer_kwargs": "betas",
    "early_stop_patience_steps": "patience",
    "gradient_clip_val": "clip",
    "patch_len": "patch",
    "quantile": "quantiles",
    "val_size": "split",
    "futr_exog_list": "known_future",
    "future_covariates": "known_future",
    "hist_exog_list": "columns",
    "past_covariates": "columns",
    "stat_exog_list": "static",
    "static_covariates": "static",
    "add_encoders": "calendar",
}

#: What is no setting, and why.
_DETECTED = {
    "freq": "the frequency is that of the dates",
    "scaler": "each series is scaled by mean and standard deviation of its training rows",
    "scaler_type": "each series is scaled by mean and standard deviation of its training rows",
}


def described() -> dict[str, str]:
    """What each setting of the program is, by its name."""
    return {name: what for name, what in _landfall._keywords() if name not in _OF_THE_FRAME}


def names() -> list[str]:
    """The names of all settings."""
    return sorted({*_OWN, *described()})


def check(settings: Mapping[str, Any]) -> None:
    """Refuses unknown settings, with the nearest known ones."""
    known = names()
    for name in settings:
        if name in known:
            continue
        if name in _OF_THE_FRAME:
            raise ArgumentError(f"setting `{name}` is not needed: the frame is the data")
        if name in _DETECTED:
            raise ArgumentError(f"no setting `{name}`: {_DETECTED[name]}")
        near = [_ELSEWHERE[name]] if name in _ELSEWHERE else difflib.get_close_matches(name, known, n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(f'`{n}`' for n in near)}?" if near else "Forecaster.settings() lists all"
        raise ArgumentError(f"no setting `{name}`; {hint}")


def whole(name: str, number: Any) -> None:
    """Refuses what is no whole number from 1 on."""
    if isinstance(number, bool) or not isinstance(number, (int, np.integer)) or number < 1:
        raise InvalidValueError(f"{name} {number!r}: give a whole number from 1 on")


def levels(given: Any) -> list[float] | None:
    """Levels of intervals in percent, of which one may stand alone."""
    listed = [given] if isinstance(given, Real) else given
    if listed is None:
        return None
    if isinstance(listed, str) or not isinstance(listed, Iterable) or not all(isinstance(one, Real) for one in listed):
        raise ArgumentError(f"level {given!r}: give a percentage such as 80, or a list of them")
    return [float(one) for one in listed]


def is_preset(name: str) -> bool:
    """Whether a recipe has this name."""
    try:
        _landfall._check(to_json({"preset": name}))
    except InvalidValueError:
        return False
    return True


def columns(setting: str, given: Any) -> list[str]:
    """Names of columns, of which one may stand alone."""
    listed = [given] if isinstance(given, str) else [] if given is None else given
    if not isinstance(listed, Iterable) or not all(isinstance(name, str) for name in listed):
        raise ArgumentError(f"{setting} {given!r}: give the name of a column, a str, or a list of names")
    return list(listed)


def to_json(settings: Mapping[str, Any]) -> str:
    """Settings as an object of JSON."""
    return "{" + ", ".join(f"{json.dumps(name)}: {_one_to_json(name, value)}" for name, value in settings.items()) + "}"


def _one_to_json(name: str, setting: Any) -> str:
    """The value of a setting as JSON; an error names the setting."""

    def plain(value: Any) -> Any:
        if isinstance(value, (np.generic, np.ndarray)):
            return value.tolist()
        if isinstance(value, os.PathLike):
            return os.fspath(value)
        call = "; call it, and give what it returns" if callable(value) and not isinstance(value, type) else ""
        raise ArgumentError(
            f"{name} is {value!r}, of type {type(value).__qualname__}; it must be a number, a text, a list or a dict{call}"
        )

    try:
        return json.dumps(setting, default=plain, allow_nan=False)
    except ValueError:
        raise InvalidValueError(f"{name} is {setting!r}; its numbers must be finite") from None
