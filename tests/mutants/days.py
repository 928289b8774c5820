"""The mutants of quiet days: what is not used for long is forgotten somewhere, and a producer that takes that badly."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_FORGOTTEN: Final = "tests/simulation/test_forgotten_ids.py"


def _mutant(name: str, file: str, line: str, instead: str, bug: str, *by: str) -> Mutant:
    return Mutant(name, "days", file, line, instead, bug, by)


DAYS: Final = (
    _mutant(
        "a-forgotten-id-is-the-end",
        "_net/transactions.py",
        "FINAL = frozenset({31, 35, 53})",
        "FINAL = frozenset({31, 35, 49, 53})",
        "A transactional id that was not used for a week is forgotten by its coordinator, and its producer ends for good.",
        _FORGOTTEN,
    ),
    _mutant(
        "a-forgotten-id-is-kept",
        "_state/transaction_parts.py",
        "(self.partitions or self.groups or self.in_doubt or self.forgotten)",
        "(self.partitions or self.groups or self.in_doubt)",
        "After AddPartitionsToTxn is refused because the id is forgotten, nothing is asked of the coordinator: each transaction fails.",
        _FORGOTTEN,
    ),
)
