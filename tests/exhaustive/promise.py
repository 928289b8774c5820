"""The invariants of every state of a world, and those of its end."""

from __future__ import annotations

from aioproducer import Outcome
from aioproducer._state.identity.sequences import REMEMBERED_BATCHES
from aioproducer._state.queues.batches import QueuedBatch
from aioproducer._state.queues.partition_queue import PartitionQueue
from tests.exhaustive.world import Record, World, describe
from tests.judge.history import Found, Sent, found, refused, told
from tests.judge.judge import Anomaly, judge

TOPIC = "t"


def check(world: World) -> None:
    """Check the invariants of every state."""
    _keeps_its_word(world, at_the_end=False)
    _memory_is_exact(world)
    _requests_are_known(world)
    for queue in world.m.accumulator.cluster.topics[TOPIC].in_use:
        _queue_is_consistent(world, queue)
    for batch in world.m.accumulator.live:
        _clean_is_true(world, batch)


def check_end(world: World) -> None:
    """The conditions when no event is left: every record has its outcome, and no memory is held."""
    _keeps_its_word(world, at_the_end=True)
    assert world.m.is_clean(), f"memory or batches are still held: {list(world.m.accumulator.live)}"
    assert not any(world.connections.values())
    assert not world.m.accumulator.deadlines.aging
    for queue in world.m.accumulator.cluster.topics[TOPIC].in_use:
        assert not queue.queue, f"batches are left in {queue}"
        assert not queue.sent, f"batches without an outcome are left in {queue}"
        assert queue.in_flight == 0
        assert queue.open is None
    _is_counted(world)


def is_over(world: World) -> bool:
    """Whether every record has its outcome, and no request waits for an answer."""
    return not world.unresolved and not any(world.connections.values()) and not world.m.accumulator.live


def only_the_unprovable_waits(world: World) -> None:
    """A record that a healthy cluster does not resolve before the deadline is dirty, or stands behind a dirty one.

    Or it was refused so short before the deadline that the backoff is not over by then.
    """
    deadline = world.next_deadline() or 0.0
    for batch in world.m.accumulator.live:
        dirty = any(sent.dirty for sent in batch.queue.sent)
        pausing = any(queued.retry_at >= deadline for queued in batch.queue.queue)
        assert dirty or pausing, f"{describe(batch)} is not sent, and nothing dirty is in its way"
    assert world.m.accumulator.live or not world.m.admission.calls.waiting, (
        "somebody waits for memory that is free"
    )


# -- the promise


def history(world: World) -> list[Sent]:
    """The records that the producer got, with the outcomes that it reported."""
    return [_told(record) for record in world.records]


def log(world: World) -> list[Found]:
    """The records in the logs."""
    return [
        found(TOPIC, partition, offset, None, value, (), None)
        for partition, log in enumerate(world.logs)
        for offset, value in enumerate(log.values)
    ]


def _told(record: Record) -> Sent:
    call, due_at = record.call, record.due_at
    at = record.resolved_at
    if call.delivery is not None:
        return told(record.number, record.digest, call.delivery, due_at=due_at, resolved_at=at)
    if call.error is not None:
        return refused(record.number, record.digest, TOPIC, call.error, due_at=due_at, resolved_at=at)
    return Sent(record.number, record.digest, TOPIC, record.partition, Outcome.PENDING, on_wire=False)


def _keeps_its_word(world: World, *, at_the_end: bool) -> None:
    findings = judge(history(world), log(world))
    if not at_the_end:
        findings = [finding for finding in findings if finding.anomaly is not Anomaly.UNRESOLVED]
    assert not findings, "; ".join(map(str, findings))
    overdue = [record for record in world.unresolved if record.due_at <= world.m.now]
    assert not overdue, f"no outcome by the deadline: records {[record.number for record in overdue]}"


def _is_counted(world: World) -> None:
    outcomes = [record.outcome for record in world.records if record.call.delivery is not None]
    tally = world.m.tally
    assert tally.acked == outcomes.count(Outcome.ACKED)
    assert tally.unknown == outcomes.count(Outcome.UNKNOWN)
    assert tally.not_written == outcomes.count(Outcome.NOT_WRITTEN)


# -- the machines


def _memory_is_exact(world: World) -> None:
    m = world.m
    assert m.used == sum(batch.charged for batch in m.accumulator.live)
    assert m.used == sum(node.share.used for node in m.accumulator.cluster.nodes.values())
    assert 0 <= m.used <= m.memory


def _requests_are_known(world: World) -> None:
    flying = [part.batch for part in world.flying()]
    assert len(flying) == len(set(flying)), "a batch is twice on its way"
    assert all(batch.in_flight or batch.settled for batch in flying)
    for part in world.flying():
        now = part.batch.identity, part.batch.sequence
        then = (part.says.producer_id, part.says.epoch), part.says.sequence
        assert part.batch.settled or now == then, f"{describe(part.batch)} is on its way as {then}"
    assert all(len(requests) <= world.model.in_flight for requests in world.connections.values())
    for batch in world.m.accumulator.live:
        assert batch.in_flight == (batch in flying), f"{describe(batch)}: is it in flight?"


def _queue_is_consistent(world: World, queue: PartitionQueue) -> None:
    ready = [
        other for node in world.m.accumulator.cluster.nodes.values() for other in node.ready if other is queue
    ]
    assert len(ready) == queue.is_ready
    assert not queue.is_ready or queue in queue.node.ready
    assert queue.in_flight == sum(part.batch.queue is queue for part in world.flying())
    assert len(queue.sent) <= REMEMBERED_BATCHES, f"{len(queue.sent)} batches of {queue} have no outcome"
    for batches in ([batch for batch in queue.queue if batch is not queue.ahead], queue.sent):
        orders = [batch.order for batch in batches]
        assert orders == sorted(set(orders)), f"out of order: {orders}"
    identities = {batch.identity for batch in queue.sent}
    assert len(identities) <= 1, f"batches without an outcome have several identities: {identities}"
    numbers = [(batch.identity, batch.sequence) for batch in queue.sent]
    assert len(numbers) == len(set(numbers)), f"given twice: {numbers}"


def _clean_is_true(world: World, batch: QueuedBatch) -> None:
    """Of a batch that is held for clean and that is not on its way, nothing is in a log or may come there."""
    if batch.dirty or batch.in_flight or not batch.attempts:
        return
    values = {value for *_, value, _ in batch.read_records(batch.plain_records())}
    logged = values.intersection(world.logs[batch.partition].values)
    assert not logged, f"{describe(batch)} is in the log"
    coming = [part for stray in world.strays for request in stray for part in request.parts]
    assert not any(values.intersection(part.says.values) for part in coming), (
        f"{describe(batch)} may still arrive"
    )
