"""How a run that trains is shown: a bar of tqdm where that is installed, else a line in a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any


class Progress:
    """Shows steps, loss and validation error. `shown` forces it; by default it is shown in notebooks and terminals."""

    def __init__(self, shown: bool | None, name: str) -> None:
        self._name = name
        self._shown = ("ipykernel" in sys.modules or sys.stderr.isatty()) if shown is None else shown
        self._bar: Any = None
        self._said: dict[str, str] = {}
        self._line = ""

    def start(self, done: int, steps: int) -> None:
        """A run begins after so many of its steps."""
        if not self._shown or not steps:
            return
        try:
            from tqdm.auto import tqdm
        except ImportError:
            return
        self._bar = tqdm(total=steps, initial=done, desc=self._name, unit="step")

    def step(self, done: int, steps: int) -> None:
        """So many steps are done."""
        if self._bar is not None:
            self._bar.update(done - self._bar.n)
        elif self._shown:
            said = "".join(f", {key} {value}" for key, value in self._said.items())
            self._write(f"{self._name}: step {done} of {steps}{said}")

    def say(self, **numbers: float) -> None:
        """Shows numbers beside the steps."""
        self._said.update({key: f"{value:.4g}" for key, value in numbers.items()})
        if self._bar is not None:
            self._bar.set_postfix(self._said, refresh=False)

    def tell(self, lines: Iterable[str]) -> None:
        """Shows lines, of a run that is done."""
        if self._shown:
            sys.stderr.writelines(line + "\n" for line in lines)

    def close(self) -> None:
        """The run ended, or was stopped."""
        if self._bar is not None:
            self._bar.close()
        elif self._line:
            sys.stderr.write("\n")
            sys.stderr.flush()
        self._bar, self._line = None, ""

    def _write(self, line: str) -> None:
        # Blanks over what a longer line before left.
        sys.stderr.write("\r" + line.ljust(len(self._line)))
        sys.stderr.flush()
        self._line = line
