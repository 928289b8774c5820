"""The mutants of certainty after UNKNOWN: verdicts without their proof."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Kind

_SEARCH: Final = "tests/state/resolving/test_search.py"

_mutant = Kind("resolving")

RESOLVING: Final = (
    _mutant(
        "absence-without-a-fence",
        "_state/resolving/search.py",
        "            return NOTHING_LATER",
        '            return ""',
        "A record that is not in the log counts as not written, while its request may still arrive.",
        _SEARCH,
    ),
    _mutant(
        "holes-prove-absence",
        "_state/resolving/search.py",
        "            self.cannot_prove_absence(HOLE)",
        "            pass",
        "Compaction removed the batch, and it counts as not written.",
        _SEARCH,
    ),
    _mutant(
        "the-place-is-not-looked-at",
        "_state/resolving/search.py",
        "if not self._has_begun and not self._is_the_anchor(head):",
        "if False:",
        "After an unclean election the log is read from a place behind the record.",
        _SEARCH,
    ),
    _mutant(
        "a-forgotten-producer-fences",
        "_state/resolving/search.py",
        "return STALE if self._fenced_at < now_ms - FRESH_MS else",
        "return STALE if False else",
        "The leader has forgotten the producer, and takes the late request.",
        _SEARCH,
    ),
    _mutant(
        "numbers-do-not-wrap",
        "_state/resolving/search.py",
        "behind = (self.wanted.sequence - head.sequence) % SEQUENCE_MODULUS",
        "behind = abs(self.wanted.sequence - head.sequence)",
        "A later number counts as an earlier one.",
        _SEARCH,
    ),
)
