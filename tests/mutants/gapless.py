"""The mutants of gapless mode: records are written past one that was lost."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Kind

_GAPLESS: Final = "tests/state/test_gapless.py"

_mutant = Kind("gapless")

GAPLESS: Final = (
    _mutant(
        "loss-opens-no-gap",
        "_state/settlement.py",
        "        if self.gapless:\n            self._open_gap(batch, error, now, number)",
        "        if False:\n            self._open_gap(batch, error, now, number)",
        "What was sent behind a lost record is written past it.",
        _GAPLESS,
    ),
    _mutant(
        "late-comer-is-written-past-the-gap",
        "_state/admission.py",
        "if call.asked_at < queue.lost_at:",
        "if False:",
        "A call that was made before a loss and found its place after it is written past the gap.",
        _GAPLESS,
    ),
    _mutant(
        "dirty-batch-behind-a-gap-says-not-written",
        "_state/settlement.py",
        "        if not batch.in_flight and not batch.dirty:\n            self._conclude(batch, gap.error(batch, now), now)",
        "        if not batch.in_flight:\n            self._conclude(batch, gap.error(batch, now), now)",
        "A batch behind a gap that may be in the log is told as not written.",
        _GAPLESS,
    ),
    _mutant(
        "gap-is-closed-unseen",
        "_state/gapless.py",
        "return not (self.seen or any(batch.noticed for batch in self.batches))",
        "return not self.seen and not self.batches",
        "The gap is taken for seen as soon as it has a victim, and records are written past it.",
        _GAPLESS,
    ),
)
