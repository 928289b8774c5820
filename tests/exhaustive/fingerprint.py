"""The fingerprint of a world: two worlds with the same one have the same future, whatever their past was.

Times become ranks: what matters is which alarm comes first. Numbers of attempts become none, one, several.
"""

from __future__ import annotations

import hashlib
import marshal
from operator import attrgetter
from typing import Any

from aioproducer._state.identity.sequences import is_confirmed
from aioproducer._state.queues.batches import QueuedBatch
from aioproducer._state.queues.partition_queue import PartitionQueue
from tests.exhaustive.world import Record, World
from tests.state.wires import Request


def fingerprint(world: World) -> bytes:
    """Stands for everything that the future depends on."""
    # Version 2 of marshal: equal values give equal bytes, regardless of other references to them.
    return hashlib.blake2b(marshal.dumps(picture(world), 2), digest_size=16).digest()


def picture(world: World) -> tuple[Any, ...]:
    """Everything that the future depends on, as plain values."""
    return (*_client(world), *_cluster(world), *_network(world))


def _client(world: World) -> tuple[Any, ...]:
    m = world.m
    deadlines = m.accumulator.deadlines
    alarms: list[tuple[float, PartitionQueue | QueuedBatch]] = [
        (due, thing) for due, _, thing in sorted(deadlines.heap._heap, key=lambda entry: entry[:2])
    ]
    alarms = sorted([*alarms, *deadlines.lingers], key=lambda alarm: alarm[0])
    alarms = [(due, thing) for due, thing in alarms if due > m.now and not _is_over(thing)]
    moments = {due for due, _ in alarms}
    moments |= {batch.retry_at for batch in m.accumulator.live if batch.retry_at > m.now}
    ranks = {moment: rank for rank, moment in enumerate(sorted(moments))}
    queues = sorted(m.accumulator.cluster.topics["t"].in_use, key=attrgetter("index"))
    return (
        m.sequences.identity,
        m.own.exhausted,
        bool(m.stale),
        world.closed,
        world.sent,
        m.admission.calls.waiting,
        tuple((record.outcome.name, _was_written(record)) for record in world.records),
        _deadlines(world),
        tuple((ranks[due], _name(thing)) for due, thing in alarms),
        tuple(_batch(batch, world, ranks) for batch in m.accumulator.live),
        tuple((queue.index, _queue(queue, m.now)) for queue in queues),
        tuple(
            (at, *(queue.index for queue in node.ready))
            for at, node in sorted(m.accumulator.cluster.nodes.items())
        ),
    )


def _was_written(record: Record) -> bool:
    delivery = record.call.delivery
    return delivery is not None and delivery.timings.written is not None


def _is_over(thing: PartitionQueue | QueuedBatch) -> bool:
    return isinstance(thing, QueuedBatch) and thing.settled


def _name(thing: PartitionQueue | QueuedBatch) -> tuple[int, ...]:
    return (-1, thing.index) if isinstance(thing, PartitionQueue) else thing.order


def _deadlines(world: World) -> tuple[Any, ...]:
    moments = sorted({record.due_at for record in world.unresolved})
    alarm = world.m.next_alarm()
    return (
        tuple(moments.index(record.due_at) for record in world.unresolved),
        alarm is not None and bool(moments) and alarm < moments[0],
    )


def _batch(batch: QueuedBatch, world: World, ranks: dict[float, int]) -> tuple[Any, ...]:
    return (
        batch.order,
        batch.partition,
        min(batch.attempts, 2) if world.model.retries > len(world.records) + 99 else batch.attempts,
        batch.dirty,
        batch.in_flight,
        batch.sealed,
        batch.urgent,
        batch.linger_at > world.m.now,
        ranks.get(batch.retry_at, -1),
        batch.retry_leader,
        batch.identity,
        batch.sequence,
        tuple(batch.fate(index)[0] for index in range(batch.record_count)),
        batch.share is batch.queue.share,
    )


def _queue(queue: PartitionQueue, now: float) -> tuple[Any, ...]:
    return (
        queue.node.node_id,
        queue.identity,
        queue.next_sequence,
        is_confirmed(queue, now),
        queue.broken,
        queue.in_flight,
        queue.is_ready,
        queue.has_alarm,
        queue.open is not None,
        None if queue.ahead is None else queue.ahead.order,
        tuple(batch.order for batch in queue.queue),
        tuple(batch.order for batch in queue.sent),
    )


def _cluster(world: World) -> tuple[Any, ...]:
    return (
        tuple(world.leaders),
        tuple(tuple(log.values) for log in world.logs),
        tuple(
            tuple(
                (producer, state.epoch, *state.batches) for producer, state in sorted(log.producers.items())
            )
            for log in world.logs
        ),
        world.producer_id,
    )


def _network(world: World) -> tuple[Any, ...]:
    return (
        tuple(tuple(map(_request, requests)) for requests in world.connections.values()),
        # Of given-up requests, only those that can still arrive matter, and not the connection of their first write.
        tuple(sorted(tuple(map(_request, stray)) for stray in world.strays if stray)),
    )


def _request(request: Request) -> tuple[Any, ...]:
    parts = tuple(
        (part.batch.order, part.says.producer_id, part.says.epoch, part.says.sequence, part.code, part.offset)
        for part in request.parts
    )
    return (request.node, request.arrived, parts)
