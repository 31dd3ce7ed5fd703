"""Run folders, the program, interruption, other processes."""

from __future__ import annotations

import _thread
import datetime
import multiprocessing
import os
import pickle
import shutil
import signal
import subprocess
import sys
import threading
import time
import warnings

import pytest

import landfall
from landfall import Error, Forecaster, errors
from series import SMALL, long_columns, make, values

PROGRAM = [sys.executable, "-m", "landfall._program"]


def run(*words, **options) -> subprocess.CompletedProcess:
    return subprocess.run(
        [*PROGRAM, *map(str, words)], capture_output=True, text=True, timeout=300, check=False, **options
    )


@pytest.fixture
def frame(library):
    return make(library, long_columns())


def test_a_run_folder_is_the_programs_and_needs_nothing_outside(frame, tmp_path):
    forecaster = Forecaster("patchtst", folder=tmp_path / "run", **SMALL).fit(frame)
    assert forecaster.folder == tmp_path / "run"
    moved = tmp_path / "moved"
    shutil.move(tmp_path / "run", moved)
    forecast = run("forecast", moved, "--device", "cpu")
    assert forecast.returncode == 0, forecast.stderr
    rows = [line.split(",") for line in forecast.stdout.splitlines()]
    assert rows[0] == ["series", "ds", "y"]
    loaded = Forecaster.load(moved)
    predicted = loaded.predict()
    assert [float(row[2]) for row in rows[1:]] == values(predicted, "patchtst")
    assert type(predicted) is type(frame) and predicted["ds"].dtype == frame["ds"].dtype
    for words in (
        ("report", moved, "--device", "cpu"),
        ("evaluate", moved, "--device", "cpu"),
        ("train", "--resume", moved, "--max-steps", "25"),
    ):
        done = run(*words)
        assert done.returncode == 0, done.stderr
    assert (moved / "report.html").exists()


def test_a_relative_folder_serves_as_any_other(frame, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    forecaster = Forecaster("patchtst", folder="runs/sales", **SMALL).fit(frame)
    predicted = values(forecaster.predict(), "patchtst")
    assert values(Forecaster.load("runs/sales").predict(), "patchtst") == predicted
    assert run("forecast", "runs/sales", "--device", "cpu").returncode == 0


def test_the_program_has_its_exit_codes():
    assert run("--version").stdout.startswith("landfall ")
    refused = run("train", "--horizon", "x")
    assert refused.returncode == 2 and refused.stderr.startswith("error: ")
    assert run("forecast", "nowhere").returncode == 2


@pytest.mark.skipif(os.name != "posix", reason="signals are those of POSIX")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_program_ends_by_a_signal_with_a_checkpoint(tmp_path, number):
    words = [
        *PROGRAM,
        "train",
        "--max-steps",
        "1000000",
        "--preset",
        "patchtst-42",
        "--context",
        "32",
        "--horizon",
        "8",
        "--out",
        "run",
        "--device",
        "cpu",
        "--log-every",
        "1",
    ]
    with subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            if line.startswith("step 2/"):
                break
        process.send_signal(number)
        _, err = process.communicate(timeout=120)
    assert process.returncode == 128 + number, err
    assert "checkpoint saved" in err and "Traceback" not in err


def interrupt_when(folder, name: str) -> threading.Thread:
    """Interrupts the main thread, as Ctrl-C does, once a run has begun."""

    def wait():
        for _ in range(1200):
            if (folder / name).exists() and (folder / name).stat().st_size > 200:
                break
            time.sleep(0.05)
        _thread.interrupt_main()

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def test_ctrl_c_ends_fit_with_a_checkpoint_and_resume_goes_on(frame, tmp_path):
    small = {**SMALL, "max_steps": 2000, "log_every": 1, "checkpoint_every": 1_000_000}
    whole = Forecaster("patchtst", **small).fit(frame)
    part = Forecaster("patchtst", folder=tmp_path / "run", **small)
    thread = interrupt_when(tmp_path / "run", "metrics.jsonl")
    with pytest.raises(KeyboardInterrupt):
        part.fit(frame)
    thread.join()
    assert (tmp_path / "run" / "checkpoint.safetensors").exists()
    with pytest.raises(Error, match="was interrupted; resume"):
        _ = part.scores
    with pytest.warns(landfall.DataWarning, match="was interrupted") as caught:
        part.predict(weights="last")
    assert caught[0].filename == __file__
    resumed = Forecaster.load(tmp_path / "run").resume()
    assert resumed.scores == whole.scores
    assert predicted(resumed) == predicted(whole)
    with pytest.raises(Error, match="is complete"):
        resumed.resume()
    with pytest.raises(Error, match="a resumed run keeps its settings"):
        resumed.resume(lr=0.1)


def test_a_folder_is_never_written_over(frame, tmp_path):
    forecaster = Forecaster("nlinear", folder=tmp_path / "run", **{**SMALL, "network": None}).fit(frame)
    with pytest.raises(
        errors.FileError, match="already exists; choose another folder, or load it with Forecaster.load"
    ):
        forecaster.fit(frame)
    with pytest.raises(OSError, match="exists already"):
        forecaster.save(tmp_path / "run")
    saved = forecaster.save(tmp_path / "copy")
    assert values(Forecaster.load(saved).predict(), "nlinear") == values(forecaster.predict(), "nlinear")
    for wrong in (tmp_path, saved / "frame.json"):
        with pytest.raises(errors.FileError, match="holds no frame.json"):
            Forecaster.load(wrong)
    with pytest.raises(Error, match="fit without steps; fit.. starts another run$"):
        forecaster.resume()


def test_the_version_is_the_programs():
    assert run("--version").stdout == f"landfall {landfall.__version__}\n"


def test_errors_say_what_they_are_about(frame):
    with pytest.raises(errors.InvalidValueError) as caught:
        Forecaster("prophet")
    assert caught.value.setting == "model" and caught.value.column is None
    forecaster = Forecaster("patchtst", **SMALL).fit(frame)
    other = make("pandas", {**long_columns(), "y": [float("nan")] * 480})
    with pytest.raises(errors.InvalidValueError, match="give it values or use fill zero$") as caught:
        forecaster.predict(other)
    assert caught.value.column == "y" and caught.value.setting is None
    # Flags are the program's.
    short = make("pandas", long_columns(rows=27))
    with pytest.raises(errors.InvalidValueError, match="or change split [(]") as caught:
        forecaster.predict(short, level=[50])
    assert "--" not in str(caught.value)


def test_a_temporary_folder_lives_with_its_forecaster(frame):
    forecaster = Forecaster("nlinear", **{**SMALL, "network": None}).fit(frame)
    first = forecaster.folder
    forecaster.fit(frame)
    assert forecaster.folder != first and not first.exists() and forecaster.folder.exists()
    last = forecaster.folder
    del forecaster
    assert not last.exists()


def test_without_a_fit_there_is_no_forecast():
    with pytest.raises(errors.NotFittedError, match=r"call fit\(df\) first"):
        Forecaster().predict()
    unfitted = pickle.loads(pickle.dumps(Forecaster("patchtst", horizon=3)))
    assert repr(unfitted) == "Forecaster(model='patchtst', horizon=3)"


def test_a_pickle_carries_its_run(frame, tmp_path):
    forecaster = Forecaster("patchtst", folder=tmp_path / "run", **SMALL).fit(frame)
    expected, data = values(forecaster.predict(), "patchtst"), pickle.dumps(forecaster)
    shutil.rmtree(tmp_path / "run")
    again = pickle.loads(data)
    assert values(again.predict(), "patchtst") == expected
    assert again.folder != tmp_path / "run"
    (tmp_path / "f.pickle").write_bytes(data)
    code = "import pickle, sys; f = pickle.load(open(sys.argv[1], 'rb')); print(list(f.predict()['patchtst']))"
    other = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "f.pickle"], capture_output=True, text=True, timeout=120, check=False
    )
    assert other.returncode == 0, other.stderr
    assert other.stdout.strip() == str(list(expected))


def predicted(forecaster):
    return values(forecaster.predict(), "patchtst")


def fitted(frame):
    return predicted(Forecaster("patchtst", **SMALL).fit(frame))


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_workers(start):
    if start not in multiprocessing.get_all_start_methods():
        pytest.skip(f"this system does not {start}")
    frame = make("pandas", long_columns())
    forecaster = Forecaster("patchtst", **SMALL).fit(frame)
    expected = predicted(forecaster)
    with multiprocessing.get_context(start).Pool(2) as pool:
        assert pool.map(predicted, [forecaster] * 3) == [expected] * 3
        assert pool.apply_async(fitted, (frame,)).get(timeout=120) == expected
    # The workers have gone; the folder is the parent's and still there.
    assert predicted(forecaster) == expected


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_child_does_not_remove_its_parents_folder():
    forecaster = Forecaster("nlinear", **{**SMALL, "network": None}).fit(make("pandas", long_columns()))
    child = os.fork()
    if child == 0:
        forecaster.__dict__.clear()
        os._exit(0)
    os.waitpid(child, 0)
    assert forecaster.folder.exists()


def test_a_gpu_that_was_used_before_a_fork_is_refused(monkeypatch):
    monkeypatch.setattr(landfall.forecaster, "_gpu_process", os.getpid() + 1)
    frame = make("pandas", long_columns())
    with pytest.raises(errors.DeviceError, match="CUDA does not survive a fork; start workers by"):
        Forecaster("patchtst", **{**SMALL, "device": "auto"}).fit(frame)
    assert len(fitted(frame)) == 12


def test_a_device_that_is_absent():
    with pytest.raises(RuntimeError, match=r'device="cuda:63": .*; use device="cpu"'):
        Forecaster("patchtst", **{**SMALL, "device": "cuda:63"}).fit(make("pandas", long_columns()))


def test_other_threads_run_while_it_trains():
    frame, ticks, done = make("pandas", long_columns()), [], threading.Event()

    def count():
        while not done.wait(0.005):
            ticks.append(None)

    thread = threading.Thread(target=count)
    thread.start()
    try:
        Forecaster("patchtst", **{**SMALL, "max_steps": 200}).fit(frame)
    finally:
        done.set()
        thread.join()
    # With the interpreter's lock held, the other thread would run before and after alone.
    assert len(ticks) > 5


def test_progress_is_shown_where_it_is_asked_for(frame, capsys):
    Forecaster("patchtst", **{**SMALL, "progress": True}).fit(frame)
    assert "patchtst" in capsys.readouterr().err
    Forecaster("patchtst", **SMALL).fit(frame)
    assert capsys.readouterr().err == ""


@pytest.mark.skipif(os.name != "posix", reason="signals are those of POSIX")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_a_fit_with_a_checkpoint(tmp_path, number):
    pytest.importorskip("pandas")
    folder = tmp_path / "run"
    code = (
        "import sys, pandas as pd, numpy as np\n"
        "from landfall import Forecaster\n"
        "rows = pd.DataFrame({'ds': pd.date_range('2024-01-01', periods=300, freq='h'), 'y': np.sin(np.arange(300) / 4)})\n"
        "Forecaster('patchtst', horizon=6, context=24, max_steps=1_000_000, device='cpu', threads=1,\n"
        "           preset='patchtst-42', folder=sys.argv[1]).fit(rows)\n"
    ).replace("'patchtst', ", "")
    process = subprocess.Popen([sys.executable, "-c", code, str(folder)], stderr=subprocess.PIPE, text=True)
    metrics = folder / "metrics.jsonl"
    until = time.monotonic() + 120
    while not (metrics.exists() and metrics.stat().st_size) and time.monotonic() < until and process.poll() is None:
        time.sleep(0.05)
    process.send_signal(number)
    said = process.communicate(timeout=120)[1]
    assert process.returncode == 128 + number, said
    resumed = run("train", "--resume", folder, "--max-steps", "1")
    assert "has done" in resumed.stderr, resumed.stderr


def test_a_handler_of_the_process_stays(frame, tmp_path):
    handler = signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        own = signal.getsignal(signal.SIGTERM)
        Forecaster("nlinear", folder=tmp_path / "run", **{**SMALL, "network": None, "max_steps": 1}).fit(frame)
        assert signal.getsignal(signal.SIGTERM) is own
    finally:
        signal.signal(signal.SIGTERM, handler)


@pytest.mark.parametrize("name", ["../evil", "/tmp/evil", "a/b", "..", "", "a\\b"])
def test_a_pickle_writes_into_its_own_folder_alone(frame, tmp_path, name):
    forecaster = Forecaster("nlinear", folder=tmp_path / "run", **{**SMALL, "network": None, "max_steps": 1}).fit(frame)
    state = forecaster.__getstate__()
    state["files"][name] = b"evil"
    with pytest.raises(errors.FileError, match="is no file of a run"):
        Forecaster.__new__(Forecaster).__setstate__(state)


def test_by_default_an_ensemble_competes_and_is_no_baseline(library, tmp_path):
    season = [8.0, -3.0, 0.0, 5.0, -9.0, 2.0, 4.0, -6.0, 1.0, 7.0, -4.0, -5.0]
    names, dates, levels = [], [], []
    for name, rows in (("a", 72), ("b", 72), ("short", 5)):
        for row in range(72 - rows, 72):
            names.append(name)
            dates.append(datetime.datetime(2000 + row // 12, row % 12 + 1, 1))
            levels.append(100.0 + 0.5 * row + season[row % 12] + (row * 37 % 23) / 23.0)
    frame = make(library, {"unique_id": names, "ds": dates, "y": levels})
    forecaster = Forecaster(horizon=6, max_steps=4, device="cpu", folder=tmp_path / "run")
    with warnings.catch_warnings():
        warnings.simplefilter("error", landfall.BaselineWarning)
        warnings.simplefilter("ignore", landfall.DataWarning)
        forecaster.fit(frame)
    assert "ensemble" in forecaster.scores["forecaster"]
    assert (tmp_path / "run" / "ensemble.json").exists()
    predicted = forecaster.predict(level=[80])
    low, y, high = (values(predicted, column) for column in ("auto-lo-80", "auto", "auto-hi-80"))
    assert len(y) == 18 and all(a < b < c for a, b, c in zip(low, y, high))
    assert values(Forecaster.load(tmp_path / "run").predict(), "auto") == y
    without = Forecaster(horizon=6, max_steps=4, device="cpu", ensemble="none").fit(frame)
    assert "ensemble" not in without.scores["forecaster"]
