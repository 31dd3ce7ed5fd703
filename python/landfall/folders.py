"""Run folders that live with a forecaster, and their contents as bytes."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Mapping
from pathlib import Path

from .errors import FileError

#: Files of a run that a copy of it can do without: they are made again, or belong to the process that writes it.
_NOT_COPIED = ("lock", "events.out.tfevents.", "report.html")


def _remove(path: str, owner: int) -> None:
    # A forked child holds the same object, and the folder is its parent's.
    if os.getpid() == owner:
        shutil.rmtree(path, ignore_errors=True)


class TemporaryFolder:
    """A folder that is removed with this object, or at the end of the process that made it."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="landfall-"))
        self._remove = weakref.finalize(self, _remove, str(self.path), os.getpid())


def contents(folder: Path) -> dict[str, bytes]:
    """The files of a run by their names."""
    return {file.name: file.read_bytes() for file in _files(folder)}


def write(files: Mapping[str, bytes], folder: Path) -> None:
    """Writes the files of a run into a new folder, and nowhere else.

    Raises:
        FileError: A name that is no file of a folder's own, or what is no bytes.
    """
    for name, data in files.items():
        if not isinstance(name, str) or not isinstance(data, bytes) or name in ("", ".", "..") or set(name) & set("/\\:\0"):
            raise FileError(f"{name!r} is no file of a run; the forecaster was changed after it was pickled")
    folder.mkdir(parents=True)
    for name, data in files.items():
        with (folder / name).open("xb") as file:
            file.write(data)


def _files(folder: Path) -> list[Path]:
    return sorted(
        f for f in folder.iterdir() if f.is_file() and not f.name.startswith(_NOT_COPIED) and f.suffix != ".tmp"
    )
