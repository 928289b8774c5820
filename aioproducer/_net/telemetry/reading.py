"""A reading of the counters of a running producer, for the metrics that are pushed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioproducer._state.telemetry.readings import Measured, Reading, TopicReading

if TYPE_CHECKING:
    from aioproducer._net.runtime.engine import Engine
    from aioproducer._state.buckets import Buckets


def reading_of(engine: Engine) -> Reading:
    """The present counters. The largest values begin anew: only one reader can use them."""
    tally, now = engine.tally, engine.loop.time()
    brokers, metadata = engine.counters.brokers, engine.counters.metadata
    connections = [*engine.brokers.histories.values(), engine.control.history]
    waits, budget, read_at = engine.admission.waits, engine.accumulator.budget, engine.cluster.read_at
    return Reading(
        at=now,
        wall_ns=engine.wall_ms() * 1_000_000,
        connects=sum(traffic.connects for traffic in (*brokers.values(), metadata)),
        nodes={str(broker): measured(traffic.request_time) for broker, traffic in brokers.items()},
        throttle=Measured(
            tally.requests,
            sum(traffic.throttle_requested for traffic in brokers.values()),
            max((traffic.take_longest_throttle() for traffic in brokers.values()), default=0.0),
        ),
        queue_time=measured(tally.queue_time),
        request_time=measured(tally.request_time),
        batch_size=measured(tally.batch_size),
        compression=compression_of(engine),
        sent=tally.acked,
        failed=tally.not_written + tally.unknown,
        retried=tally.retried,
        memory_wait=waits.memory.seconds,
        topics={
            name: TopicReading(counts.acked, counts.failed, counts.acked_bytes)
            for name, counts in tally.topics.items()
        },
        in_flight=sum(each.connection.in_flight for each in connections if each.connection is not None),
        metadata_age=None if read_at is None else now - read_at,
        waiting_calls=engine.admission.calls.waiting,
        available_bytes=max(0, budget.capacity - budget.used),
    )


def compression_of(engine: Engine) -> Measured:
    """The compressed sizes over the uncompressed ones. Without a codec each is 1, as in the metrics of the Java client."""
    tally = engine.tally
    if engine.config.compression_type == "none":
        return Measured(tally.batches, float(tally.batches))
    return measured(tally.compression_ratio)


def measured(buckets: Buckets) -> Measured:
    """The values so far, and the largest since the last call."""
    return Measured(sum(buckets.counts), buckets.total, buckets.take_largest())
