"""The program `landfall`, inside the extension module."""

from __future__ import annotations

import signal
import sys

from . import _landfall


def main() -> int:
    """Runs the program with the command line of this process; its exit code."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # The program handles the signal itself: Python's handler would raise KeyboardInterrupt after it.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    return int(_landfall._program(sys.argv))


if __name__ == "__main__":
    sys.exit(main())
