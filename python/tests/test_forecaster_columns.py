"""Columns of frames enter as they are typed: nothing of them becomes text, and nothing is lost."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys

import numpy as np
import pytest

from landfall import Error, Forecaster, errors
from landfall._landfall import Columns
from series import SMALL, kept_columns, long_columns, make, values, wave

PROGRAM = [sys.executable, "-m", "landfall._program"]


def run(*words) -> str:
    done = subprocess.run([*PROGRAM, *map(str, words)], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def as_csv(columns: dict) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    dates = np.datetime_as_string(np.asarray(columns["ds"]), unit="s").tolist()
    written = {**columns, "ds": [date.replace("T", " ") for date in dates]}
    writer.writerows(zip(*[["" if c != c else c for c in column] for column in written.values()]))
    return text.getvalue()


def test_a_frame_and_a_file_of_it_give_the_same_run(library, tmp_path):
    columns = long_columns(names=("a", "b,c"))
    columns["y"][[50, 51]] = np.nan
    with pytest.warns(match="2 missing values"):
        forecaster = Forecaster("patchtst", folder=tmp_path / "frame", **SMALL).fit(make(library, columns))
    (tmp_path / "data.csv").write_text(as_csv(columns))
    settings = {k.replace("_", "-"): v for k, v in SMALL.items() if k not in ("progress", "network", "device")}
    flags = [word for name, value in settings.items() for word in (f"--{name}", value)]
    network = tmp_path / "network.toml"
    network.write_text("[network]\nd-model = 8\nheads = 2\nlayers = 1\nd-ff = 16\n")
    roles = ["--series-id", "unique_id", "--date-column", "ds", "--columns", "y", "--date-format", "%Y-%m-%d %H:%M:%S"]
    roles += ["--separator", ",", "--decimal", ".", "--model", "patchtst", "--device", "cpu", "--config", network]
    run("train", "--data", tmp_path / "data.csv", "--out", tmp_path / "file", *roles, *flags)
    predicted = values(forecaster.predict(), "patchtst")
    for folder in ("frame", "file"):
        rows = list(csv.reader(io.StringIO(run("forecast", tmp_path / folder, "--device", "cpu"))))[1:]
        assert [float(row[2]) for row in rows] == predicted, folder
    configs = [(tmp_path / folder / "config.toml").read_text().splitlines() for folder in ("frame", "file")]
    first, second = ([line for line in config if not line.startswith("data = ")] for config in configs)
    assert first == second
    files = [(tmp_path / folder / "best.safetensors").read_bytes() for folder in ("frame", "file")]
    # The header holds the settings, and so the name of the data.
    weights = [file[8 + int.from_bytes(file[:8], "little") :] for file in files]
    assert weights[0] == weights[1] and len(weights[0]) > 1000


def test_pandas_needs_no_pyarrow(tmp_path):
    pd = pytest.importorskip("pandas")
    code = (
        "import sys\n"
        "sys.modules['pyarrow'] = None\n"
        "import json, pandas as pd, numpy as np\n"
        "from landfall import Forecaster\n"
        "columns, settings = json.load(sys.stdin)\n"
        "frame = pd.DataFrame(columns)\n"
        "frame['ds'] = pd.to_datetime(frame['ds'])\n"
        "print(json.dumps(list(Forecaster('patchtst', **settings).fit(frame).predict()['patchtst'])))\n"
    )
    columns = long_columns()
    given = {"unique_id": columns["unique_id"], "ds": [str(d) for d in columns["ds"]], "y": columns["y"].tolist()}
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=json.dumps([given, SMALL]),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    expected = values(Forecaster("patchtst", **SMALL).fit(pd.DataFrame(columns)).predict(), "patchtst")
    assert json.loads(done.stdout.splitlines()[-1]) == expected


def test_columns_of_pyarrow_in_pandas():
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    columns = long_columns()
    frame = pd.DataFrame(columns)
    typed = frame.astype({"unique_id": "string[pyarrow]", "ds": "timestamp[ns][pyarrow]", "y": "double[pyarrow]"})
    first, second = (Forecaster("patchtst", **SMALL).fit(f).predict() for f in (frame, typed))
    assert values(first, "patchtst") == values(second, "patchtst")


@pytest.mark.parametrize(
    "names",
    [
        (9_007_199_254_740_993, 9_007_199_254_740_992),
        (2**63 - 1, -(2**63)),
        ("1", "01"),
        ("1e3", "1000"),
        ("a,b", "a;b\nc"),
        ('"', "''"),
        ("NA", "None"),
        ("2024-01-01", "2024-01-02"),
        ("\u00e9", "e\u0301"),
    ],
)
def test_names_of_series_are_kept(library, names):
    frame = make(library, long_columns(names=names))
    forecaster = Forecaster("patchtst", **SMALL).fit(frame)
    assert values(forecaster.predict(), "unique_id") == [name for name in names for _ in range(6)]
    assert kept_columns(forecaster.folder)["unique_id"][::240] == [str(name) for name in names]
    again = Forecaster.load(forecaster.folder).predict(frame)
    assert values(again, "unique_id") == [name for name in names for _ in range(6)]


def test_dates_of_nanoseconds_are_kept(library):
    columns = long_columns(names=("a",))
    columns["ds"] = np.datetime64("2024-01-01T00:00:00.000000001", "ns") + np.arange(240) * np.timedelta64(7, "ns")
    predicted = Forecaster("patchtst", **SMALL).fit(make(library, columns)).predict()
    last = columns["ds"][-1].astype(np.int64)
    found = np.asarray(predicted["ds"]).astype("datetime64[ns]").astype(np.int64)
    assert found.tolist() == [last + 7 * row for row in range(1, 7)]


def test_what_is_missing_and_what_is_empty(library):
    columns = long_columns(names=("a",))
    kinds = np.array(["x", "", " ", "None"], dtype=object)[np.arange(240) % 4]
    settings = {**SMALL, "columns": ["y", "kind"], "categorical": "kind", "target": "y"}
    with pytest.raises(errors.InvalidValueError, match="column `kind` has no value.*fill it in") as caught:
        Forecaster("patchtst", **settings).fit(make(library, {**columns, "kind": kinds}))
    assert (caught.value.source, caught.value.row, caught.value.column) == ("the frame", 1, "kind")
    named = np.array(["x", "NA", "None", "nan"], dtype=object)[np.arange(240) % 4]
    frame = make(library, {**columns, "kind": named})
    forecaster = Forecaster(preset="dlinear", **{**settings, "network": None}).fit(frame)
    config = (forecaster.folder / "config.toml").read_text()
    for name in ("NA", "None", "nan", "x"):
        assert f'"kind={name}"' in config
    with pytest.raises(errors.InvalidValueError, match="column `kind` is missing in row 3 of the frame"):
        holes = [None if row == 3 else name for row, name in enumerate(named)]
        Forecaster("patchtst", **settings).fit(make(library, {**columns, "kind": holes}))


def test_rows_in_messages_are_those_of_the_frame(library):
    """Rows are sorted on their way; a message names the row that a person sees."""
    columns = {name: np.asarray(column)[::-1] for name, column in long_columns().items()}
    y = columns["y"].copy()
    # The first row of series a in time is the last one of the frame.
    y[-1] = np.nan
    with pytest.raises(errors.InvalidValueError, match=r"^the frame, row 479 \(from 0\): column `y` starts with") as caught:
        Forecaster("patchtst", fill="previous", **SMALL).fit(make(library, {**columns, "y": y}))
    assert (caught.value.source, caught.value.row, caught.value.column) == ("the frame", 479, "y")


def test_truth_values_and_integers_are_numbers(library):
    columns = long_columns(names=("a",))
    whole = (columns["y"] * 1000).astype(np.int32)
    yes = np.arange(240) % 3 == 0
    frame = make(library, {**columns, "y": whole, "open": yes})
    forecaster = Forecaster("patchtst", columns=["y", "open"], target="y", **SMALL).fit(frame)
    kept = kept_columns(forecaster.folder)
    assert kept["y"] == [float(n) for n in whole] and kept["open"] == [float(n) for n in yes]


def test_periods_of_pandas_are_converted_by_hand():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"ds": pd.period_range("2024-01", periods=60, freq="M"), "y": wave(60)})
    with pytest.raises(errors.ArgumentError, match="dt.to_timestamp"):
        Forecaster("patchtst", **SMALL).fit(frame)


def test_arrow_tables_are_columns():
    pa = pytest.importorskip("pyarrow")
    numbers = pa.array([1.5, None, 3.0])
    chunks = pa.chunked_array([["a", None], ["b"]])
    table = pa.table(
        {
            "numbers": numbers,
            "single": pa.array([0.1, 2, 3], pa.float32()),
            "whole": pa.array([1, 2**62 + 1, -5]),
            "small": pa.array([1, 2, 3], pa.uint8()),
            "names": chunks,
            "views": pa.array(["x", "y", "x"], pa.string_view()),
            "coded": pa.array(["k", "l", "k"]).dictionary_encode(),
            "dates": pa.array([1, 2, 3], pa.timestamp("ns")),
            "truths": pa.array([True, None, False]),
        }
    )
    columns = Columns.of_arrow(table)

    def floats(name):
        return np.frombuffer(columns.numbers(name))

    assert np.array_equal(floats("numbers"), [1.5, np.nan, 3.0], equal_nan=True)
    assert floats("single").tolist() == [0.1, 2.0, 3.0]
    assert np.frombuffer(columns.integers("whole"), dtype=np.int64).tolist() == [1, 2**62 + 1, -5]
    assert np.frombuffer(columns.integers("small"), dtype=np.int64).tolist() == [1, 2, 3]
    for name, places, texts in (
        ("names", [0, -1, 1], ["a", "b"]),
        ("views", [0, 1, 0], ["x", "y"]),
        ("coded", [0, 1, 0], ["k", "l"]),
    ):
        found, listed = columns.names(name)
        assert (np.frombuffer(found, dtype=np.int64).tolist(), listed) == (places, texts)
    assert np.frombuffer(columns.dates("dates"), dtype=np.int64).tolist() == [1, 2, 3]
    assert np.array_equal(floats("truths"), [1.0, np.nan, 0.0], equal_nan=True)
    assert columns.numbers("names") is None and columns.numbers("nothing") is None
    with pytest.raises(errors.ArgumentError, match="column `lists` has the type .*; it must hold numbers") as caught:
        Columns.of_arrow(pa.table({"lists": [[1], [2]]}))
    assert caught.value.column == "lists"


def test_a_run_of_another_version_is_read_or_refused_by_name(library, tmp_path):
    """Runs of before `data.arrow` keep their data as text."""
    columns = long_columns()
    frame = make(library, columns)
    forecaster = Forecaster("patchtst", folder=tmp_path / "run", **SMALL).fit(frame)
    expected = values(forecaster.predict(), "patchtst")
    (tmp_path / "run" / "data.arrow").unlink()
    (tmp_path / "run" / "data.csv").write_text(as_csv(columns))
    config = tmp_path / "run" / "config.toml"
    config.write_text(config.read_text().replace('"data.arrow"', '"data.csv"'))
    old = Forecaster.load(tmp_path / "run")
    assert values(old.predict(), "patchtst") == expected
    assert values(old.predict(frame, at="2024-01-08 05:00"), "ds")[0] is not None
    with pytest.raises(errors.FileError, match="keeps its data as text, as runs did before data.arrow: give the frame to predict"):
        old.predict(at="2024-01-08 05:00")


def test_data_that_is_no_arrow_file_is_refused(library, tmp_path):
    forecaster = Forecaster("patchtst", folder=tmp_path / "run", **SMALL).fit(make(library, long_columns()))
    (tmp_path / "run" / "data.arrow").write_bytes(b"a,b\n1,2\n")
    with pytest.raises(errors.FileError, match="data.arrow: not readable as Arrow data .*; write it again"):
        forecaster.predict()
    with pytest.raises(Error, match="not readable as Arrow data"):
        forecaster.predict(at="2024-01-08 05:00")


def test_a_person_opens_the_data_of_a_run(library, tmp_path):
    columns = long_columns()
    forecaster = Forecaster("patchtst", folder=tmp_path / "run", **SMALL).fit(make(library, columns))
    pl = pytest.importorskip("polars")
    opened = pl.read_ipc(forecaster.folder / "data.arrow")
    assert opened["y"].to_list() == columns["y"].tolist() and opened["ds"].dtype == pl.Datetime("ns")
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    opened = pd.read_feather(forecaster.folder / "data.arrow")
    assert opened["unique_id"].tolist() == columns["unique_id"] and opened["ds"].tolist() == list(map(pd.Timestamp, columns["ds"]))
