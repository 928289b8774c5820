"""The mutants of identity: sequence numbers and epochs by which a broker takes new records for old, or old for new."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Kind

_SEQUENCES: Final = "tests/state/batching/test_sequences.py"
_SETTLEMENT: Final = "tests/state/delivery/test_settlement.py"

_mutant = Kind("identity")

IDENTITY: Final = (
    _mutant(
        "stamped-anew-while-a-batch-is-dirty",
        "_state/identity/sequences.py",
        "return not queue.in_flight and not any(batch.dirty for batch in queue.sent)",
        "return not queue.in_flight",
        "Sequences are rewritten while an earlier batch may still turn out to be in the log (KAFKA-14034).",
        _SEQUENCES,
    ),
    _mutant(
        "epoch-raised-with-a-batch-in-flight",
        "_state/identity/sequences.py",
        "return not queue.in_flight and not any(",
        "return not any(",
        "The epoch is raised while a batch of the partition is in flight (KAFKA-14034).",
        _SEQUENCES,
    ),
    _mutant(
        "dirty-batch-gets-new-numbers",
        "_state/identity/sequences.py",
        "if queue.broken and self._mendable(queue):\n            self._mend(queue)",
        "if queue.broken:\n            self._mend(queue)",
        "A batch whose first attempt may have been written is sent again under other numbers, so that the broker cannot tell the repetition (KAFKA-19012, librdkafka #4736).",
        _SEQUENCES,
    ),
    _mutant(
        "numbers-of-an-unknown-batch-given-again",
        "_state/identity/sequences.py",
        "        if self._forget(queue, batch):\n            queue.broken = True",
        "        if self._forget(queue, batch):\n            queue.next_sequence = batch.sequence",
        "After a batch has expired in flight its numbers go to other records, which the broker takes for a repetition: lost, and acknowledged.",
        _SEQUENCES,
    ),
    _mutant(
        "numbers-of-a-refused-batch-given-twice",
        "_state/identity/sequences.py",
        "if queue.next_sequence == batch.next_sequence and not queue.broken:",
        "if not queue.broken:",
        "The numbers of a refused batch are given again though batches behind it have theirs.",
        _SEQUENCES,
    ),
    _mutant(
        "epoch-changes-under-unresolved-batches",
        "_state/identity/sequences.py",
        "if queue.identity != self._identity and not queue.sent:",
        "if queue.identity != self._identity:",
        "Another partition's new epoch is adopted while batches are unresolved under the old one.",
        _SEQUENCES,
    ),
    _mutant(
        "sequence-does-not-wrap",
        "_state/queues/batches.py",
        "return (self.sequence + self.record_count) % SEQUENCE_MODULUS",
        "return self.sequence + self.record_count",
        "After 2**31 records of a partition the sequence number leaves 32 bits (M14; aiokafka's comment in place of a check).",
        "tests/scenarios/test_c_codes.py::test_c14_the_numbers_wrap",
    ),
    _mutant(
        "an-epoch-after-the-last",
        "_state/identity/own.py",
        "self.exhausted = epoch + 1 >= LAST_EPOCH",
        "self.exhausted = False",
        "The epoch grows past 32767 and becomes negative on the wire (Dekaf #3341).",
        _SEQUENCES,
    ),
    _mutant(
        "next-producer-id-not-requested",
        "_state/identity/own.py",
        "            self.effects.identity_exhausted = True",
        "            pass",
        "The last epoch is used up and no new producer id is requested: the next broken sequence waits without end.",
        _SEQUENCES,
    ),
    _mutant(
        "forgotten-partition-counts-from-zero",
        "_state/identity/own.py",
        "self._lost_count_of = self._identity",
        "self._lost_count_of = None",
        "A topic leaves the metadata and returns, and its counter begins at 0 under the same epoch: records are taken for repetitions (M07).",
        _SEQUENCES,
    ),
    _mutant(
        "new-epoch-goes-on-counting",
        "_state/identity/sequences.py",
        "        queue.next_sequence = 0\n\n    # -- outcomes",
        "        pass\n\n    # -- outcomes",
        "Under a new epoch the sequence continues instead of beginning at 0.",
        _SEQUENCES,
    ),
    _mutant(
        "gap-behind-the-first-raises-the-epoch",
        "_state/identity/sequences.py",
        "if batch.sequence >= 0 and queue.sent and queue.sent[0] is batch:",
        "if batch.sequence >= 0:",
        "OUT_OF_ORDER_SEQUENCE for a batch behind a failed one is taken for a broken sequence (M06).",
        _SEQUENCES,
    ),
    _mutant(
        "parts-of-a-split-share-a-number",
        "_state/identity/sequences.py",
        "sequence = child.next_sequence",
        "sequence = batch.sequence",
        "The parts of a split batch get the same sequence number, and the second is taken for a repetition of the first.",
        _SETTLEMENT,
    ),
    _mutant(
        "part-of-a-split-forgets-it-is-dirty",
        "_state/batching/making.py",
        "= batch.attempts, batch.dirty",
        "= batch.attempts, False",
        "A batch that may be in the log is split, and its parts count as never written.",
        _SETTLEMENT,
    ),
    _mutant(
        "topic-made-anew-goes-on-counting",
        "_state/identity/own.py",
        "queue.broken = queue.identity is not None",
        "pass",
        "A topic is deleted and created again, and its new leaders get numbers that continue those of the old ones.",
        "tests/state/batching/test_strangers.py",
    ),
    _mutant(
        "gap-taken-for-closed",
        "_state/identity/sequences.py",
        "            if following.sequence != expected:\n                return False",
        "            if following.sequence != expected:\n                return True",
        "A sequence with a gap counts as whole because a batch before the gap was acknowledged.",
        "tests/state/queues/test_closed_gaps.py",
    ),
)
