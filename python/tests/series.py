"""Series for the tests of forecasters."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

#: Settings of a run that takes a second.
SMALL = {
    "horizon": 6,
    "context": 24,
    "max_steps": 20,
    "batch": 8,
    "threads": 1,
    "device": "cpu",
    "progress": False,
    "network": {"d_model": 8, "heads": 2, "layers": 1, "d_ff": 16},
}


def wave(rows: int, level: float = 10.0, seed: int = 0) -> np.ndarray:
    """An hourly series: a day with noise."""
    noise = np.random.default_rng(seed).normal(0, 0.1, rows)
    return level + 3 * np.sin(2 * np.pi * np.arange(rows) / 24) + noise


def long_columns(rows: int = 240, names: tuple = ("a", "b"), freq: str = "h") -> dict:
    """Columns of a frame in long form: series of one length and different level."""
    step = {"h": "h", "D": "D"}[freq]
    dates = np.datetime64("2024-01-01", step) + np.arange(rows)
    return {
        "unique_id": [name for name in names for _ in range(rows)],
        "ds": np.concatenate([dates.astype("datetime64[ns]")] * len(names)),
        "y": np.concatenate([wave(rows, 10.0 * (i + 1), i) for i in range(len(names))]),
    }


def make(library: str, columns: dict):
    """A frame of pandas or polars."""
    module = pytest.importorskip(library)
    return module.DataFrame(columns)


def values(frame, column: str) -> list:
    """A column as a list."""
    return frame[column].to_list() if hasattr(frame[column], "to_list") else list(frame[column])


def kept_columns(folder: Path) -> dict[str, list]:
    """The columns of the data that a run keeps, as polars opens it."""
    return pytest.importorskip("polars").read_ipc(folder / "data.arrow").to_dict(as_series=False)


def ett(name: str) -> Path:
    """A file of ETT: in `LANDFALL_SHARED`, or in `shared` beside the checkout; or a skip that says that it is not
    there."""
    shared = os.environ.get("LANDFALL_SHARED") or Path(__file__).resolve().parents[3] / "shared"
    found = Path(shared) / "data" / name
    if not found.exists():
        pytest.skip(f"{found} is not there")
    return found
