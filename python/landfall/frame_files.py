"""Frames as files, which the engine reads, and messages about them in words of frames."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from .errors import Error

#: What the program calls otherwise.
_WORDS = {
    "--weights last": 'weights="last"',
    "start another run with: landfall train .*": "fit() starts another run",
    "give evenly spaced dates or none": "give evenly spaced dates, or integers 0, 1, 2, ... for dates",
}


@contextmanager
def as_files(texts: Sequence[str | None], name: str = "data.csv") -> Iterator[list[Path | None]]:
    """Texts as files, for as long as they are read."""
    with tempfile.TemporaryDirectory(prefix="landfall-") as folder:
        paths: list[Path | None] = []
        for number, text in enumerate(texts):
            path = Path(folder) / str(number) / name
            paths.append(None if text is None else path)
            if text is not None:
                path.parent.mkdir()
                path.write_text(text, encoding="utf-8")
        with in_words_of_frames():
            yield paths


@contextmanager
def in_words_of_frames() -> Iterator[None]:
    """Errors of the engine in words of frames."""
    try:
        yield
    except Error as e:
        e.args = tuple(of_frame(arg) if isinstance(arg, str) else arg for arg in e.args)
        raise


def of_frame(text: str) -> str:
    """A message of the program in words of frames: its reader has seen neither the file of a frame, whose lines are in another
    order, nor the flags of the program."""
    folder = re.escape(tempfile.gettempdir()) + r"[/\\]landfall-\w+[/\\](\d+|run)[/\\]"
    for file, name in (("data", "the frame"), ("future", "futr_df")):
        text = re.sub(rf"{folder}{file}\.csv(:\d+)?", name, text)
    for words, ours in _WORDS.items():
        text = re.sub(words, ours, text)
    return re.sub(r"(?<![\w-])--([a-z][a-z-]*)", lambda flag: flag[1].replace("-", "_"), text)
