"""The mutants of the outbox: rows are lost, doubled, or sent by two relays."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Kind

_RELAY: Final = "tests/outbox/test_relay.py"

_mutant = Kind("outbox")

OUTBOX: Final = (
    _mutant(
        "unknown-row-is-deleted",
        "outbox/flight.py",
        "        if delivery.outcome is Outcome.ACKED:",
        "        if delivery.outcome is not Outcome.NOT_WRITTEN:",
        "A row without an answer counts as written and is deleted: it may be lost.",
        f"{_RELAY}::test_an_unknown_outcome_is_sent_again_with_the_same_id",
    ),
    _mutant(
        "rows-overtake-a-failure",
        "outbox/session.py",
        "            if self._flight.failed or self._signals.stopping:\n                break",
        "            if self._signals.stopping:\n                break",
        "The rows of a page behind one that was refused are sent before it.",
        f"{_RELAY}::test_a_record_that_can_never_be_written_stops_the_relay",
    ),
    _mutant(
        "lost-lock-is-not-noticed",
        "outbox/session.py",
        "        if not await self._store.acquire():\n            raise LockLostError",
        "        await self._store.acquire()",
        "Two relays send the same rows without end.",
        f"{_RELAY}::test_a_relay_whose_lock_is_gone_sends_no_more",
    ),
    _mutant(
        "buffered-rows-are-sent-without-the-lock",
        "outbox/flight.py",
        "            delivery.try_cancel()",
        "            pass",
        "A relay whose lock is gone goes on with what it has buffered.",
        f"{_RELAY}::test_a_relay_whose_lock_is_gone_sends_no_more",
    ),
    _mutant(
        "late-commits-are-skipped",
        "outbox/ranges.py",
        "    lows, highs = [LOWEST], []",
        "    lows, highs = [min(skip, default=LOWEST)], []",
        "A relay that reads on from the highest id leaves out rows that are committed late.",
        "tests/outbox/test_ranges.py",
    ),
    _mutant(
        "a-whole-batch-is-set-aside",
        "outbox/session.py",
        "        certain = [each for each in never if is_certain(each[1]) or was_alone]",
        "        certain = never",
        "All records of a batch become dead letters because a broker refused one of them without naming it.",
        f"{_RELAY}::test_a_batch_that_is_refused_as_a_whole_is_sent_one_by_one",
    ),
)
