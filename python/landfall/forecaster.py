"""Forecasters of series in data frames: :class:`Forecaster`."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _landfall, comparison, folders, frames, keywords, notices, signals, windows
from .errors import ArgumentError, DeviceError, FileError, InvalidValueError, MissingPackageError, NotFittedError
from .frames import Frame
from .notices import warn
from .progress import Progress
from .rows import Forecasts, Rows
from .tables import Layout, Table, kept

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: The process that has used a GPU: in a forked child of it no GPU can be used.
_gpu_process: int | None = None


class Forecaster:
    """Forecasts the rows after the last ones of series, with a model that :meth:`fit` trains.

    Frames are those of pandas or polars in long form: a row for each series and date, with columns `unique_id`, `ds`
    and `y`. A frame without the column `unique_id` holds one series. Dates are dates, timestamps or integers.

    Args:
        model: `auto`, `patchtst`, `tsmixer`, `tide`, `nbeats`, `dlinear`, `nlinear`, or `zero-shot`, a pretrained model that trains
            nothing (`init="zero-shot"` trains it further). `auto` has an ensemble of the latter and statistical models, trains a PatchTST and fits linear models.
            The forecast is that of what validates best: the model, its mean with a baseline, or a baseline alone, of which
            a `BaselineWarning` tells; of `auto` the ensemble too; `scores["forecaster"]` names it. `dlinear` and `nlinear` are fitted by ridge
            regression, without `max_steps`, `epochs`, `lr` and `seed`, unless `quantiles` or another `loss` than `mse` are
            asked for. A paper's recipe is chosen by `preset` instead. Of a list of names, as in `["ets", "tide", "ensemble"]`, :meth:`fit`
            trains each on the same data and keeps the one of the smallest error before the test rows; :meth:`leaderboard` has all.
            Besides networks and `auto` there are `seasonal-naive`, `ensemble` and its members `ets`, `theta`, `dynamic-theta`, `croston`,
            `tsb` and `pretrained`.
        horizon: Rows to forecast; by default a season of the data.
        alias: The name of the column of forecasts; by default that of the model, of several `best`.
        folder: Directory of the run, a new one, which every command of the program `landfall` takes; by default a
            temporary one, which is removed with the forecaster. :meth:`save` keeps it. Of several models it has a run for each.
        progress: Whether a bar is shown while it trains; by default in notebooks and terminals.
        series_id: The column that names the series; by default `unique_id`, of a frame that has it.
        date_column: The column of dates.
        target: The column to forecast, or a list of columns; by default `y`, or those of `columns` that are none of the
            covariates below.
        columns: All columns that the model reads; by default those to forecast and the covariates below. Beside a `target`
            those that are none of these are past covariates. Other columns of a frame are not looked at.
        known_future: Columns known in the rows to forecast, such as prices: :meth:`predict` takes them as `futr_df`.
        static: Columns with one value for each series.
        categorical: Those of the columns that hold names; each name becomes a column of 0 and 1.
        calendar: Features of the dates: `True` for those that suit their frequency, or names such as `["hour"]`.
        settings: Any other setting of `landfall train`, by its name: `context`, `epochs`, `max_steps`, `batch`, `lr`,
            `seed`, `device`, `dtype`, `quantiles`, `split`, `network={"d_model": 16}`, ... `pretrained` is a folder of a
            Chronos-2 or Chronos-Bolt for the ensemble of `auto`. `Forecaster.settings()` lists all.

    Raises:
        ArgumentError: For an unknown setting.
        InvalidValueError: For settings that do not fit together.
    """

    def __new__(cls, model: str | Sequence[str] = "auto", *_: Any, **__: Any) -> Forecaster:
        if cls is Forecaster and isinstance(model, str) and model == "zero-shot":
            from .zero_shot import ZeroShot

            return super().__new__(ZeroShot)
        return super().__new__(cls)

    def __init__(
        self,
        model: str | Sequence[str] = "auto",
        horizon: int | None = None,
        *,
        alias: str | None = None,
        folder: str | os.PathLike[str] | None = None,
        progress: bool | None = None,
        series_id: str | None = None,
        date_column: str = "ds",
        target: str | Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
        known_future: str | Sequence[str] | None = None,
        static: str | Sequence[str] | None = None,
        categorical: str | Sequence[str] | None = None,
        calendar: bool | Sequence[str] | None = None,
        **settings: Any,
    ) -> None:
        keywords.check(settings)
        self._names = comparison.names(model)
        if not isinstance(model, str):
            model = "auto"
        for what, text in {"model": model, "alias": alias, "series_id": series_id, "date_column": date_column}.items():
            if not isinstance(text, str) and (text is not None or what in ("model", "date_column")):
                raise ArgumentError(f"{what} {text!r}: give a str")
        self.alias = alias or ("best" if self._names is not None else settings.get("preset") or model)
        self.progress = progress
        self._given_folder = None if folder is None else Path(folder)
        self._series_id = series_id
        self._date_column = date_column
        targets, all_columns = keywords.columns("target", target), keywords.columns("columns", columns)
        given = {"known_future": known_future, "static": static, "categorical": categorical}
        covariates_of = {setting: keywords.columns(setting, names) for setting, names in given.items()}
        self._known, self._categorical = covariates_of["known_future"], covariates_of["categorical"]
        covariates = list(dict.fromkeys(name for names in covariates_of.values() for name in names))
        self._targets = targets or [c for c in all_columns if c not in covariates] or ["y"]
        both = next((c for c in self._targets if c in covariates), None)
        if both is not None:
            raise InvalidValueError(f"column `{both}` is to be forecast, so that it cannot be a covariate too")
        self._columns = list(dict.fromkeys([*self._targets, *all_columns, *covariates]))
        self._settings: dict[str, Any] = {"model": None if model == "auto" else model, "horizon": horizon, **settings}
        self._settings |= {setting: names for setting, names in covariates_of.items() if names}
        if calendar is not None and calendar is not False:
            self._settings["calendar"] = [] if calendar is True else keywords.columns("calendar", calendar)
        self._settings = {name: value for name, value in self._settings.items() if value is not None}
        try:
            _landfall._check(keywords.to_json(self._settings))
        except InvalidValueError as e:
            if e.setting == "model" and keywords.is_preset(model):
                raise InvalidValueError(f"{e}; a paper's recipe is given as preset={model!r}") from None
            raise
        if self._names is not None:
            _landfall._check_comparison(self._names, keywords.to_json(self._settings))
        self._layout: Layout | None = None
        self._path: Path | None = None
        self._temporary: folders.TemporaryFolder | None = None
        self._fitted: Frame | None = None
        self._leaderboard: dict[str, Any] | None = None
        self._ids: dict[str, Any] = {}

    @staticmethod
    def settings() -> list[str]:
        """The names of all settings; :meth:`describe` says what one is."""
        return keywords.names()

    @staticmethod
    def describe(setting: str) -> str:
        """What a setting is, and its default.

        Raises:
            ArgumentError: For an unknown setting.
        """
        keywords.check({setting: None})
        return keywords.described().get(setting, "An argument of Forecaster.")

    @property
    def folder(self) -> Path:
        """The directory of the run: `landfall report FOLDER` and every other command of the program takes it."""
        return self._need_run()

    @property
    def scores(self) -> dict[str, Any]:
        """The errors on the test windows, which are the last rows of each series as `split` divides them: `mse` and
        `mae` in scaled units, `columns` in those of the data, `baselines`, and `forecaster`, what was chosen to
        forecast with."""
        tested = self._tested()
        if tested is None:
            if self._is_complete():
                raise NotFittedError("the run was not tested: its series have too few rows for a test")
            raise NotFittedError("the run was not tested yet: it was interrupted; resume() it")
        return tested

    def fit(self, df: Frame) -> Forecaster:
        """Trains on the series of a frame, and writes a run folder: the frame as `data.arrow`, which pandas
        (`read_feather`) and polars (`read_ipc`) open, every setting, the weights. A missing value is interpolated, and so are
        rows that the dates skip, up to a third of all; a warning says so. Ctrl-C ends it with a checkpoint and raises
        `KeyboardInterrupt`, SIGTERM and SIGHUP likewise with `SystemExit`;
        :meth:`resume` goes on.

        The model is trained on the first rows of each series; the next ones choose among weights, and the last are
        those that :attr:`scores` are of, as the setting `split` divides them (by default `"0.7,0.1,0.2"`).

        Raises:
            MissingColumnError: A column that is not there.
            ArgumentError: A column, or a frame, of the wrong type.
            InvalidValueError: Values, dates or names that cannot be read; series that are too short.
            FileError: A folder that exists already.
            DeviceError: A device that is not there.
            NonFiniteError: A step that gave no finite numbers.
        """
        table = self._read(df)
        Rows(table.layout, self._targets, self.alias)
        table.warn_of_uneven_dates()
        self._train(table)
        self._fitted = df.iloc[:0] if table.layout.kind == "pandas" else df.clear()
        return self

    def leaderboard(self) -> Frame:
        """The models that :meth:`fit` compared, the best first, as a frame of the kind that it was given: `rank`, `candidate`,
        `forecaster` (what forecasts), `validation` (the error `metric` before the test rows, which orders them), `test` (the same of the
        test windows), `test_mse`, `seconds`, and `verdict`: `best`, `as good` (its test errors are within two standard errors of the
        best's), `worse`, `better in the test`, or `too few windows`. `difference` and `standard_error` are what it is made of; `failed`
        says why a model has no rank.

        Raises:
            NotFittedError: Of a forecaster that compared none.
        """
        layout = self._need_layout()
        if self._leaderboard is None:
            raise NotFittedError('no models were compared: give several, as in Forecaster(["ets", "tide"]), and fit() them')
        return comparison.frame(self._leaderboard, layout.kind)

    def resume(self, **changes: Any) -> Forecaster:
        """Goes on with a run that was interrupted; its results are those of one that was not. Of the settings `epochs`,
        `max_steps`, `log_every`, `checkpoint_every`, `device` and `threads` may be changed, of one model.

        Raises:
            NotFittedError: Without a run.
            InvalidValueError: A run that is complete; a setting that a run keeps.
        """
        path = self._need_run()
        keywords.check(changes)
        if self._names is not None and self._leaderboard is None:
            if changes:
                raise InvalidValueError("a comparison keeps its settings; resume() without changes")
            self._compare(self._own_table(path), path.parent)
            return self
        with self._events() as event:
            results = _landfall._resume(path, keywords.to_json(changes), event)
        self._told(results)
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
        """Forecasts the rows after the last ones of each series: `unique_id`, `ds`, and the forecast under the name
        of the model. Of several columns to forecast the names are `<model>_<column>`, of quantiles `<model>_q0.1`, of
        intervals `<model>-lo-80` and `<model>-hi-80`.

        Args:
            df: The series to continue, by default those of :meth:`fit`; they may have newer rows, and have the same
                frequency. No training takes place.
            horizon: Rows to forecast, at most those that it was fitted for.
            futr_df: The columns of `known_future` in the rows to forecast, one row for each series and date: as many as the
                horizon that it was fitted for, or more. Other columns, and rows before, are not looked at.
            at: The last date that is known, by default the last one of each series: the forecast is the one that was made
                then. It is the date of a row; series that have no row of it are left out, with a warning. What was known in
                advance is taken from the rows after it, without `futr_df`.
            level: Levels of intervals in percent, such as `[80, 95]`, or one; `[]` for none; by default the setting
                `interval`. Bounds of a series with too few windows are NaN, and a warning names it.
            weights: `best`, those of the lowest validation error, or `last`.

        Raises:
            NotFittedError: Before :meth:`fit`.
            MissingColumnError: A column of `futr_df` that is not there.
            InvalidValueError: Series that are too short; a longer horizon; dates that are not evenly spaced; a `level` that
                needs more windows than any series has; rows to forecast whose columns known in advance are missing, or are
                those of other dates.
        """
        if weights not in ("best", "last"):
            raise InvalidValueError(f"weights {weights!r}: give best or last")
        if horizon is not None:
            keywords.whole("horizon", horizon)
        path, layout = self._need_run(), self._need_layout()
        if self._tested() is None and not self._is_complete():
            warn("the run was interrupted, and this forecast is that of an unfinished model; resume() it first")
        table = None
        if df is not None:
            table = self._read(df, layout)
            layout = table.layout
            self._ids.update(zip(table.keys, table.names))
        elif at is not None or layout.step is not None:
            table = self._own_table(path)
        ahead = whole = None
        if at is not None and table is not None:
            whole = table
            counts = table.until(at)
            if self._known and futr_df is None:
                ahead = table.ahead(counts, self._known)
            table = table.cut(counts)
        ends = table.ends if table is not None else {}
        if futr_df is not None:
            ahead = self._read_ahead(futr_df, layout, ends)
        own = table if df is not None or at is not None else None
        found = self._forecasts(path, [(own, ahead, whole)], weights, level)[0]
        if horizon is not None and horizon > found.steps:
            raise InvalidValueError(
                f"horizon {horizon}: the model forecasts 1 to {found.steps} rows; fit it with a longer horizon"
            )
        rows = Rows(layout, self._targets, self.alias)
        rows.add(found, self._ids, ends, horizon or found.steps)
        return rows.frame(df if df is not None else self._fitted)

    def cross_validation(self, df: Frame, n_windows: int = 1, step_size: int = 1, *, refit: bool | int = False) -> Frame:
        """Forecasts the last rows of each series from rows before them, and puts the actual values beside:
        `unique_id`, `ds`, `cutoff` (the last date before the forecast), `y`, and the forecast under the name of the
        model.

        The model is fitted on the rows before the first cutoff, or, with `refit`, again on the rows before later ones.
        Each forecast is the one that :meth:`predict` would make of a frame that ends at the cutoff. This forecaster's own
        run stays as it is.

        Args:
            df: The series.
            n_windows: Forecasts of each series; the last one ends with its last row. Rows that the dates skip are counted.
                Where rows right before a cutoff are skipped or have no value its window ends earlier or has fewer rows.
            step_size: Rows from one cutoff to the next.
            refit: Whether the model is fitted again for each window; a number n fits it for every nth window.

        Raises:
            InvalidValueError: Series that are too short, and as :meth:`fit` and :meth:`predict`.
        """
        keywords.whole("n_windows", n_windows)
        keywords.whole("step_size", step_size)
        if isinstance(refit, float) or not isinstance(refit, (bool, int, np.integer)) or refit < 0:
            raise InvalidValueError(f"refit {refit!r}: give True, False, or the number of windows that one fit serves")
        horizon = self._settings.get("horizon")
        if horizon is None:
            raise InvalidValueError("cross_validation needs a horizon: Forecaster(horizon=...)")
        whole = self._read(df)
        layout = whole.layout
        rows = Rows(layout, self._targets, self.alias, windows=True)
        known, cuts = windows.known(whole, horizon, n_windows, step_size)
        before = [known.cut(cut) for cut in cuts]
        after = [known.ahead(cut, self._known) if self._known else None for cut in cuts]
        fitted: list[Forecaster] = []
        every = int(refit) or len(before)
        for table in before[::every]:
            forecaster = self._like_this()
            forecaster._train(table)
            fitted.append(forecaster)
        forecasts: list[Forecasts] = []
        for number, f in enumerate(fitted):
            served = range(number * every, min((number + 1) * every, len(before)))
            forecasts += f._forecasts(f._need_run(), [(before[window], after[window], None) for window in served], "best")
        places = [{found.key(place, layout): place for place in range(len(found.keys))} for found in forecasts]
        for place, key in enumerate(known.keys):
            for table, found, own in zip(before, forecasts, places):
                # One that the run left out has no forecast; a warning said so.
                if key in own:
                    rows.add_window(known.one(place), table.one(place), found, own[key])
        return rows.frame(df)

    def plot(self, forecasts: Frame | None = None, *, series: Any = None, history: int | None = None) -> Figure:
        """Draws the last rows of each series and its forecast, of quantiles the range between the outermost.

        Args:
            forecasts: What :meth:`predict` returned; by default it is called.
            series: The name of a series to draw, or a list of names; by default the first four.
            history: Rows of history; by default four horizons.

        Raises:
            MissingPackageError: Without matplotlib.
        """
        try:
            from .plots import plot
        except ImportError as e:
            raise MissingPackageError(
                f"plot() needs matplotlib ({e}); install it: pip install 'landfall-ml[plot]'"
            ) from None
        layout, path = self._need_layout(), self._need_run()
        try:
            predicted = self.predict() if forecasts is None else forecasts
        except InvalidValueError as e:
            if e.setting != "futr_df":
                raise
            raise InvalidValueError(f"{e}: plot(forecaster.predict(futr_df=...)) draws such a forecast") from None
        return plot(
            self._own_table(path),
            predicted,
            layout,
            self.alias,
            self._targets,
            self._levels(),
            self._ids,
            series,
            history,
        )

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Copies the run into a new directory, where :meth:`load` and the program find it.

        Raises:
            FileError: A directory that exists.
        """
        target = Path(folder)
        if target.exists():
            raise FileError(f"{target} exists already; choose another folder")
        folders.write(folders.contents(self._need_run()), target)
        return target

    @classmethod
    def load(cls, folder: str | os.PathLike[str], *, progress: bool | None = None) -> Forecaster:
        """The forecaster whose run is in a directory, complete or interrupted; of a comparison the best one. It reads and writes that
        directory.

        Raises:
            FileError: A directory that holds no run of a forecaster.
        """
        path = Path(folder)
        if (path / comparison.LEADERBOARD).exists():
            found = json.loads((path / comparison.LEADERBOARD).read_text(encoding="utf-8"))
            made = cls.load(path / comparison.told(found).name, progress=progress)
            made._leaderboard = found
            return made
        try:
            state = json.loads((path / "frame.json").read_text(encoding="utf-8"))
        except (FileNotFoundError, NotADirectoryError):
            raise FileError(
                f"{path} holds no frame.json, so no Forecaster was fitted there; the program reads other runs: "
                f"landfall forecast {path}"
            ) from None
        made = cls._of_state(state, progress)
        made._path = path
        return made

    def __repr__(self) -> str:
        given = self._settings if self._names is None else {"model": self._names, **self._settings}
        settings = ", ".join(f"{name}={value!r}" for name, value in given.items())
        where = f", folder={str(self._path)!r}" if self._path is not None and self._temporary is None else ""
        return f"Forecaster({settings}{where})"

    def __getstate__(self) -> dict[str, Any]:
        # The files themselves: another process, or machine, need not see the folder.
        state = {**self.__dict__, "_temporary": None, "_path": None}
        files = None if self._path is None else folders.contents(self._path)
        return {"attributes": state, "files": files}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__dict__.update(state["attributes"])
        if state["files"] is not None:
            self._temporary = folders.TemporaryFolder()
            self._path = self._temporary.path / "run"
            folders.write(state["files"], self._path)

    @classmethod
    def _of_state(cls, state: Mapping[str, Any], progress: bool | None) -> Forecaster:
        """One that was fitted, of what its run folder says of it."""
        layout = Layout(**state["layout"])
        targets, columns = layout.columns[: layout.targets], layout.columns
        settings = dict(state["settings"])
        made = cls(
            settings.pop("model", "auto"),
            settings.pop("horizon", None),
            alias=state["alias"],
            progress=progress,
            series_id=layout.series_id,
            date_column=layout.date_column,
            target=targets,
            columns=columns,
            **settings,
        )
        made._layout = layout
        made._ids = {key: int(key) if layout.names == "integer" else key for key in state["series"]}
        return made

    def _like_this(self) -> Forecaster:
        """An unfitted forecaster of the same settings, with a folder of its own."""
        settings = dict(self._settings)
        model = settings.pop("model", "auto")
        return Forecaster(
            model if self._names is None else self._names,
            settings.pop("horizon", None),
            alias=self.alias,
            progress=self.progress,
            series_id=self._series_id,
            date_column=self._date_column,
            target=self._targets,
            columns=self._columns,
            **settings,
        )

    def _read(self, df: Frame, like: Layout | None = None) -> Table:
        # A run of one series without a name continues one.
        series_id = self._series_id if like is None else like.series_id
        return frames.read(
            df,
            series_id=series_id or ("unique_id" if like is None else None),
            named=series_id is not None,
            date_column=self._date_column,
            columns=self._columns,
            targets=len(self._targets),
            categorical=self._categorical,
            like=like,
        )

    def _read_ahead(self, df: Frame, layout: Layout, ends: Mapping[str, Any]) -> Table:
        """The columns known in advance of the rows to forecast."""
        if not self._known:
            raise ArgumentError(
                "futr_df is given, and the forecaster has no columns known in advance: name them with known_future, or leave "
                "it out"
            )
        table = frames.read(
            df,
            series_id=layout.series_id,
            named=layout.series_id is not None,
            date_column=self._date_column,
            columns=self._known,
            targets=len(self._known),
            categorical=self._categorical,
            ahead=True,
            like=layout,
        )
        return frames.following(table, layout, ends, "futr_df")

    def _train(self, table: Table) -> None:
        layout = table.layout
        state = self._state(table)
        settings = {**self._settings, **layout.settings()}
        temporary, out = None, self._given_folder
        if out is None:
            temporary = folders.TemporaryFolder()
            out = temporary.path / "run"
        if self._names is not None:
            if out.exists():
                raise FileError(f"{out} exists already; choose another folder")
            self._temporary, self._leaderboard = temporary, None
            self._compare(table, out)
            return
        with self._events() as event:

            def begun(name: str, what: str) -> None:
                if name == "started":
                    # From here on there is a run to go on with.
                    self._layout, self._temporary, self._path = layout, temporary, out
                    self._ids = dict(zip(table.keys, table.names))
                    self._fitted = None
                event(name, what)

            results = _landfall._train(keywords.to_json(settings), table.columns(), out, json.dumps(state), begun)
        self._told(results)

    def _compare(self, table: Table, out: Path) -> None:
        """Trains the models that are compared, or what remains of that."""

        def run_in(path: Path) -> None:
            # From the first run on there is something to go on with.
            self._layout, self._path, self._fitted = table.layout, path, None
            self._ids = dict(zip(table.keys, table.names))

        with self._events() as event:
            found = comparison.run(self._names or [], self._settings, table, out, self._state(table), event, run_in)
        run_in(comparison.told(found))
        self._leaderboard = found

    def _state(self, table: Table) -> dict[str, Any]:
        """What a run folder says of the forecaster that was fitted."""
        return {
            "layout": dataclasses.asdict(table.layout),
            "alias": self.alias,
            "settings": json.loads(keywords.to_json(self._settings)),
            "series": table.keys,
        }

    def _told(self, results: str) -> None:
        """Says what is to be known first of the results of a run."""
        told = json.loads(results)
        notices.of_results(told, self.alias, self._settings)
        Progress(self.progress, self.alias).tell(line for line in told["verdict"] if line != told["unbeaten"])

    @contextmanager
    def _events(self) -> Iterator[Callable[[str, str], None]]:
        """Shows the events of a run while it trains."""
        no_gpu_after_fork(self._settings.get("device", "auto"))
        shown = Progress(self.progress, self.alias)

        def event(name: str, text: str) -> None:
            global _gpu_process
            what = json.loads(text)
            if name == "started":
                if what["device"].startswith("cuda"):
                    _gpu_process = os.getpid()
                for note in what["notes"]:
                    warn(note)
                shown.close()
                shown.start(what["done"], what["steps"])
            elif name == "progress":
                shown.step(what["done"], what["steps"])
            elif name == "step":
                shown.say(loss=what["loss"])
            elif name == "evaluation":
                shown.say(**{f"{what['record']['split']}_mse": what["record"]["mse"]})

        try:
            with signals.raised():
                yield event
        except (KeyboardInterrupt, SystemExit) as e:
            if hasattr(e, "add_note"):
                e.add_note("The run was interrupted after a step, with a checkpoint; resume() goes on.")
            raise
        finally:
            shown.close()

    def _forecasts(
        self,
        path: Path,
        tables: Sequence[tuple[Table | None, Table | None, Table | None]],
        weights: str,
        level: float | Sequence[float] | None = None,
    ) -> list[Forecasts]:
        """Forecasts after each table, or after the run's own; with each the columns known in advance of the rows to forecast
        and, of a past forecast, the table with the rows after it."""
        levels = keywords.levels(level)
        device = self._settings.get("device", "auto")
        no_gpu_after_fork(device)

        def columns(table: Table | None) -> _landfall.Columns | None:
            return None if table is None else table.columns()

        given = [(columns(table), columns(known), columns(rest)) for table, known, rest in tables]
        answers = _landfall._forecast(path, given, weights, device, self._settings.get("threads"), levels)
        for note in dict.fromkeys(note for *_, notes in answers for note in notes):
            warn(note)
        return [Forecasts.of(*answer[:-1]) for answer in answers]

    def _levels(self) -> list[float]:
        return [float(q) for q in self._settings.get("quantiles", ())]

    def _tested(self) -> dict[str, Any] | None:
        """The last line of the run's metrics that is one of test errors; a run that is complete has one."""
        path = self._need_run() / "metrics.jsonl"
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        records = [json.loads(line) for line in lines if '"split"' in line]
        return next((dict(r) for r in reversed(records) if r["split"] != "validation"), None)

    def _is_complete(self) -> bool:
        """Whether a forecaster was chosen, of a run that has no test errors."""
        return (self._need_run() / "choice.json").exists()

    def _need_run(self) -> Path:
        if self._path is None:
            raise NotFittedError("this forecaster is not fitted; call fit(df) first, or Forecaster.load(folder)")
        return self._path

    def _need_layout(self) -> Layout:
        self._need_run()
        assert self._layout is not None
        return self._layout

    def _own_table(self, path: Path) -> Table:
        """The series of the run's own data."""
        return kept(path / "data.arrow", self._need_layout(), self._ids)


def no_gpu_after_fork(device: str) -> None:
    """Refuses a GPU in a child of a process that has used one."""
    if _gpu_process not in (None, os.getpid()) and device != "cpu":
        raise DeviceError(
            "this process was forked from one that has used a GPU, and CUDA does not survive a fork; start workers by "
            'multiprocessing.get_context("spawn"), or give device="cpu"'
        )
