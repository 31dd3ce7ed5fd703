"""Forecasters with covariates: columns known in advance, static and categorical ones, features of the dates."""

from __future__ import annotations

import csv
import datetime
import io
import subprocess
import sys
import warnings

import numpy as np
import pytest

from landfall import DataWarning, Forecaster
from landfall.errors import ArgumentError, InvalidValueError, MissingColumnError
from series import SMALL, make, values

ROWS, HORIZON = 240, 6
#: Runs whose network reads covariates: a recipe has no choice of a forecaster.
READS = {"preset": "dlinear", "horizon": HORIZON, "context": 24, "max_steps": 20, "batch": 8, "threads": 1}
READS |= {"device": "cpu", "progress": False, "alias": "dlinear"}


@pytest.fixture(autouse=True)
def no_warning():
    """A warning that a test does not expect fails it."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataWarning)
        yield


def columns(first: int = 0, rows: int = ROWS, names: tuple = ("a", "b"), freq: str = "h") -> dict:
    """Series whose sales follow a price and an event."""
    t = np.arange(first, first + rows)
    price = t * 7919 % 101
    event = np.array(["none", "fair", "strike"], dtype=object)[t // 5 % 3]
    dates = (np.datetime64("2024-01-01", "h") + t).astype("datetime64[ns]") if freq == "h" else 10 + 2 * t
    made: dict = {"unique_id": [], "ds": np.concatenate([dates] * len(names)), "y": [], "price": [], "event": [], "size": [], "kind": []}
    for place, name in enumerate(names):
        made["unique_id"] += [name] * rows
        made["y"] += list((1.0 + 9 * place) * (2 * price + 10 * (t // 5 % 3) + t % 24))
        made["price"] += [float(p) for p in price]
        made["event"] += list(event)
        made["size"] += [float(3 + 70 * place)] * rows
        made["kind"] += [("kiosk", "hall")[place]] * rows
    return made


COVARIATES = {
    "known_future": ["price", "event"],
    "static": ["size", "kind"],
    "categorical": ["event", "kind"],
    "calendar": ["hour"],
}


def ahead(**given) -> dict:
    return {k: v for k, v in columns(ROWS, **{"rows": HORIZON, **given}).items() if k not in ("y", "size", "kind")}


def test_predictions_are_those_of_the_program(library, tmp_path):
    forecaster = Forecaster(**READS, **COVARIATES, interval=[80], folder=tmp_path / "run")
    forecaster.fit(make(library, columns()))
    predicted = forecaster.predict(futr_df=make(library, ahead()))
    assert list(predicted.columns) == ["unique_id", "ds", "dlinear", "dlinear-lo-80", "dlinear-hi-80"]
    future = tmp_path / "future.csv"
    with future.open("w") as file:
        writer = csv.writer(file)
        rows = ahead()
        writer.writerow(rows)
        writer.writerows(zip(*[[str(c).replace("T", " ")[:19] for c in column] for column in rows.values()]))
    line = ["forecast", str(tmp_path / "run"), "--future", str(future), "--device", "cpu"]
    program = [sys.executable, "-c", "import sys; from landfall._program import main; sys.exit(main())", *line]
    out = subprocess.run(program, capture_output=True, text=True, check=True).stdout
    told = list(csv.reader(io.StringIO(out)))
    assert told[0] == ["series", "ds", "y", "y-lo-80", "y-hi-80"]
    for place, column in enumerate(["dlinear", "dlinear-lo-80", "dlinear-hi-80"], start=2):
        assert values(predicted, column) == [float(row[place]) for row in told[1:]]
    # More rows and columns, in another order, make no difference; a horizon cuts.
    more = {name: column[::-1] for name, column in columns(ROWS - 10, rows=30).items()}
    assert values(forecaster.predict(futr_df=make(library, more)), "dlinear") == values(predicted, "dlinear")
    cut = forecaster.predict(horizon=2, futr_df=make(library, ahead()))
    assert values(cut, "dlinear") == [v for i, v in enumerate(values(predicted, "dlinear")) if i % HORIZON < 2]
    # The run is one of the program's, and is read again.
    again = Forecaster.load(tmp_path / "run", progress=False).predict(futr_df=make(library, ahead()))
    assert values(again, "dlinear") == values(predicted, "dlinear")
    other = {**ahead(), "event": ["strike"] * (2 * HORIZON)}
    assert values(forecaster.predict(futr_df=make(library, other)), "dlinear") != values(predicted, "dlinear")


def test_quantiles_of_a_distribution_stand_beside_the_mean(library):
    forecaster = Forecaster(**READS, **COVARIATES, loss="student-t", quantiles=[0.1, 0.9])
    predicted = forecaster.fit(make(library, columns())).predict(futr_df=make(library, ahead()), level=[50])
    found = list(predicted.columns)[2:]
    assert found == ["dlinear", "dlinear_q0.1", "dlinear_q0.9", "dlinear-lo-50", "dlinear-hi-50"]
    low, mean, high = (np.array(values(predicted, c)) for c in ("dlinear_q0.1", "dlinear", "dlinear_q0.9"))
    assert (low < mean).all() and (mean < high).all()


def test_a_past_forecast_takes_the_rows_that_were_known(library):
    frame = make(library, columns())
    forecaster = Forecaster(**READS, **COVARIATES).fit(frame)
    at = np.datetime64("2024-01-08T05", "h")
    then = forecaster.predict(at=str(at))
    assert [np.datetime64(d, "h") for d in values(then, "ds")[:HORIZON]] == [
        at + np.timedelta64(i, "h") for i in range(1, HORIZON + 1)
    ]
    # What a frame that ends there gives, with the rows behind it.
    rows = int((at - np.datetime64("2024-01-01", "h")).astype(int)) + 1
    before, after = make(library, columns(rows=rows)), make(library, ahead_of(rows))
    assert values(forecaster.predict(before, futr_df=after), "dlinear") == values(then, "dlinear")
    assert values(forecaster.predict(frame, at=str(at)), "dlinear") == values(then, "dlinear")
    # Of the validation rows, from 168 on, one window ends by then; an interval of 50 % needs one.
    bounds = forecaster.predict(at=str(at), level=50)
    assert all(low < high for low, high in zip(values(bounds, "dlinear-lo-50"), values(bounds, "dlinear-hi-50")))
    with pytest.raises(InvalidValueError, match="series `a` has 1 windows to take errors from"):
        forecaster.predict(at=str(at), level=80)
    for wrong, says in (
        ("soon", "at 'soon': give a date, such as \"2024-01-31\", \"2024-01-31 18:00\" or a Timestamp"),
        ("20240108", "at '20240108': give a date"),
        ("1500-01-01", "a date is before 1678"),
        ("2020-01-01", "at 2020-01-01: series `a`: the first row is 2024-01-01 00:00:00, after"),
        ("2025-01-01", "series `a`: the last row is 2024-01-10 23:00:00, before 2025-01-01, and the rows between"),
        ("2024-01-08 05:30", "there is no row of .*; the nearest ones are 2024-01-08 05:00:00 and 2024-01-08 06:00:00"),
        ("2024-01-08T05:00Z", "`ds` has no time zone; give a date without one"),
    ):
        with pytest.raises(InvalidValueError, match=says):
            forecaster.predict(at=wrong)
    later = columns()
    kept = [i for i, name in enumerate(later["unique_id"]) if name == "a" or i >= ROWS + rows]
    late = make(library, {name: [column[i] for i in kept] if name != "ds" else column[kept] for name, column in later.items()})
    with pytest.warns(DataWarning, match="series `b` is left out: the first row is 2024-01-08 06:00:00, after 2024-01-08T05"):
        only = forecaster.predict(late, at=str(at))
    assert values(only, "dlinear") == values(then, "dlinear")[:HORIZON]


def test_past_dates_are_taken_in_any_form_and_zone():
    pd = pytest.importorskip("pandas")
    t = np.arange(240)
    frame = pd.DataFrame({"y": t % 24 + 0.1 * (t * 7 % 11), "price": t * 7919 % 101.0})
    # Over the night in which the clock of summer begins: dates are counted in UTC.
    hours = frame.assign(ds=pd.date_range("2024-03-25", periods=240, freq="h", tz="Europe/Berlin"))
    forecaster = Forecaster(**READS, known_future="price", calendar=True).fit(hours)
    at = pd.Timestamp("2024-04-02 05:00", tz="Europe/Berlin")
    then = forecaster.predict(at=at)
    assert then["ds"][0] == at + pd.Timedelta(hours=1)
    for same in ("2024-04-02 05:00", str(at), "2024-04-02T03:00Z", at.tz_convert("UTC").to_pydatetime(), at.tz_localize(None)):
        assert forecaster.predict(at=same).equals(then), same
    days = frame.assign(ds=pd.date_range("2024-01-01", periods=240, freq="D", tz="Europe/Berlin"))
    forecaster = Forecaster(**READS, known_future="price").fit(days)
    then = forecaster.predict(at="2024-06-01")
    assert then["ds"][0] == pd.Timestamp("2024-06-02", tz="Europe/Berlin")
    for same in (pd.Timestamp("2024-06-01", tz="Europe/Berlin"), datetime.date(2024, 6, 1), np.datetime64("2024-06-01")):
        assert forecaster.predict(at=same).equals(then), same
    offset = hours.assign(ds=hours["ds"].dt.tz_convert("+02:00"))
    then = Forecaster(**READS, known_future="price").fit(offset).predict(at="2024-04-02 05:00")
    assert then["ds"][0] == at + pd.Timedelta(hours=1)
    naive = Forecaster(**READS, known_future="price").fit(days.assign(ds=days["ds"].dt.tz_localize(None)))
    with pytest.raises(InvalidValueError, match="`ds` has no time zone; give a date without one"):
        naive.predict(at=at)


def ahead_of(rows: int) -> dict:
    return {k: v for k, v in columns(rows, rows=HORIZON).items() if k in ("unique_id", "ds", "price", "event")}


def test_cross_validation_takes_what_was_known_at_each_cutoff(library):
    forecaster = Forecaster(**READS, **COVARIATES)
    crossed = forecaster.cross_validation(make(library, columns()), n_windows=3, step_size=4)
    first = ROWS - HORIZON - 8
    fitted = Forecaster(**READS, **COVARIATES).fit(make(library, columns(rows=first)))
    for window in range(3):
        rows = first + 4 * window
        alone = fitted.predict(make(library, columns(rows=rows)), futr_df=make(library, ahead_of(rows)))
        cutoff = np.datetime64("2024-01-01", "h") + rows - 1
        found = [
            v for v, c in zip(values(crossed, "dlinear"), values(crossed, "cutoff")) if np.datetime64(c, "h") == cutoff
        ]
        assert found == values(alone, "dlinear")


def test_one_series_with_integers_for_dates(library):
    def one(made):
        return make(library, {k: v for k, v in made.items() if k in ("ds", "y", "price")})

    forecaster = Forecaster(**READS, known_future="price").fit(one(columns(names=("a",), freq="1")))
    after = columns(ROWS, rows=HORIZON, names=("a",), freq="1")
    predicted = forecaster.predict(futr_df=one(after))
    assert values(predicted, "ds") == [10 + 2 * t for t in range(ROWS, ROWS + HORIZON)]
    longer = columns(ROWS - 9, rows=HORIZON + 9, names=("a",), freq="1")
    assert values(forecaster.predict(futr_df=one(longer)), "dlinear") == values(predicted, "dlinear")
    then = forecaster.predict(at=10 + 2 * 199)
    assert values(then, "ds")[0] == 10 + 2 * 200
    with pytest.raises(
        InvalidValueError, match="futr_df: ds has 492 where 490 is forecast; give one row for each step"
    ):
        forecaster.predict(futr_df=one(columns(ROWS + 1, rows=HORIZON, names=("a",), freq="1")))
    with pytest.raises(InvalidValueError, match="at '2024': `ds` holds integers"):
        forecaster.predict(at="2024")


def test_what_is_missing_is_said(library):
    forecaster = Forecaster(**READS, **COVARIATES).fit(make(library, columns()))

    def refused(kind, says, futr):
        with pytest.raises(kind, match=says):
            forecaster.predict(futr_df=None if futr is None else make(library, futr))

    known = "columns price, event=fair, event=none, event=strike are known in advance"
    refused(
        InvalidValueError, f"series `a`: {known}, and 6 rows after its last .* give their values with futr_df", None
    )
    refused(InvalidValueError, f"futr_df: series `a` has 4 of the 6 rows after .*, and {known}; add", ahead(rows=4))
    late = {k: v for k, v in columns(ROWS + 1, rows=HORIZON).items() if k != "y"}
    refused(InvalidValueError, "futr_df: series `a` has 2024-01-11 01:00:00 where 2024-01-11 00:00:00 is", late)
    refused(InvalidValueError, "futr_df: it has no series `b`; it has a", ahead(names=("a",)))
    without = {k: v for k, v in ahead().items() if k != "event"}
    refused(MissingColumnError, "no column `event`, which is known in advance; the frame has unique_id, ds, price. Add its values for the rows to forecast", without)
    unknown = {**ahead(), "event": ["parade"] * (2 * HORIZON)}
    refused(InvalidValueError, "^futr_df, row 0 .from 0.: column `event` has `parade`, which the run was not trained on; it knows fair, none, strike", unknown)
    holes = {**ahead(), "event": [None] + ["fair"] * (2 * HORIZON - 1)}
    refused(InvalidValueError, "column `event` is missing in row 0 of the frame", holes)
    plain = Forecaster("patchtst", **SMALL).fit(make(library, columns()))
    with pytest.raises(ArgumentError, match="futr_df is given, and the forecaster has no columns known in advance"):
        plain.predict(futr_df=make(library, ahead()))
    with pytest.raises(InvalidValueError, match="column `y` is to be forecast, so that it cannot be a covariate too"):
        Forecaster(target="y", known_future="y", horizon=6)
    with pytest.raises(ArgumentError, match="no setting `futr_exog_list`; did you mean `known_future`?"):
        Forecaster(horizon=6, futr_exog_list=["price"])


def test_a_plot_needs_what_is_known_in_advance():
    pytest.importorskip("matplotlib")
    forecaster = Forecaster(**READS, **COVARIATES).fit(make("pandas", columns()))
    with pytest.raises(InvalidValueError, match=r"with futr_df: plot\(forecaster.predict\(futr_df=...\)\) draws"):
        forecaster.plot()


def test_a_choice_that_reads_no_covariates_says_so(library):
    # The price says nothing, so that a forecaster of the sales alone is chosen.
    walk = np.cumsum(((np.arange(400) * 7919 + 13) % 101) / 101.0 - 0.5)
    dates = (np.datetime64("2024-01-01", "h") + np.arange(400)).astype("datetime64[ns]")
    frame = {"ds": dates, "y": walk, "price": np.arange(400) * 31 % 17 * 1.0}
    settings = {"horizon": 6, "max_steps": 1, "threads": 1, "device": "cpu", "progress": False}
    forecaster = Forecaster(**settings, known_future="price").fit(make(library, frame))
    alone = forecaster.predict()
    after = {"ds": dates[-1] + np.arange(1, 7) * np.timedelta64(1, "h"), "price": np.ones(6)}
    with pytest.warns(DataWarning, match="was chosen to forecast, and reads no columns known in advance"):
        given = forecaster.predict(futr_df=make(library, after))
    assert values(given, "auto") == values(alone, "auto")
