"""Planted defects: one line of a machine is another, as it was in clients that lost, doubled or reordered records.

Defects of the compiled steps are mutants (`tests/mutants`).
"""

from __future__ import annotations

import importlib
import inspect
import textwrap
from typing import Any

import attrs
import pytest


@attrs.frozen
class Defect:
    """One line that is wrong."""

    name: str
    where: str
    """Module and function: `queues:PartitionQueue.put_back`."""
    line: str
    instead: str
    model: str
    """The model whose exploration finds it."""
    says: str
    """The text of the finding."""

    def plant(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The machines have this defect until the test ends."""
        module_name, _, path = self.where.partition(":")
        module = importlib.import_module(f"aioproducer._state.{module_name}")
        owner: Any = module
        *owners, name = path.split(".")
        for part in owners:
            owner = getattr(owner, part)
        monkeypatch.setattr(owner, name, self._rewritten(owner.__dict__[name], vars(module)))

    def _rewritten(self, sound: Any, names: dict[str, Any]) -> Any:
        function: Any = sound.fget if isinstance(sound, property) else sound
        source = textwrap.dedent(inspect.getsource(function))
        assert source.count(self.line) == 1, f"{self.line!r} is not one place of {self.where} any more"
        # The annotations of the source name what only type checkers import.
        code = compile(
            "from __future__ import annotations\n" + source.replace(self.line, self.instead),
            self.where,
            "exec",
        )
        made: dict[str, Any] = {}
        exec(code, names, made)  # the library's own source, but for one line
        changed = made[function.__name__]
        return property(changed) if isinstance(sound, property) else changed


DEFECTS = (
    # -- order
    Defect(
        "a retry goes to the tail",
        "queues.partition_queue:PartitionQueue.put_back",
        "self.queue.appendleft(batch)",
        "self.queue.append(batch)",
        "two of three declined",
        "out of order",
    ),
    Defect(
        "retries come back last to first",
        "queues.partition_queue:PartitionQueue.put_back",
        "while self.queue and self.queue[0].order < batch.order:",
        "while False:",
        "one fault",
        "out of order",
    ),
    Defect(
        "a retry does not wait until it is the first",
        "identity.sequences:Sequences._may_repeat",
        "if queue.sent[0] is not batch:",
        "if False:",
        "two of three declined",
        "",
    ),
    Defect(
        "the first batch of a producer does not go alone",
        "identity.sequences:Sequences.may_send",
        "(is_confirmed(queue, now) and to_remember(queue) < REMEMBERED_BATCHES)",
        "to_remember(queue) < REMEMBERED_BATCHES",
        "first batches",
        "behind record",
    ),
    Defect(
        "a new producer id is taken for known",
        "identity.sequences:Sequences._adopt",
        "queue.confirmed_at = NEVER",
        "pass",
        "ends of epochs",
        "behind record",
    ),
    # -- identity
    Defect(
        "more batches are unresolved than a broker remembers",
        "identity.sequences:Sequences.may_send",
        "(is_confirmed(queue, now) and to_remember(queue) < REMEMBERED_BATCHES)",
        "is_confirmed(queue, now)",
        "many batches",
        "have no outcome",
    ),
    Defect(
        "a sequence is mended while a batch is dirty",
        "identity.sequences:Sequences._mendable",
        "return not queue.in_flight and not any(batch.dirty for batch in queue.sent)",
        "return not queue.in_flight",
        "cut and refused",
        "",
    ),
    Defect(
        "a sequence is mended while a batch is in flight",
        "identity.sequences:Sequences._mendable",
        "return not queue.in_flight and not any(batch.dirty for batch in queue.sent)",
        "return not any(batch.dirty for batch in queue.sent)",
        "one fault",
        "",
    ),
    Defect(
        "a dirty batch gets new numbers",
        "identity.sequences:Sequences.give",
        "if queue.broken and self._mendable(queue):",
        "if queue.broken:",
        "cut and refused",
        "",
    ),
    Defect(
        "the numbers of an unknown batch are given again",
        "identity.sequences:Sequences.unknown",
        "queue.broken = True",
        "queue.next_sequence = batch.sequence",
        "one fault",
        "",
    ),
    Defect(
        "the numbers of a refused batch are given again though others follow",
        "identity.sequences:Sequences.not_appended",
        "if queue.next_sequence == batch.next_sequence and not queue.broken:",
        "if True:",
        "one of three refused",
        "",
    ),
    Defect(
        "a partition moves to a new epoch with batches under way",
        "identity.sequences:Sequences.give",
        "if queue.identity != self._identity and not queue.sent:",
        "if queue.identity != self._identity:",
        "one more epoch",
        "",
    ),
    Defect(
        "sequence numbers do not wrap",
        "queues.batches:QueuedBatch.next_sequence",
        "(self.sequence + self.record_count) % SEQUENCE_MODULUS",
        "self.sequence + self.record_count",
        "wrap",
        "",
    ),
    Defect(
        "there is an epoch after the last",
        "identity.own:OwnIdentity._next_epoch",
        "self.exhausted = epoch + 1 >= LAST_EPOCH",
        "self.exhausted = False",
        "last epochs",
        "",
    ),
    # -- truth
    Defect(
        "what was lost is taken for not written",
        "delivery.settlement:Settlement.lost",
        "proven=not written",
        "proven=True",
        "one fault",
        "clean",
    ),
    Defect(
        "REQUEST_TIMED_OUT is taken for not written",
        "delivery.settlement:Settlement._judge",
        "proven=decided.proves_not_appended,",
        "proven=decided.proves_not_appended or answer.code == 7,",
        "one fault",
        "clean",
    ),
    Defect(
        "a final error after an unanswered attempt says not written",
        "delivery.refusals:broker_error",
        "decided.proves_not_appended and not batch.dirty",
        "decided.proves_not_appended",
        "cut and refused",
        "",
    ),
    Defect(
        "what expires in flight is said not to be written",
        "delivery.expiry:Expiry._end_overdue",
        "batch.in_flight or batch.dirty",
        "batch.dirty",
        "cut and expired",
        "it was said not to be written",
    ),
    Defect(
        "what expires dirty is said not to be written",
        "delivery.expiry:Expiry._end_overdue",
        "batch.in_flight or batch.dirty",
        "batch.in_flight",
        "cut and expired",
        "it was said not to be written",
    ),
    Defect(
        "closing says not written of what is dirty",
        "delivery.endings:Endings.abandon",
        "written = batch.in_flight or batch.dirty",
        "written = batch.in_flight",
        "cut and expired",
        "it was said not to be written",
    ),
    Defect(
        "attempts that are used up say not written",
        "delivery.settlement:Settlement._without_retries",
        "Outcome.UNKNOWN if batch.dirty else Outcome.NOT_WRITTEN",
        "Outcome.NOT_WRITTEN",
        "few attempts",
        "it was said not to be written",
    ),
    Defect(
        "a part of a split batch forgets that it is dirty",
        "batching.making:BatchMaker.replacement",
        "replacement.attempts, replacement.dirty = batch.attempts, batch.dirty",
        "replacement.attempts, replacement.dirty = batch.attempts, False",
        "cut and refused",
        "",
    ),
    # -- an end for everything
    Defect(
        "no alarm is set for the end of a backoff",
        "delivery.settlement:Settlement._retry",
        "self.accumulator.deadlines.heap.add(batch.retry_at, batch.queue)",
        "pass",
        "one fault",
        "nothing dirty is in its way",
    ),
    Defect(
        "nobody asks for metadata after a refusal",
        "delivery.settlement:Settlement._judge",
        "self.effects.stale[batch.topic] = None",
        "pass",
        "moved",
        "nothing dirty is in its way",
    ),
    Defect(
        "nobody looks again when the leader is another",
        "batching.cluster_queues:ClusterQueues.lead",
        "self.accumulator.update_readiness(queue, now)",
        "pass",
        "moved",
        "nothing dirty is in its way",
    ),
    Defect(
        "what is drained is taken for written",
        "delivery.settlement:Settlement.lost",
        "proven=not written",
        "proven=False",
        "cut and expired",
        "no byte of it was given",
    ),
)
