"""What can be told of a running producer at one moment: what it counts, what it holds, what is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioproducer.stats import Stats

if TYPE_CHECKING:
    from aioproducer._net.accepting.intake import Intake
    from aioproducer._net.runtime.engine import Engine
    from aioproducer._state.batching.batches import QueuedBatch


class Load:
    """Records and bytes that are somewhere."""

    def __init__(self) -> None:
        self.records = 0
        self.bytes = 0

    def add(self, batch: QueuedBatch) -> None:
        """Count what is left of a batch."""
        self.records += batch.pending
        self.bytes += batch.charged


def loads(engine: Engine, intake: Intake) -> tuple[Load, Load]:
    """What is buffered, with what is queued for its topic, and what is in flight."""
    buffered, flying = Load(), Load()
    buffered.records = len(intake.queued)
    buffered.bytes = engine.admission.bytes_held
    for batch in list(engine.accumulator.live):
        (flying if batch.in_flight else buffered).add(batch)
    return buffered, flying


def connected_brokers(engine: Engine) -> int:
    """How many brokers a connection is open to, whatever for."""
    ids = {(node.host, node.port): node.id for node in engine.view.nodes}
    addresses = engine.addresses.connected()
    known = {ids[address] for address in addresses if address in ids}
    # An address of bootstrap_servers may be another name of a broker that is counted.
    return max(len(known), int(bool(addresses)))


def seconds_since(now: float, moment: float | None) -> float | None:
    """None where there is no such moment."""
    return None if moment is None else now - moment


def oldest_unacked(engine: Engine, intake: Intake, now: float) -> float | None:
    """For how long the oldest record without an outcome has waited."""
    since = [
        moment for batch in list(engine.accumulator.live) if (moment := batch.waiting_since()) is not None
    ]
    since += [owner.asked_at for owner in list(intake.queued.values())[:1]]
    return now - min(since) if since else None


def out_of_reach(engine: Engine) -> BaseException | None:
    """Why no broker gives metadata; None where one does."""
    engine.note_reach()
    return engine.machines.reach.missing


def trouble_with(engine: Engine, topic: str) -> BaseException | None:
    """Why a topic is not known: no broker answers, or what they answered; None where neither is the case."""
    engine.note_reach()
    return engine.admission.trouble_with(topic)


def stats_of(engine: Engine, intake: Intake, accepted_records: int, accepted_bytes: int) -> Stats:
    """What `Producer.stats()` returns; the fast path has counted what was accepted."""
    tally = engine.tally
    buffered, flying = loads(engine, intake)
    return Stats(
        records_accepted=accepted_records,
        bytes_accepted=accepted_bytes,
        records_acked=tally.acked,
        bytes_acked=tally.acked_bytes,
        records_failed=tally.not_written + tally.unknown,
        records_retried=tally.retried,
        failed_by_error=dict(tally.failed_by_error),
        losses_by_topic=dict(tally.losses_by_topic),
        suspected_data_losses=tally.suspected_losses,
        batches=tally.batches,
        requests=tally.requests,
        records_buffered=buffered.records,
        bytes_buffered=buffered.bytes,
        records_in_flight=flying.records,
        bytes_in_flight=flying.bytes,
        waiting_calls=engine.admission.waiting,
        oldest_unacked_seconds=oldest_unacked(engine, intake, engine.loop.time()),
        queue_time=tally.queue_time.snapshot(),
        request_time=tally.request_time.snapshot(),
        batch_size=tally.batch_size.snapshot(),
        compression_ratio=tally.compression_ratio.snapshot(),
        connections=tuple(sender.stats() for sender in list(engine.senders.values())),
    )
