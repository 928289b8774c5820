"""The mutants of order: records of a partition that overtake each other."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Kind

_SEQUENCES: Final = "tests/state/batching/test_sequences.py"
_SETTLEMENT: Final = "tests/state/delivery/test_settlement.py"
_STRANGERS: Final = "tests/state/batching/test_strangers.py"

_mutant = Kind("order")

ORDER: Final = (
    _mutant(
        "parts-of-a-batch-count-as-one",
        "_state/identity/sequences.py",
        "        queue.numbered += more\n",
        "",
        "Six batches of a partition have no outcome, of which a leader remembers five: the oldest may be written twice.",
        "tests/properties/test_identity.py::test_each_part_of_a_split_batch_counts",
    ),
    _mutant(
        "retry-at-the-tail",
        "_state/queues/partition_queue.py",
        "self.queue.appendleft(batch)",
        "self.queue.append(batch)",
        "A batch that is sent again goes to the end of its partition's queue, behind younger ones.",
        _SETTLEMENT,
    ),
    _mutant(
        "reset-reverses-batches-in-flight",
        "_state/queues/partition_queue.py",
        "while self.queue and self.queue[0].order < batch.order:",
        "while False:",
        "A connection breaks with several batches in flight, and they come back last to first.",
        _SEQUENCES,
    ),
    _mutant(
        "retry-before-it-is-the-first",
        "_state/identity/sequences.py",
        "        if queue.sent[0] is not batch:",
        "        if False:",
        "A retried batch leaves while an older one of its partition has no outcome: the case of Java's shouldStopDrainBatchesForPartition.",
        _SEQUENCES,
    ),
    _mutant(
        "asked-ahead-of-another-leader",
        "_state/batching/cluster_queues.py",
        "        queue.in_order_again()",
        "        pass",
        "The answers of one leader count for the next: a batch is repeated before those that were sent before it, at a leader that may not know the producer.",
        _SEQUENCES,
    ),
    _mutant(
        "first-batch-not-alone",
        "_state/identity/sequences.py",
        "(is_confirmed(queue, now) and to_remember(queue) < REMEMBERED_BATCHES)",
        "to_remember(queue) < REMEMBERED_BATCHES",
        "Several batches leave before the leader knows the producer, and it accepts any number of an unknown one: the second may be taken and the first refused.",
        _SEQUENCES,
    ),
    _mutant(
        "new-producer-id-taken-for-known",
        "_state/identity/sequences.py",
        "            queue.confirmed_at = NEVER",
        "            pass",
        "After the producer id has changed, leaders count as knowing the new one.",
        _STRANGERS,
    ),
    _mutant(
        "topic-made-anew-taken-for-known",
        "_state/identity/sequences.py",
        "        queue.confirmed_at = NEVER\n        queue.numbered_before",
        "        queue.numbered_before",
        "A topic is deleted and created again, and its leaders count as knowing the producer.",
        _STRANGERS,
    ),
    _mutant(
        "former-topic-speaks-for-the-present-one",
        "_core/ordinary_sequences.pxi",
        "known = self.forget_batch(queue, batch) and batch.nth > queue.numbered_before",
        "known = self.forget_batch(queue, batch)",
        "A late answer of a deleted topic counts as proof that the leaders of its successor know the producer: of two "
        "batches that are pipelined there, the second is appended before the first.",
        _STRANGERS,
    ),
    _mutant(
        "six-batches-unresolved",
        "_state/identity/sequences.py",
        "REMEMBERED_BATCHES = 5",
        "REMEMBERED_BATCHES = 6",
        "More batches of a partition are unresolved than a broker remembers, so that a late repetition is appended again.",
        _SEQUENCES,
    ),
    _mutant(
        "only-unresolved-batches-are-remembered",
        "_state/identity/sequences.py",
        "return queue.numbered - queue.sent[0].nth + 1",
        "return len(queue.sent)",
        "While a batch is repeated, so many others follow it that its leader no longer remembers it if a second repetition is needed: OUT_OF_ORDER until its deadline.",
        _SEQUENCES,
    ),
    _mutant(
        "several-in-flight-without-idempotence",
        "_state/identity/sequences.py",
        "return not (self.one_at_a_time and queue.in_flight)",
        "return True",
        "Without idempotence max_in_flight=1 promises order, but a second request leaves nevertheless.",
        _SEQUENCES,
    ),
    _mutant(
        "fast-path-passes-waiters-for-memory",
        "_core/accept.pyx",
        "if partition.rolling or not in_line and (partition.waiting or partition.share.waiting):",
        "if partition.rolling or not in_line and partition.waiting < 0:",
        "A new send takes the memory that was just freed, before the calls that wait for it.",
        "tests/api/sending/test_order.py::test_through_the_wait_for_memory",
    ),
    _mutant(
        "fast-path-passes-the-line-of-its-topic",
        "_core/accept.pyx",
        "if topic.waiting or not topic.partitions:",
        "if not topic.partitions:",
        "A new send overtakes calls of its topic that wait for a serializer or for metadata.",
        "tests/net/accepting/test_line_of_a_topic.py",
    ),
    _mutant(
        "bulk-passes-its-own-waiting-record",
        "_state/admission/bulk.py",
        "return self.columns is not None and self.alone is None",
        "return self.columns is not None",
        "Later records of a bulk send overtake the one that waits for memory.",
        "tests/state/admission/test_bulk_news.py",
    ),
    _mutant(
        "leader-moves-and-the-line-turns-round",
        "_state/admission/memory_lines.py",
        "Line()).calls.extend(moving)",
        "Line()).calls.extend(reversed(moving))",
        "Calls that wait for memory follow their partition to another broker in the wrong order.",
        "tests/state/admission/test_moving_lines.py",
    ),
    _mutant(
        "callbacks-in-the-order-of-asking",
        "_core/records.pyx",
        "for index in sorted(self._waiters)] if self._waiters",
        "for index in self._waiters] if self._waiters",
        "Callbacks of one batch are called in the order in which they were added, not in that of the records (the contract of Java's Callback).",
        "tests/core/test_delivery.py::test_callbacks_run_in_the_order_of_the_records",
    ),
    _mutant(
        "end-tells-split-batches-last",
        "_state/delivery/endings.py",
        "return sorted(self.accumulator.live, key=lambda batch: batch.order)",
        "return list(self.accumulator.live)",
        "When the producer ends, parts of a split batch are reported after younger batches.",
        _SETTLEMENT,
    ),
)
