"""The remaining work of a closing producer, in one line: records, broker by broker, and coordinators."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from aioproducer._net.observing.snapshot import trouble_with
from aioproducer._state.connecting.endpoint import BrokerEndpoint
from aioproducer._state.queues.partition_queue import NO_LEADER

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from aioproducer._net.accepting.intake import Intake
    from aioproducer._net.runtime.engine import Engine
    from aioproducer._state.queues.batches import QueuedBatch

# At most this many brokers, topics and partitions are named.
NAMED = 3


def waits_for(engine: Engine, intake: Intake) -> str | None:
    """Records without an outcome and unfinished calls of a transaction, each with its reason; None: there are none."""
    left = [*_records(engine, intake), *_transaction_calls(engine)]
    return "; ".join(left) or None


def counted(number: int, thing: str) -> str:
    """A number and its noun, such as "3 records"."""
    return f"{number} {thing}{'' if number == 1 else 's'}"


def _records(engine: Engine, intake: Intake) -> Iterator[str]:
    count = engine.unresolved() + len(intake.queued)
    if count:
        places = [*_at_brokers(engine), *_of_unknown_topics(engine, intake)]
        yield f"{counted(count, 'record')} without an outcome ({_listed(places)})"


def _at_brokers(engine: Engine) -> Iterator[str]:
    """Records with a place in a batch, by the broker that has to accept or to answer it."""
    records: Counter[int] = Counter()
    leaderless: dict[str, None] = {}
    for batch in engine.accumulator.live:
        broker = _broker_of(batch)
        records[broker] += batch.pending
        if broker == NO_LEADER:
            leaderless[f"{batch.topic}-{batch.partition}"] = None
    for broker, count in records.most_common():
        if not count:
            continue
        if broker == NO_LEADER:
            yield f"{count} without a leader, of {_listed(leaderless, ', ')}"
        else:
            yield f"{count} at {_named(engine, broker)}{_no_producer_id(engine)}{_because(engine.accumulator.cluster.trouble_with(broker))}"


def _broker_of(batch: QueuedBatch) -> int:
    return batch.retry_leader if batch.in_flight else batch.queue.node.node_id


def _named(engine: Engine, broker: int) -> str:
    node = engine.view.brokers.node(broker)
    if node is None:
        return f"broker {broker}"
    return f"broker {BrokerEndpoint.advertised(node.host, node.port, broker).name}"


def _no_producer_id(engine: Engine) -> str:
    missing = engine.config.enable_idempotence and engine.sequences.identity is None
    return ", without a producer id" if missing else ""


def _of_unknown_topics(engine: Engine, intake: Intake) -> Iterator[str]:
    """Records that were accepted before the metadata of their topic arrived."""
    topics = Counter(owner.call.topic for owner in intake.queued.values() if owner.call is not None)
    for topic, count in topics.most_common():
        yield f"{count} without metadata of topic {topic}{_because(trouble_with(engine, topic))}"


def _transaction_calls(engine: Engine) -> Iterator[str]:
    transactions = engine.transactions
    operation = None if transactions is None else transactions.operation
    if transactions is not None and operation is not None and not operation.ended:
        yield f"{operation.event.value}, by the coordinator of {transactions.coordinator.of}{_because(transactions.trouble())}"


def _because(trouble: BaseException | None) -> str:
    return "" if trouble is None else f": {trouble}"


def _listed(names: Iterable[str], between: str = "; ") -> str:
    known = list(names)
    rest = f"{between}and {len(known) - NAMED} more" if len(known) > NAMED else ""
    return f"{between.join(known[:NAMED])}{rest}"
