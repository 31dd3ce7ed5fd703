"""Several models: a list of names is compared, and the best one forecasts."""

from __future__ import annotations

import json

import pytest

from landfall import Forecaster, errors
from series import long_columns, make, values

#: Settings of runs that take a moment.
QUICK = {"horizon": 3, "threads": 1, "device": "cpu", "progress": False}


@pytest.fixture
def frame(library):
    return make(library, long_columns(rows=300))


def column(board, name):
    return list(board[name])


def test_the_best_of_several_models_forecasts(frame, tmp_path):
    forecaster = Forecaster(["croston", "ets", "seasonal-naive"], folder=tmp_path / "all", **QUICK).fit(frame)
    board = forecaster.leaderboard()
    assert type(board) is type(frame)
    assert sorted(column(board, "candidate")) == ["croston", "ets", "seasonal-naive"]
    assert column(board, "rank") == [1, 2, 3] and column(board, "verdict")[0] == "best"
    assert column(board, "validation") == sorted(column(board, "validation"))
    assert set(column(board, "metric")) == {"rmsse"}
    best = column(board, "candidate")[0]
    assert forecaster.folder == tmp_path / "all" / best
    assert forecaster.scores["forecaster"] == column(board, "forecaster")[0]
    predicted = forecaster.predict()
    alone = Forecaster.load(tmp_path / "all" / best)
    assert values(predicted, "best") == values(alone.predict(), "best")
    loaded = Forecaster.load(tmp_path / "all")
    assert column(loaded.leaderboard(), "candidate") == column(board, "candidate")
    assert values(loaded.predict(), "best") == values(predicted, "best")
    forecaster.save(tmp_path / "kept")
    kept = Forecaster.load(tmp_path / "kept")
    assert values(kept.predict(), "best") == values(predicted, "best")
    with pytest.raises(errors.NotFittedError, match="no models were compared"):
        kept.leaderboard()
    with pytest.raises(errors.FileError, match="exists already"):
        forecaster.fit(frame)
    tested = forecaster.cross_validation(frame, n_windows=1)
    assert "best" in list(tested.columns)


def test_a_model_that_fails_is_left_out_with_a_warning(library):
    columns = long_columns(rows=300)
    columns["y"] = columns["y"] - 100.0
    forecaster = Forecaster(["tsb", "theta", "seasonal-naive"], alias="y_hat", **QUICK)
    with pytest.warns(UserWarning, match="tsb: series `a`: .* never below 0.*; the comparison is without it"):
        forecaster.fit(make(library, columns))
    board = forecaster.leaderboard()
    assert column(board, "candidate")[2] == "tsb" and column(board, "failed")[2] is not None
    assert len(values(forecaster.predict(), "y_hat")) == 6
    with pytest.raises(errors.InvalidValueError, match="no candidate could be trained; tsb: "):
        Forecaster(["tsb", "croston"], **QUICK).fit(make(library, columns))


def test_an_interrupted_comparison_goes_on(frame, tmp_path, monkeypatch):
    import landfall.progress

    started = []

    def interrupt(self, done, steps):
        started.append(steps)
        if len(started) == 2:
            raise KeyboardInterrupt

    forecaster = Forecaster(["ets", "theta", "seasonal-naive"], folder=tmp_path / "all", **QUICK)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(landfall.progress.Progress, "start", interrupt)
        forecaster.fit(frame)
    assert not (tmp_path / "all" / "leaderboard.json").exists()
    with pytest.raises(errors.NotFittedError, match="no models were compared"):
        forecaster.leaderboard()
    forecaster.resume()
    assert column(forecaster.leaderboard(), "rank") == [1, 2, 3]
    written = json.loads((tmp_path / "all" / "leaderboard.json").read_text())
    assert [row["candidate"] for row in written["rows"]] == column(forecaster.leaderboard(), "candidate")


@pytest.mark.parametrize(
    ("model", "settings", "said"),
    [
        (["ets", "tetha"], {}, "unknown candidate `tetha`; did you mean `theta`"),
        (["ets"], {}, "a comparison needs two at least"),
        (["ets", "zero-shot"], {}, "pretrained is that model as it is"),
        (["ets", "tide"], {"ensemble": "all"}, "ensemble and a comparison: each candidate has its own"),
        (["ets", "tide"], {"network": {"d_model": 8}}, "a comparison"),
    ],
)
def test_what_cannot_be_compared_is_refused_before_a_fit(model, settings, said):
    with pytest.raises(errors.InvalidValueError, match=said):
        Forecaster(model, horizon=3, **settings)


def test_a_list_is_of_names():
    with pytest.raises(errors.ArgumentError, match="give a str, or a list of them to compare"):
        Forecaster(["ets", 3], horizon=3)
    assert repr(Forecaster(["ets", "tide"], horizon=3)) == "Forecaster(model=['ets', 'tide'], horizon=3)"
