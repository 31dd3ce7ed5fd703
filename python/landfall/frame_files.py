"""Frames as files, which the engine reads, and messages about them in words of frames."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from .errors import Error


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
        try:
            yield paths
        except Error as e:
            e.args = tuple(of_frame(arg) if isinstance(arg, str) else arg for arg in e.args)
            raise


def of_frame(text: str) -> str:
    """A message that names the file of a frame, which its reader has never seen."""
    folder = re.escape(tempfile.gettempdir()) + r"[/\\]landfall-\w+[/\\]\d+[/\\]"
    return re.sub(folder + r"data\.csv", "the frame", re.sub(folder + r"future\.csv", "futr_df", text))
