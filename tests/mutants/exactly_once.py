"""The mutants of what is written exactly once by Spark: marks that are overlooked, and jobs that are committed by halves."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant


def _mutant(name: str, file: str, line: str, instead: str, bug: str, *by: str) -> Mutant:
    return Mutant(name, "exactly once", file, line, instead, bug, by)


EXACTLY_ONCE: Final = (
    _mutant(
        "partition-left-out-taken-for-nothing-committed",
        "_state/committed_offsets.py",
        "    if missing:\n",
        "    if False:\n",
        'An OffsetFetch answer without what was asked for is taken for "nothing is committed", and work is done again.',
        "tests/net/test_committed_offsets.py",
    ),
)
