"""Signals that end the process, while a run trains."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

#: What Slurm and `docker stop` send, and a terminal that is closed.
_ENDING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))


@contextmanager
def raised() -> Iterator[None]:
    """Such a signal raises `SystemExit`, as Ctrl-C raises `KeyboardInterrupt`, so that a run ends after its step, with a
    checkpoint. A handler of the process's own stays. Python runs handlers in its main thread alone."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    taken = [number for number in _ENDING if signal.getsignal(number) is signal.SIG_DFL]
    for number in taken:
        signal.signal(number, _exit)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)


def _exit(number: int, frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)
