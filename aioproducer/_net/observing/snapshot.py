"""The state of a running producer at one moment: counts, buffered records, errors."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from aioproducer._callers.copied import copied, retried
from aioproducer.stats import Failure, Stats, TopicStats, TransactionStats

if TYPE_CHECKING:
    from aioproducer._core import TopicCounts
    from aioproducer._net.accepting.intake import Intake
    from aioproducer._net.runtime.engine import Engine
    from aioproducer.stats import ConnectionStats


class Load(NamedTuple):
    """Records and bytes in one place."""

    records: int
    bytes: int


def loads(engine: Engine, intake: Intake, accepted: int) -> tuple[Load, Load]:
    """The buffered load, including records that wait for their topic, and the load in flight.

    `accepted`: how many records the producer has accepted. The cost does not depend on the buffered records.
    """
    accumulator, tally = engine.accumulator, engine.tally
    flying = Load(accumulator.records_in_flight, accumulator.bytes_in_flight)
    placed = accepted - engine.uncounted_before - tally.ended - flying.records
    # In another thread, each number may be of another moment.
    records = max(0, placed) + len(intake.queued)
    return Load(records, max(0, accumulator.budget.used - flying.bytes)), flying


def connected_brokers(engine: Engine) -> int:
    """The number of brokers with an open connection of any kind."""
    ids = {(node.host, node.port): node.id for node in engine.view.brokers.nodes}
    addresses = engine.addresses.connected()
    known = {ids[address] for address in addresses if address in ids}
    # An address of bootstrap_servers may be another name of a counted broker.
    return max(len(known), int(bool(addresses)))


def seconds_since(now: float, moment: float | None) -> float | None:
    """None without such a moment."""
    return None if moment is None else now - moment


def oldest_unacked(engine: Engine, intake: Intake, now: float) -> float | None:
    """For how long the oldest record without an outcome has waited."""
    placed = retried(engine.accumulator.deadlines.oldest_unacked)
    queued = copied(islice(intake.queued.values(), 1))
    since = [*(owner.asked_at for owner in queued), *(() if placed is None else (placed,))]
    return max(0.0, now - min(since)) if since else None


def out_of_reach(engine: Engine) -> BaseException | None:
    """The reason why no broker gives metadata; None where one does."""
    engine.note_reach()
    return engine.machines.reach.missing


def trouble_with(engine: Engine, topic: str) -> BaseException | None:
    """The reason why a topic is not known: no broker answers, or the error in their answers; None without such a reason."""
    engine.note_reach()
    return engine.machines.call_expiry.trouble_with(topic)


def stats_of(engine: Engine, intake: Intake, accepted_records: int, accepted_bytes: int) -> Stats:
    """The result of `Producer.stats()`; the fast path has counted the accepted records."""
    tally, stalls, waits = engine.tally, engine.stalls, engine.admission.waits
    now = engine.loop.time()
    buffered, flying = loads(engine, intake, accepted_records)
    topics = {name: topic_stats(counts) for name, counts in copied(tally.topics.items())}
    failures = tuple(Failure(*kind, records) for kind, records in copied(tally.failed_by_kind.items()))
    not_written, unknown = tally.not_written, tally.unknown
    return Stats(
        records_accepted=accepted_records,
        bytes_accepted=accepted_bytes,
        records_acked=tally.acked,
        bytes_acked=tally.acked_bytes,
        records_failed=not_written + unknown,
        records_not_written=not_written,
        records_unknown=unknown,
        records_retried=tally.retried,
        failed_by_error=failed_by_error(failures),
        losses_by_topic={
            name: topic.records_failed for name, topic in topics.items() if topic.records_failed
        },
        topics=topics,
        failures=failures,
        dead_letters=dict(copied(tally.dead_letters.items())),
        suspected_data_losses=tally.suspected_losses,
        batches=tally.batches,
        batches_split=tally.batches_split,
        requests=tally.requests,
        records_buffered=buffered.records,
        bytes_buffered=buffered.bytes,
        records_in_flight=flying.records,
        bytes_in_flight=flying.bytes,
        waiting_calls=engine.admission.calls.waiting,
        oldest_unacked_seconds=oldest_unacked(engine, intake, now),
        buffer_memory=engine.config.buffer_memory,
        metadata_age_seconds=seconds_since(now, engine.cluster.read_at),
        memory_waits=waits.memory.calls,
        memory_wait_seconds=waits.memory.seconds,
        metadata_waits=waits.metadata.calls,
        metadata_wait_seconds=waits.metadata.seconds,
        loop_stalls=stalls.count,
        loop_stall_seconds=stalls.seconds,
        longest_loop_stall=stalls.longest,
        queue_time=tally.queue_time.snapshot(),
        request_time=tally.request_time.snapshot(),
        delivery_time=tally.delivery_time.snapshot(),
        batch_size=tally.batch_size.snapshot(),
        batch_records=tally.batch_records.snapshot(),
        compression_ratio=tally.compression_ratio.snapshot(),
        transactions=transactions_of(engine),
        connections=connections_of(engine),
    )


def topic_stats(counts: TopicCounts) -> TopicStats:
    """The present counters of a topic."""
    return TopicStats(counts.acked, counts.acked_bytes, counts.failed, counts.retried, counts.batches)


def failed_by_error(failures: tuple[Failure, ...]) -> dict[str, int]:
    """The failed records by the name of their error."""
    by_error: Counter[str] = Counter()
    for failure in failures:
        by_error[failure.error] += failure.records
    return dict(by_error)


def transactions_of(engine: Engine) -> TransactionStats:
    """How transactions ended; of a producer without transactions, all counters are 0."""
    transactions = engine.transactions
    return TransactionStats() if transactions is None else transactions.counts.snapshot()


def connections_of(engine: Engine) -> tuple[ConnectionStats, ...]:
    """The connections to the brokers of the records, followed by the metadata connection."""
    senders = copied(engine.senders.values())
    return *(sender.history.snapshot() for sender in senders), engine.control.history.snapshot()
