"""fit, predict and cross_validation on frames of pandas and polars."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

from landfall import BaselineWarning, DataWarning, Error, Forecaster, notices
from landfall.errors import InvalidValueError
from series import SMALL, ett, kept_columns, long_columns, make, values, wave


@pytest.fixture(autouse=True)
def no_warning():
    """A warning that a test does not expect fails it."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataWarning)
        yield


def test_predictions_follow_the_last_rows(library):
    frame = make(library, long_columns())
    forecaster = Forecaster("patchtst", **SMALL).fit(frame)
    predicted = forecaster.predict()
    assert type(predicted) is type(frame)
    assert list(predicted.columns) == ["unique_id", "ds", "patchtst"]
    assert values(predicted, "unique_id") == ["a"] * 6 + ["b"] * 6
    last = np.datetime64("2024-01-10T23", "h")
    expected = [last + np.timedelta64(i, "h") for i in range(1, 7)]
    assert [np.datetime64(d, "h") for d in values(predicted, "ds")] == expected * 2
    assert predicted["ds"].dtype == frame["ds"].dtype
    a, b = np.split(np.array(values(predicted, "patchtst")), 2)
    # Each series in its own units: 10 and 20, plus or minus a wave of 3.
    assert abs(a.mean() - 10) < 4 < abs(b.mean() - 10)
    assert {"mse", "mae", "baselines"} <= set(forecaster.scores)


def test_the_order_of_rows_does_not_matter(library):
    columns = long_columns()
    order = np.random.default_rng(3).permutation(len(columns["y"]))
    mixed = {name: np.asarray(column)[order] for name, column in columns.items()}
    sorted_, unsorted = (Forecaster("patchtst", **SMALL).fit(make(library, c)).predict() for c in (columns, mixed))

    def rows(frame):
        return sorted(zip(values(frame, "unique_id"), values(frame, "ds"), values(frame, "patchtst")))

    assert rows(sorted_) == rows(unsorted)


def test_both_libraries_give_the_same_numbers():
    made = []
    for library in ("pandas", "polars"):
        frame = make(library, long_columns())
        made.append(values(Forecaster("patchtst", **SMALL).fit(frame).predict(), "patchtst"))
    assert made[0] == made[1]


def test_predict_continues_newer_rows(library):
    columns = long_columns()
    kept = np.asarray(columns["ds"]) < np.datetime64("2024-01-10")
    older = {name: np.asarray(column)[kept] for name, column in columns.items()}
    forecaster = Forecaster("patchtst", **SMALL).fit(make(library, older))
    predicted = forecaster.predict(make(library, columns), horizon=2)
    assert len(predicted) == 4
    assert np.datetime64(values(predicted, "ds")[0], "h") == np.datetime64("2024-01-11T00", "h")
    with pytest.raises(Error, match="horizon 7: the model forecasts 1 to 6 rows"):
        forecaster.predict(horizon=7)
    for wrong in ("3", 2.5, 0):
        with pytest.raises(InvalidValueError, match=f"horizon {wrong!r}: give a whole number"):
            forecaster.predict(horizon=wrong)


def test_cross_validation_forecasts_each_window_from_the_rows_before_it(library):
    frame = make(library, long_columns())
    forecaster = Forecaster("patchtst", **SMALL)
    crossed = forecaster.cross_validation(frame, n_windows=3, step_size=4)
    assert type(crossed) is type(frame)
    assert list(crossed.columns) == ["unique_id", "ds", "cutoff", "y", "patchtst"]
    assert len(crossed) == 2 * 3 * 6
    cutoffs = sorted({np.datetime64(c, "h") for c in values(crossed, "cutoff")})
    last = np.datetime64("2024-01-10T23", "h")
    assert cutoffs == [last - np.timedelta64(hours, "h") for hours in (14, 10, 6)]
    actual = dict(zip(zip(values(frame, "unique_id"), values(frame, "ds")), values(frame, "y")))
    pairs = zip(values(crossed, "unique_id"), values(crossed, "ds"))
    assert [actual[pair] for pair in pairs] == values(crossed, "y")
    # The second window's forecast is what predict makes of the rows up to its cutoff.
    columns = long_columns()
    cut = lambda cutoff: {n: np.asarray(c)[np.asarray(columns["ds"]) <= cutoff] for n, c in columns.items()}  # noqa: E731
    fitted = Forecaster("patchtst", **SMALL).fit(make(library, cut(cutoffs[0])))
    alone = values(fitted.predict(make(library, cut(cutoffs[1]))), "patchtst")
    second = [
        v for v, c in zip(values(crossed, "patchtst"), values(crossed, "cutoff")) if np.datetime64(c, "h") == cutoffs[1]
    ]
    assert second == alone
    with pytest.raises(Error, match="not fitted"):
        forecaster.predict()


def test_refit_trains_on_the_rows_before_each_cutoff(library):
    frame = make(library, long_columns(names=("a",)))
    once, again, second = (
        values(
            Forecaster("patchtst", **SMALL).cross_validation(frame, n_windows=3, step_size=6, refit=r), "patchtst"
        )
        for r in (False, True, 2)
    )
    assert once[:6] == again[:6]
    assert once[6:12] != again[6:12]
    # Every second window: the first fit serves two.
    assert second[:12] == once[:12]
    assert second[12:] == again[12:]
    with pytest.raises(InvalidValueError, match="refit -1: give True, False, or the number"):
        Forecaster("patchtst", **SMALL).cross_validation(frame, refit=-1)


def test_missing_values_are_filled_and_said(library):
    columns = long_columns(names=("a",))
    columns["y"][[50, 51, 120]] = math.nan
    with pytest.warns(DataWarning, match="3 missing values"):
        forecaster = Forecaster("patchtst", **SMALL).fit(make(library, columns))
    y = kept_columns(forecaster.folder)["y"]
    assert [row for row, value in enumerate(y) if value is None] == [50, 51, 120]


def test_values_missing_before_a_cutoff_leak_nothing(library):
    columns = long_columns(names=("a",))
    full = columns["y"].copy()
    cutoff = 240 - 6
    columns["y"][cutoff - 2 : cutoff] = math.nan
    changed = {**columns, "y": columns["y"].copy()}
    changed["y"][cutoff:] = full[cutoff:] + 1000.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        first, second = (Forecaster("patchtst", **SMALL).cross_validation(make(library, c)) for c in (columns, changed))
    assert values(first, "patchtst") == values(second, "patchtst")
    assert values(first, "y") != values(second, "y")
    # What it forecasts of the missing rows before the cutoff is left out.
    assert values(first, "ds") == values(make(library, columns), "ds")[cutoff : cutoff + 4]


def test_the_last_window_ends_with_the_last_row_where_dates_are_skipped():
    pd = pytest.importorskip("pandas")
    for freq in ("B", "MS", "h"):
        frame = pd.DataFrame({"ds": pd.date_range("2024-01-01", periods=200, freq=freq), "y": wave(200)}).drop(197)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)
            crossed = Forecaster("patchtst", **SMALL).cross_validation(frame, n_windows=2, step_size=6)
        assert crossed["ds"].tolist()[5] == frame["ds"][193]
        assert crossed["ds"].tolist()[-1] == frame["ds"].iloc[-1]
        assert crossed["cutoff"].tolist()[-1] == frame["ds"][193]
        assert crossed["y"].isna().sum() == 1


def test_a_frame_without_names_is_one_series(library):
    columns = long_columns(names=("a",))
    del columns["unique_id"]
    predicted = Forecaster("patchtst", **SMALL).fit(make(library, columns)).predict()
    assert list(predicted.columns) == ["ds", "patchtst"]
    with pytest.raises(Error, match="no column `unique_id`; the frame has ds, y. Name the column by series_id"):
        Forecaster("patchtst", series_id="unique_id", **SMALL).fit(make(library, columns))


def test_several_columns_are_a_series_of_several_values(library):
    columns = long_columns(names=("a",))
    columns = {"when": columns["ds"], "load": columns["y"], "wind": columns["y"][::-1].copy(), "note": ["x"] * 240}
    frame = make(library, columns)
    both = Forecaster("patchtst", date_column="when", target=["wind", "load"], **SMALL).fit(frame)
    assert list(both.predict().columns) == ["when", "patchtst_wind", "patchtst_load"]
    crossed = both.cross_validation(frame)
    assert list(crossed.columns) == ["when", "cutoff", "wind", "load", "patchtst_wind", "patchtst_load"]
    assert values(crossed, "wind") == columns["wind"][-6:].tolist()
    one = Forecaster(
        "patchtst", alias="mine", date_column="when", target="load", columns=["load", "wind"], **SMALL
    ).fit(frame)
    assert list(one.predict().columns) == ["when", "mine"]


def test_a_baseline_that_is_as_good_is_said(library, capsys):
    walk = np.random.default_rng(0).normal(size=600).cumsum()
    hours = np.datetime64("2024-01-01", "h") + np.arange(600)
    frame = make(library, {"ds": hours.astype("datetime64[ns]"), "y": walk})
    recipe = {**SMALL, "network": None, "preset": "dlinear", "progress": True}
    with pytest.warns(BaselineWarning, match="does not beat last value: MSE .*the default recipe .leave out preset."):
        Forecaster(**recipe).fit(frame)
    with pytest.warns(UserWarning, match="nlinear is fitted by ridge regression, in no steps: max_steps, lr had no effect"):
        Forecaster("nlinear", lr=0.1, **{**SMALL, "network": None, "progress": True}).fit(frame)
    with pytest.warns(BaselineWarning, match="forecasts named `mine` are those of a baseline, last value. No network"):
        Forecaster("patchtst", alias="mine", **SMALL).fit(frame)
    assert "Forecaster: " in capsys.readouterr().err


def test_quantiles_are_columns(library):
    frame = make(library, long_columns(names=("a",)))
    predicted = Forecaster("patchtst", quantiles=[0.1, 0.5, 0.9], **SMALL).fit(frame).predict()
    assert list(predicted.columns) == ["unique_id", "ds", "patchtst", "patchtst_q0.1", "patchtst_q0.5", "patchtst_q0.9"]
    low, high = (np.array(values(predicted, f"patchtst_q{q}")) for q in (0.1, 0.9))
    assert (low <= high).all()


def test_ett(library):
    path = ett("ETTh2.csv")
    import importlib

    module = importlib.import_module(library)
    read = {"parse_dates": ["date"]} if library == "pandas" else {"try_parse_dates": True}
    frame = module.read_csv(path, **read)[:3000]
    small = {**SMALL, "max_steps": 60, "context": 96, "horizon": 24}
    forecaster = Forecaster("patchtst", date_column="date", target="OT", **small).fit(frame)
    predicted = forecaster.predict()
    assert len(predicted) == 24 and np.isfinite(np.array(values(predicted, "patchtst"))).all()
    crossed = forecaster.cross_validation(frame, n_windows=4, step_size=24)
    error = np.array(values(crossed, "patchtst")) - np.array(values(crossed, "OT"))
    spread = np.array(values(frame, "OT")).std()
    assert np.sqrt((error**2).mean()) < spread


def test_a_plot_has_a_chart_for_each_series(library):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    frame = make(library, long_columns())
    forecaster = Forecaster("patchtst", quantiles=[0.1, 0.5, 0.9], **SMALL).fit(frame)
    figure = forecaster.plot()
    assert [axis.get_title(loc="left") for axis in figure.axes] == ["a", "b"]
    history, forecast = figure.axes[0].lines
    assert (len(history.get_xdata()), len(forecast.get_xdata())) == (24, 6)
    assert len(forecaster.plot(forecaster.predict(), series=["b"]).axes) == 1
    assert len(forecaster.plot(series="b").axes) == 1
    for wrong, says in (
        ({"series": ["c"]}, "no series `c`; choose from a, b"),
        ({"series": []}, "series is empty"),
        ({"forecasts": frame}, "no column `patchtst`; the frame has unique_id, ds, y. Give plot.. the frame that"),
        ({"forecasts": 3}, "takes the frame that predict.. returned, not int"),
    ):
        with pytest.raises(Error, match=says):
            forecaster.plot(**wrong)


def test_a_plot_draws_intervals(library):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    forecaster = Forecaster("patchtst", interval=[50, 80], **SMALL).fit(make(library, long_columns()))
    axis = forecaster.plot(series="a").axes[0]
    assert [band.get_label() for band in axis.collections] == ["80 %", "50 %"]
    low, high = (np.array(values(forecaster.predict(), f"patchtst-{end}-80"))[:6] for end in ("lo", "hi"))
    drawn = axis.collections[0].get_paths()[0].vertices[:, 1]
    assert np.isclose(drawn.min(), low.min()) and np.isclose(drawn.max(), high.max())


@pytest.mark.parametrize("rows", [2, 3, 30])
def test_a_history_without_room_for_a_test_is_forecast(library, rows):
    months = np.datetime64("2020-01", "M") + np.arange(rows)
    frame = make(library, {"ds": months.astype("datetime64[ns]"), "y": 100.0 + 10 * np.sin(np.arange(rows) * np.pi / 6)})
    with pytest.warns(DataWarning, match="nothing is tested"):
        forecaster = Forecaster(horizon=12).fit(frame)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        predicted = forecaster.predict()
    expected = (np.datetime64("2020-01", "M") + np.arange(rows, rows + 12)).astype("datetime64[D]")
    assert [np.datetime64(d, "D") for d in values(predicted, "ds")] == list(expected)
    with pytest.raises(Error, match="the run was not tested: its series have too few rows"):
        _ = forecaster.scores


def test_a_mean_with_a_baseline_is_told():
    told = {"forecaster": {"share": 0.5}, "winner": "mean of nlinear and last value", "unbeaten": None, "steps": 0}
    with pytest.warns(BaselineWarning, match="forecasts named `auto` are the mean of nlinear and last value"):
        notices.of_results(told, "auto", {})


def test_intervals_stand_beside_the_forecast(library):
    forecaster = Forecaster("patchtst", interval=[50], **SMALL).fit(make(library, long_columns()))
    predicted = forecaster.predict()
    assert list(predicted.columns) == ["unique_id", "ds", "patchtst", "patchtst-lo-50", "patchtst-hi-50"]
    low, point, high = (np.array(values(predicted, f"patchtst{end}")) for end in ("-lo-50", "", "-hi-50"))
    assert (low < point).all() and (point < high).all()
    wider = forecaster.predict(level=[80])
    assert (np.array(values(wider, "patchtst-hi-80")) >= high).all()
    assert "patchtst-hi-50" not in wider.columns
    assert forecaster.predict(level=80).equals(wider)
    with pytest.raises(Error, match="percent"):
        forecaster.predict(level=[0.5])
    with pytest.raises(Error, match="level '80': give a percentage"):
        forecaster.predict(level="80")
    short = make(library, long_columns(rows=24))
    with pytest.warns(DataWarning, match="the forecast has no intervals: "):
        assert len(forecaster.predict(short)) == 12
    with pytest.raises(Error, match="intervals need such windows: level=.. forecasts without intervals"):
        forecaster.predict(short, level=[50])
    assert len(forecaster.predict(short, level=[])) == 12
