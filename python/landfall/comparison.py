"""Forecasters that are compared on the same data: ``Forecaster(["ets", "tide"])``."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from . import _landfall, keywords
from .errors import ArgumentError, InvalidValueError
from .frames import Frame
from .notices import warn
from .tables import Table

#: The file of a comparison's directory with its result.
LEADERBOARD = "leaderboard.json"


def names(model: Any) -> list[str] | None:
    """The names of forecasters to compare; None for one model."""
    if isinstance(model, str):
        return None
    if not isinstance(model, Sequence) or not all(isinstance(name, str) for name in model):
        raise ArgumentError(f"model {model!r}: give a str, or a list of them to compare")
    if any(name.lower() == "zero-shot" for name in model):
        raise InvalidValueError(
            "zero-shot in a list of models: pretrained is that model as it is; to train it further, fit Forecaster(init='zero-shot')"
        )
    return list(model)


def run(
    names: Sequence[str],
    settings: Mapping[str, Any],
    table: Table,
    folder: Path,
    state: Mapping[str, Any],
    event: Callable[[str, str], None],
    run_in: Callable[[Path], None],
) -> dict[str, Any]:
    """Trains what is not trained yet of a comparison in a directory; its leaderboard. `run_in` gets the directory of each run."""
    seen: set[str] = set()

    def begun(name: str, what: str) -> None:
        if name == "started":
            told = json.loads(what)
            run_in(Path(told["folder"]))
            # Most notes are of the data, which is that of all.
            told["notes"] = [note for note in told["notes"] if note not in seen]
            seen.update(told["notes"])
            what = json.dumps(told)
        event(name, what)

    own = {name: json.loads(given) for name, given in _landfall._contenders()}
    shared = {name: value for name, value in state["settings"].items() if name != "model"}
    described = {name: json.dumps({**state, "settings": {**shared, **given}}) for name, given in own.items()}
    given = keywords.to_json({**settings, **table.layout.settings()})
    return dict(json.loads(_landfall._compare(list(names), given, table.columns(), folder, described, begun)))


def told(leaderboard: Mapping[str, Any]) -> Path:
    """Says what is to be known of a comparison; the directory of the best run.

    Raises:
        InvalidValueError: Where all candidates failed.
    """
    failed = [f"{row['candidate']}: {row['failed']}" for row in leaderboard["rows"] if row["failed"]]
    best = next((row for row in leaderboard["rows"] if row["rank"] == 1), None)
    if best is None:
        raise InvalidValueError(f"no candidate could be trained; {'; '.join(failed)}")
    for why in failed:
        warn(f"{why}; the comparison is without it")
    # The first two say how the order came about, the others what is wrong with it.
    for note in leaderboard["notes"][2:]:
        warn(note)
    return Path(best["run"])


def frame(leaderboard: Mapping[str, Any], kind: str) -> Frame:
    """The rows as a frame of this kind."""
    rows = []
    for row in leaderboard["rows"]:
        difference = row["difference"] or {"mean": None, "standard_error": None}
        flat = {name: value for name, value in row.items() if name not in ("difference", "failed", "run")}
        flat |= {"difference": difference["mean"], "standard_error": difference["standard_error"]}
        rows.append({**flat, "metric": leaderboard["metric"], "failed": row["failed"], "run": row["run"]})
    if kind == "pandas":
        import pandas

        made = pandas.DataFrame(rows)
        return made.astype({"rank": "Int64"})
    import polars

    return polars.DataFrame(rows, infer_schema_length=None)
