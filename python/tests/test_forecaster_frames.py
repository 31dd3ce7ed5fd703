"""Types of columns, and frames that are refused."""

from __future__ import annotations

import datetime
import importlib
import math
import warnings

import numpy as np
import pytest

from landfall import DataWarning, Error, Forecaster, errors
from series import SMALL, kept_columns, long_columns, make, values, wave


def fit(frame, **settings):
    return Forecaster("patchtst", **{**SMALL, **settings}).fit(frame)


def refused(frame, kind, match: str, **settings):
    with pytest.raises(kind, match=match) as caught:
        fit(frame, **settings)
    assert isinstance(caught.value, Error)


def test_numbers_and_dates_round_trip_in_the_file(library):
    columns = long_columns(names=("a,b", 'c "d"'))
    rng = np.random.default_rng(1)
    columns["y"] = rng.normal(size=480) * 10.0 ** rng.integers(-20, 20, 480)
    columns["ds"] = columns["ds"] + np.timedelta64(123_456_789, "ns")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        forecaster = fit(make(library, columns))
    from landfall.tables import kept

    table = kept(forecaster.folder / "data.arrow", forecaster._layout, {})
    assert table.keys == ["a,b", 'c "d"']
    assert table.values[0].tolist() == columns["y"].tolist()
    assert table.dates.tolist() == columns["ds"].view(np.int64).tolist()


def test_float32_is_the_number_of_its_own_digits(library):
    columns = long_columns(names=("a",))
    columns["y"] = columns["y"].astype(np.float32)
    columns["y"][0] = np.float32(0.1)
    forecaster = fit(make(library, columns))
    first = {name: column[0] for name, column in kept_columns(forecaster.folder).items()}
    assert first == {"unique_id": "a", "ds": datetime.datetime(2024, 1, 1), "y": 0.1}


def test_integer_dates_count_rows(library):
    columns = {
        "unique_id": [7] * 240 + [3] * 240,
        "ds": list(range(1990, 2230)) * 2,
        "y": np.concatenate([wave(240), wave(240, 20.0)]),
    }
    frame = make(library, columns)
    forecaster = fit(frame)
    # They are no years.
    assert "date-column" not in (forecaster.folder / "config.toml").read_text()
    predicted = forecaster.predict()
    assert values(predicted, "ds") == list(range(2230, 2236)) * 2
    assert values(predicted, "unique_id") == [7] * 6 + [3] * 6
    crossed = forecaster.cross_validation(frame, n_windows=2, step_size=2)
    assert values(crossed, "cutoff")[:12] == [2221] * 6 + [2223] * 6
    assert values(crossed, "y")[:6] == columns["y"][232:238].tolist()
    columns["ds"] = [2 * d for d in columns["ds"]]
    assert values(fit(make(library, columns)).predict(), "ds")[:2] == [4460, 4462]


def test_integer_dates_that_skip_rows(library):
    columns = {"ds": [*range(100), *range(101, 241)], "y": wave(240)}
    refused(
        make(library, columns), ValueError, "ds steps from 99 to 101, where the usual step is 1; add the rows between"
    )


def test_daily_dates_of_polars_stay_dates():
    pl = pytest.importorskip("polars")
    days = [datetime.date(2024, 1, 1) + datetime.timedelta(days=i) for i in range(120)]
    frame = pl.DataFrame({"unique_id": "a", "ds": days, "y": wave(120)})
    predicted = fit(frame).predict()
    assert predicted.schema["ds"] == pl.Date and predicted["ds"][0] == datetime.date(2024, 4, 30)


def test_python_dates_in_pandas():
    pd = pytest.importorskip("pandas")
    days = [datetime.date(2024, 1, 1) + datetime.timedelta(days=i) for i in range(120)]
    predicted = fit(pd.DataFrame({"unique_id": "a", "ds": pd.Series(days, dtype=object), "y": wave(120)})).predict()
    assert predicted["ds"].iloc[0] == pd.Timestamp("2024-04-30")


@pytest.mark.parametrize(("freq", "expected"), [("h", "2024-04-01 00:00+02:00"), ("D", "2024-10-17 00:00+02:00")])
def test_time_zones_are_kept_over_a_change_of_the_clock(freq, expected):
    pd = pytest.importorskip("pandas")
    pl = pytest.importorskip("polars")
    start, rows = ("2024-03-25", 24 * 7 - 1) if freq == "h" else ("2024-01-01", 290)
    dates = pd.date_range(start, periods=rows, freq=freq, tz="Europe/Berlin")
    frame = pd.DataFrame({"unique_id": "a", "ds": dates, "y": wave(rows)})
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataWarning)
        first = fit(frame).predict()["ds"]
        again = fit(pl.from_pandas(frame)).predict()
    assert first.dt.tz == frame["ds"].dt.tz
    assert first.iloc[0] == pd.Timestamp(expected)
    assert again["ds"].to_list() == [d.to_pydatetime() for d in first]
    assert again.schema["ds"].time_zone == "Europe/Berlin"


def test_categories_stay_categories():
    pd = pytest.importorskip("pandas")
    pl = pytest.importorskip("polars")
    columns = long_columns()
    frame = pd.DataFrame(columns).astype({"unique_id": "category"})
    predicted = fit(frame).predict()
    assert predicted["unique_id"].dtype == frame["unique_id"].dtype
    frame = pl.DataFrame(columns).with_columns(pl.col("unique_id").cast(pl.Categorical))
    assert fit(frame).predict().schema["unique_id"] == pl.Categorical


def test_names_in_the_index_are_a_column():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(long_columns()).set_index("unique_id")
    assert list(fit(frame).predict().columns) == ["unique_id", "ds", "patchtst"]


def test_nullable_columns_of_pandas():
    pd = pytest.importorskip("pandas")
    columns = long_columns(names=("a",))
    frame = pd.DataFrame(columns)
    frame["y"] = pd.array(columns["y"], dtype="Float64")
    frame.loc[30, "y"] = pd.NA
    with pytest.warns(DataWarning, match="1 missing value"):
        fit(frame)


def test_skipped_dates_are_inserted_and_said(library):
    columns = long_columns(names=("a",))
    kept = np.delete(np.arange(240), [100, 101])
    with pytest.warns(DataWarning, match="2 rows"):
        fit(make(library, {name: np.asarray(column)[kept] for name, column in columns.items()}))


def test_dates_that_are_there_twice(library):
    columns = long_columns()
    columns["ds"][250] = columns["ds"][245]
    refused(
        make(library, columns),
        ValueError,
        r"series `b`: ds 2024-01-01 05:00:00 is there twice, in rows 245 and 250 of the frame \(from 0\); keep one row",
    )


def test_columns_that_are_not_there(library):
    columns = long_columns()
    for name, setting in (("ds", "date_column"), ("y", "target")):
        without = {n: c for n, c in columns.items() if n != name}
        refused(
            make(library, without), KeyError, f"no column `{name}`; the frame has .*. Name the column by {setting}="
        )
    refused(make(library, columns), KeyError, "no column `price`", columns=["y", "price"])


def test_columns_of_the_wrong_type(library):
    columns = long_columns()
    texts = {**columns, "ds": [str(d)[:10] for d in columns["ds"]]}
    refused(
        make(library, texts),
        TypeError,
        "column `ds` has the type .*; it must hold dates, timestamps or integers. Convert it: ",
    )
    refused(make(library, {**columns, "y": ["x"] * 480}), TypeError, "column `y` has the type .*; it must hold numbers")
    with pytest.raises(errors.ArgumentError, match="a data frame of pandas or polars is needed, not builtins.dict"):
        fit(columns)


def test_lazy_frames_are_not_collected():
    pl = pytest.importorskip("polars")
    refused(pl.LazyFrame(long_columns()), TypeError, r"collect\(\) it first")


def test_values_that_can_not_be(library):
    columns = long_columns()
    infinite = columns["y"].copy()
    infinite[300] = math.inf
    refused(
        make(library, {**columns, "y": infinite}),
        ValueError,
        "series `b`: column `y` is infinite in row 300 of the frame",
    )
    refused(make(library, {**columns, "y": np.full(480, math.nan)}), ValueError, "y.*no value")
    names = [None, *columns["unique_id"][1:]]
    refused(
        make(library, {**columns, "unique_id": names}),
        ValueError,
        r"`unique_id` is missing in row 0 of the frame \(from 0\)",
    )
    module = importlib.import_module(library)
    empty = make(library, columns)[:0]
    assert isinstance(empty, module.DataFrame)
    refused(empty, ValueError, "the frame has no rows")


def test_series_that_are_too_short(library):
    short = make(library, long_columns(rows=40, names=("a",)))
    refused(short, ValueError, "(?s)holds no window|rows.*horizon")
    columns, few = long_columns(rows=240, names=("a",)), long_columns(rows=10, names=("b",))
    both = {name: np.concatenate([np.asarray(columns[name]), np.asarray(few[name])]) for name in columns}
    with pytest.warns(DataWarning, match="series `b` .* is forecast by itself, and not tested"):
        forecaster = fit(make(library, both))
    predicted = forecaster.predict()
    names = values(predicted, "unique_id")
    assert set(names) == {"a", "b"}
    own = [v for v, name in zip(values(predicted, forecaster.alias), names) if name == "b"]
    assert own == pytest.approx([float(few["y"][-1])] * len(own), rel=1e-5)
    with pytest.raises(Error, match="^the frame, series `a`: 10 rows where 24 are needed"):
        forecaster.predict(make(library, long_columns(rows=10, names=("a",))))
    with pytest.raises(Error, match="200 windows of horizon 6, 2 rows apart, take 404 rows"):
        Forecaster("patchtst", **SMALL).cross_validation(short, n_windows=200, step_size=2)


def test_frames_that_differ_from_the_fitted_one(library):
    frame = make(library, long_columns())
    forecaster = fit(frame)
    others = long_columns(names=("c", "d"))
    with pytest.raises(Error, match="no series of the run|left out"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        forecaster.predict(make(library, others))
    integers = {**long_columns(), "ds": list(range(240)) * 2}
    with pytest.raises(Error, match="column `ds` holds integers here and held dates"):
        forecaster.predict(make(library, integers))


def test_frames_of_another_frequency(library):
    pd = pytest.importorskip("pandas")

    def dated(freq, tz=None):
        dates = pd.date_range("2024-01-01", periods=60, freq=freq, tz=tz)
        return make(library, {"ds": dates.to_numpy() if tz is None else dates, "y": wave(60)})

    forecaster = fit(dated("D"), context=12)
    for freq, name in (
        ("W", "weekly"),
        ("MS", "monthly"),
        ("ME", "monthly"),
        ("B", "business days"),
        ("2D", "every 2 days"),
    ):
        with pytest.raises(
            Error, match=f"`ds` has the frequency '{name}' here and had 'daily' in the frame that was fitted"
        ):
            forecaster.predict(dated(freq))
    assert len(forecaster.predict(dated("D"))) == 6
    if library == "pandas":
        with pytest.raises(Error, match="the time zone is Europe/Berlin here and was None"):
            forecaster.predict(dated("D", "Europe/Berlin"))


def test_dates_that_no_forecast_continues():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"ds": pd.date_range("2000-01-01", periods=200, freq="SMS"), "y": wave(200)})
    with pytest.warns(DataWarning, match="`ds` is not evenly spaced, so that predict.. cannot continue its dates"):
        forecaster = fit(frame)
    with pytest.raises(Error, match="or integers 0, 1, 2, ... for dates$"):
        forecaster.predict()


def test_a_clock_that_skips_the_time_of_a_forecast():
    pd = pytest.importorskip("pandas")
    pytest.importorskip("polars")
    dates = pd.date_range("2023-12-01 02:30", "2024-03-29 02:30", freq="D", tz="Europe/Berlin")
    columns = {"ds": dates.to_pydatetime().tolist(), "y": wave(len(dates))}
    for library in ("pandas", "polars"):
        frame = make(library, columns)
        frame = frame if library == "pandas" else frame.with_columns(frame["ds"].dt.convert_time_zone("Europe/Berlin"))
        found = [str(date) for date in values(fit(frame).predict(), "ds")[:3]]
        assert found == ["2024-03-30 02:30:00+01:00", "2024-03-31 03:30:00+02:00", "2024-04-01 02:30:00+02:00"], library


def test_dates_beyond_nanoseconds_are_refused(library):
    columns = long_columns(names=("a",))
    columns["ds"] = np.datetime64("1500-01-01", "ms") + np.arange(240) * np.timedelta64(86_400_000, "ms")
    refused(make(library, columns), ValueError, "column `ds`: a date is before 1678 or after 2261")


def test_a_run_that_computes_nothing_is_refused():
    with pytest.raises(ValueError, match="device: null computes nothing"):
        Forecaster("patchtst", device="null")


@pytest.mark.parametrize(
    ("settings", "renamed", "says"),
    [
        (
            {"alias": "unique_id"},
            {},
            "`unique_id` of the result would hold the names of the series and the forecast; choose",
        ),
        ({"alias": "ds"}, {}, "`ds` of the result would hold the dates and the forecast; choose another alias"),
        ({"series_id": "patchtst"}, {"unique_id": "patchtst"}, "`patchtst` of the result would hold the names"),
        ({"date_column": "cutoff"}, {"ds": "cutoff"}, "would hold the dates and the cutoffs; rename that column"),
        ({"target": "cutoff"}, {"y": "cutoff"}, "would hold the cutoffs and the actual values; rename that column"),
        ({"alias": "y"}, {}, "would hold the actual values and the forecast; choose another alias"),
    ],
)
def test_columns_of_the_result_that_meet(settings, renamed, says):
    frame = make("pandas", {renamed.get(name, name): column for name, column in long_columns().items()})
    with pytest.raises(errors.InvalidValueError, match=says):
        Forecaster("patchtst", **settings, **SMALL).cross_validation(frame)
    if not {"cutoff", "y"} & set(settings.values()):
        with pytest.raises(errors.InvalidValueError, match=says):
            Forecaster("patchtst", **settings, **SMALL).fit(frame)


def test_names_and_numbers_that_are_not_kept():
    columns = long_columns(names=(1.5, 2.5))
    refused(
        make("pandas", columns), TypeError, "`unique_id` holds 1.5 of the type float; it must hold text, integers or"
    )
    pd = pytest.importorskip("pandas")
    refused(pd.DataFrame(columns).astype({"unique_id": "category"}), TypeError, "categories of text")
    refused(
        make("pandas", long_columns(names=(" x ",))),
        ValueError,
        "the name ' x ' is empty or begins or ends with a blank",
    )
    columns = long_columns(names=("a",))
    refused(make("pandas", {**columns, "y": columns["y"] + 1j}), TypeError, "`y` has the type complex128")
    mixed = pd.Series([pd.Timestamp("2024-01-01"), *pd.date_range("2024-01-02", periods=239, tz="UTC")], dtype=object)
    refused(pd.DataFrame({"ds": mixed, "y": wave(240)}), TypeError, "`ds` holds dates of several time zones")


def test_settings_are_the_programs():
    with pytest.raises(errors.ArgumentError, match="no setting `max_step`; did you mean `max_steps`"):
        Forecaster(max_step=3)
    with pytest.raises(TypeError, match="no setting `input_size`; did you mean `context`"):
        Forecaster(input_size=3)
    with pytest.raises(TypeError, match="no setting `freq`: the frequency is that of the dates"):
        Forecaster(freq="h")
    with pytest.raises(ValueError, match=r'lr: "\w+" is a text; give a number'):
        Forecaster(lr="fast")
    with pytest.raises(ValueError, match="model: no value `nhits`; choose patchtst") as caught:
        Forecaster("nhits")
    assert "preset" not in str(caught.value)
    with pytest.raises(ValueError, match="a paper's recipe is given as preset='patchtst-42'"):
        Forecaster("patchtst-42")
    for wrong in (
        {"target": 0},
        {"target": [3]},
        {"columns": 1.5},
        {"alias": 3},
        {"model": None},
        {"date_column": None},
    ):
        with pytest.raises(errors.ArgumentError, match=f"{next(iter(wrong))} .*: give "):
            Forecaster(**wrong)
    with pytest.raises(ValueError, match="epochs=3 and max_steps=4: both say how long the run is"):
        Forecaster(epochs=3, max_steps=4)
    with pytest.raises(ValueError, match="loss"):
        Forecaster(loss="mspe")
    assert {"horizon", "max_steps", "network", "alias"} <= set(Forecaster.settings())
    assert Forecaster.describe("horizon") == "Rows to forecast"
    with pytest.raises(errors.ArgumentError, match="no setting `max_step`"):
        Forecaster.describe("max_step")
    assert Forecaster(horizon=np.int64(6), lr=np.float64(0.1))._settings == {"horizon": 6, "lr": 0.1}
