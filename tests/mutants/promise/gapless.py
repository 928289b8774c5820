"""The mutants of gapless mode: records are written past a lost one."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Kind

_GAPLESS: Final = "tests/state/queues/test_gapless.py"

_mutant = Kind("gapless")

GAPLESS: Final = (
    _mutant(
        "loss-opens-no-gap",
        "_state/delivery/losses.py",
        "        if self.gapless:\n            self._open_gap(batch, error, now, number)",
        "        if False:\n            self._open_gap(batch, error, now, number)",
        "Records behind a lost record are written past it.",
        _GAPLESS,
    ),
    _mutant(
        "late-comer-is-written-past-the-gap",
        "_state/admission/waiting.py",
        "if call.asked_at < queue.lost_at:",
        "if False:",
        "A call from before a loss that found its place after it is written past the gap.",
        _GAPLESS,
    ),
    _mutant(
        "dirty-batch-behind-a-gap-says-not-written",
        "_state/delivery/losses.py",
        "        if not batch.in_flight and not batch.dirty:\n            self.outcomes.conclude(batch, gap.error(batch, now), now)",
        "        if not batch.in_flight:\n            self.outcomes.conclude(batch, gap.error(batch, now), now)",
        "A batch behind a gap that may be in the log is reported as not written.",
        _GAPLESS,
    ),
    _mutant(
        "gap-is-closed-unseen",
        "_state/queues/gapless.py",
        "        return not self.seen\n",
        "        return False\n",
        "The gap counts as reported as soon as one record failed by it, and records are written past it.",
        _GAPLESS,
    ),
    _mutant(
        "gap-is-closed-by-an-earlier-look",
        "_state/delivery/losses.py",
        "        batch.read_mark = gap\n        if not batch.settled:",
        "        batch.read_mark = gap\n        gap.seen = gap.seen or batch.has_individual\n        if not batch.settled:",
        "A failure in the same batch that was read before the loss counts as a look at it, and records are written past the loss.",
        _GAPLESS,
    ),
    _mutant(
        "gap-is-not-closed-by-a-later-failure",
        "_core/ordinary_states.pxi",
        "            self.read_mark = gap",
        "            pass",
        "A program that dropped the first failures gets the error of the gap for each further record, without end.",
        _GAPLESS,
    ),
    _mutant(
        "record-between-two-losses-is-written",
        "_state/delivery/losses.py",
        "self._open_gap(batch, error, now, number, after=indexes[0])",
        "self._open_gap(batch, error, now, number, after=indexes[-1])",
        "Two records of a batch expire, and the one between them is written past the first.",
        _GAPLESS,
    ),
    _mutant(
        "joins-the-batch-that-has-lost-a-record",
        "_state/delivery/losses.py",
        "        if not batch.settled and queue.open is batch:",
        "        if False:",
        "A record expires in an open batch, which goes on taking records: those are written past it.",
        _GAPLESS,
    ),
    _mutant(
        "ended-twice-by-its-time-and-by-a-gap",
        "_state/delivery/expiry.py",
        "            if not batch.settled:\n                self._expire(batch, now)",
        "            self._expire(batch, now)",
        "Two batches are due at once, the first ends the second by the gap that it opens, and the producer dies by it.",
        _GAPLESS,
    ),
    _mutant(
        "gap-outlives-its-transaction",
        "_net/transactions/transactions.py",
        "        self.host.machines.losses.gaps_seen()\n",
        "",
        "A record is lost in a transaction that is aborted; the next one is committed without its records.",
        "tests/net/transactions/test_transactions.py::test_a_gap_is_over_with_its_transaction",
    ),
    _mutant(
        "left-out-of-the-second-attempt",
        "_core/ordinary_draining.pxi",
        "        if batch._individual is not None and not batch.attempts:\n",
        "        if batch._individual is not None and batch.sequence < 0:\n",
        "Without sequence numbers, a record that expires between two attempts is left out of the second, and those behind it are written.",
        _GAPLESS,
    ),
)
