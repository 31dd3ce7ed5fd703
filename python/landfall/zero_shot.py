"""The forecaster that needs no training: `Forecaster("zero-shot")`."""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from . import _landfall, keywords
from .errors import ArgumentError, InvalidValueError, NotFittedError
from .forecaster import Forecaster, no_gpu_after_fork
from .frames import Frame
from .notices import warn
from .rows import Forecasts, Rows
from .tables import Table

#: Its name as a model.
MODEL = "zero-shot"

#: The settings that mean something without a training.
_USED = ("horizon", "device", "threads", "quantiles", "interval", "fill", "fill_gaps", "progress")

#: Arguments that name covariates.
_COVARIATES = ("known_future", "static", "categorical", "calendar", "columns")

#: The level of the interval where none is asked for: between the outermost quantiles of the network.
_INTERVAL = [80.0]


def _weights(path: str | os.PathLike[str]) -> str:
    """The path of weights, wherever the process goes."""
    if not isinstance(path, (str, os.PathLike)) or isinstance(os.fspath(path), bytes):
        raise ArgumentError(f"pretrained {path!r}: give the path of weights.safetensors, a str or a Path")
    whole = os.path.abspath(path)
    _landfall._check_pretrained(whole)
    return whole


class ZeroShot(Forecaster):
    """Forecasts series by the pretrained model that the package carries: :meth:`fit` trains nothing and only keeps the frame.

    It is what `Forecaster("zero-shot")` makes. `pretrained` is a file of weights that `landfall pretrain` wrote, or a folder
    of a Chronos-2 or Chronos-Bolt (:mod:`landfall.chronos`), in place of those of the package; it is read again for each forecast, and a pickle holds its path. Of the settings `horizon`, `device`, `threads`, `quantiles`,
    `interval`, `fill` and `fill_gaps` are taken. It reads no covariates.

    Raises:
        ArgumentError: For an argument that means nothing here.
        FileError: For weights that are not there, are damaged or are of something else.
    """

    def __init__(
        self,
        model: str = MODEL,
        horizon: int | None = None,
        *,
        alias: str | None = None,
        series_id: str | None = None,
        date_column: str = "ds",
        target: str | Sequence[str] | None = None,
        pretrained: str | os.PathLike[str] | None = None,
        **settings: Any,
    ) -> None:
        keywords.check({name: value for name, value in settings.items() if name not in _COVARIATES})
        for name, value in settings.items():
            if value is not None and name not in _USED:
                why = "it reads no covariates" if name in _COVARIATES else "it trains nothing"
                raise ArgumentError(f"{name} and {MODEL}: {why}; leave {name} out, or choose another model")
        self._pretrained = None if pretrained is None else _weights(pretrained)
        quantiles = settings.pop("quantiles", None)
        super().__init__(
            "auto",
            horizon,
            alias=alias or MODEL,
            series_id=series_id,
            date_column=date_column,
            target=target,
            **settings,
        )
        self._settings = {"model": MODEL, **self._settings}
        if quantiles is not None:
            self._settings["quantiles"] = list(quantiles)
        self._table: Table | None = None
        self._rows = horizon

    def fit(self, df: Frame) -> ZeroShot:
        """Keeps the series of a frame for :meth:`predict`; nothing is trained.

        Raises:
            MissingColumnError: A column that is not there.
            ArgumentError: A column, or a frame, of the wrong type.
            InvalidValueError: Values, dates or names that cannot be read.
        """
        table = self._read(df)
        Rows(table.layout, self._targets, self.alias)
        table.warn_of_uneven_dates()
        self._train(table)
        self._fitted = df.iloc[:0] if table.layout.kind == "pandas" else df.clear()
        return self

    def predict(
        self,
        df: Frame | None = None,
        horizon: int | None = None,
        *,
        futr_df: Frame | None = None,
        at: Any = None,
        level: float | Sequence[float] | None = None,
        weights: str = "best",
    ) -> Frame:
        """As :meth:`Forecaster.predict`, of any horizon up to 512 rows. An interval of 80 % is forecast where no `level` and no
        setting `interval` or `quantiles` says otherwise.

        Raises:
            NotFittedError: Without :meth:`fit` and without a frame.
            InvalidValueError: Without a horizon.
        """
        if horizon is not None:
            keywords.whole("horizon", horizon)
        rows = horizon or self._settings.get("horizon")
        if rows is None:
            raise InvalidValueError('a horizon is needed: Forecaster("zero-shot", horizon=12), or predict(horizon=12)')
        self._rows = rows
        if self._table is None and df is not None:
            self.fit(df)
        return super().predict(df, horizon, futr_df=futr_df, at=at, level=level, weights=weights)

    def cross_validation(self, df: Frame, n_windows: int = 1, step_size: int = 1, *, refit: bool | int = False) -> Frame:
        """As :meth:`Forecaster.cross_validation`; there is nothing to fit again."""
        self._rows = self._settings.get("horizon")
        return super().cross_validation(df, n_windows, step_size, refit=refit)

    @property
    def folder(self) -> Path:
        """It has none.

        Raises:
            NotFittedError: Always.
        """
        raise NotFittedError(f"{MODEL} has no run, and so no directory of one")

    @property
    def scores(self) -> dict[str, Any]:
        """It has none: `cross_validation` tells how good its forecasts were."""
        raise NotFittedError(f"{MODEL} tests nothing by itself; cross_validation(df) compares its forecasts with actual values")

    def resume(self, **changes: Any) -> NoReturn:
        """It trains nothing.

        Raises:
            InvalidValueError: Always.
        """
        raise InvalidValueError(f"{MODEL} trains nothing, so there is nothing to resume")

    def save(self, folder: str | os.PathLike[str]) -> NoReturn:
        """It has no run.

        Raises:
            InvalidValueError: Always.
        """
        raise InvalidValueError(f"{MODEL} has no run to save: its weights are the package's; pickle keeps the frame")

    def _like_this(self) -> Forecaster:
        return copy.copy(self)

    def _train(self, table: Table) -> None:
        self._layout, self._table = table.layout, table
        self._ids = dict(zip(table.keys, table.names))

    def _forecasts(
        self,
        path: Path,
        tables: Sequence[tuple[Table | None, Table | None, Table | None]],
        weights: str,
        level: float | Sequence[float] | None = None,
    ) -> list[Forecasts]:
        given = [self._own_table(path) if own is None else own for own, _, _ in tables]
        settings: Mapping[str, Any] = {**self._settings, **given[0].layout.settings(), "horizon": self._rows}
        no_gpu_after_fork(settings.get("device", "auto"))
        levels = keywords.levels(level)
        if levels is None:
            levels = self._settings.get("interval", [] if "quantiles" in settings else _INTERVAL)
        settings = {name: value for name, value in settings.items() if name not in ("model", "interval")}
        columns = [table.columns() for table in given]
        answers = _landfall._forecast_without_run(keywords.to_json(settings), columns, levels, self._pretrained)
        for note in dict.fromkeys(note for *_, notes in answers for note in notes):
            warn(note)
        return [Forecasts.of(*answer[:-1]) for answer in answers]

    def _tested(self) -> dict[str, Any] | None:
        return None

    def _is_complete(self) -> bool:
        return True

    def _need_run(self) -> Path:
        if self._table is None:
            raise NotFittedError("this forecaster has no series; call fit(df), which trains nothing, or predict(df)")
        return Path()

    def _own_table(self, path: Path) -> Table:
        self._need_run()
        assert self._table is not None
        return self._table

