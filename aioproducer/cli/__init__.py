"""The command line: `aioproducer`, or `python -m aioproducer`."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence

__all__ = ["main"]

USAGE = 2
# 128 plus the number of SIGINT, as in shells.
INTERRUPTED = 130
NEEDED = ("click", "rich")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code: 0 success, 1 failure, 2 wrong usage, 130 Ctrl-C before it began."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        print(
            f"aioproducer: the command line needs {' and '.join(missing)}: pip install 'aioproducer[cli]'",
            file=sys.stderr,
        )
        return USAGE
    # Late: the rest of the package works without these two.
    try:
        from aioproducer.cli.program import run  # noqa: PLC0415

        return run(arguments)
    except KeyboardInterrupt:
        return INTERRUPTED
