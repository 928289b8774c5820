"""Records of unknown outcome on a real Kafka of three nodes: each verdict is compared with the log that a foreign client reads."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from typing import Any, Final

import attrs
import pytest

from aioproducer import CommitOutcomeUnknownError, Delivery, KafkaError, Outcome, Producer
from tests.kafka.reading import read_all
from tools.kafka_cluster import KafkaCluster

PARTITIONS: Final = 3
ROUND: Final = 30
"""Records, each in a batch of its own: five of a partition are on their way at a time."""
LIMIT: Final = 30.0
# Below the three seconds in which the cluster excludes a node: records on their way have no outcome by then.
HASTY: Final[dict[str, Any]] = {
    "request_timeout_ms": 1_000,
    "delivery_timeout_ms": 2_000,
    "max_block_ms": 2_000,
}

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]


@attrs.define
class Load:
    """Records for each partition, one after the other, in transactions or not."""

    producer: Producer[Any, Any]
    topic: str
    deliveries: dict[bytes, Delivery] = attrs.Factory(dict)
    stopped: bool = False
    is_uncertain: bool = False
    """The outcome of the last commit is unknown: the coordinator has to settle it."""

    async def run(self) -> None:
        """Send until it is stopped."""
        while not self.stopped:
            await self.round()

    async def round(self) -> bool:
        """One record for each partition; whether all are acknowledged, and committed."""
        try:
            if self.is_uncertain:
                await self.producer.init_transactions()
                self.is_uncertain = False
            return await self._sent()
        except CommitOutcomeUnknownError:
            self.is_uncertain = True
        except KafkaError:
            pass
        # A refusal may come at once, and again and again.
        await asyncio.sleep(0.01)
        return False

    async def _sent(self) -> bool:
        sent: list[Delivery] = []
        async with self._transaction():
            for number in range(ROUND):
                value = b"%d" % len(self.deliveries)
                delivery = await self.producer.send(self.topic, value, partition=number % PARTITIONS)
                self.deliveries[value] = delivery
                sent.append(delivery)
        return [await delivery.wait() for delivery in sent] == [Outcome.ACKED] * ROUND

    def _transaction(self) -> Any:
        return self.producer.transaction() if self.producer.config.transactional_id else nullcontext()

    async def acked_everywhere(self) -> None:
        """Each partition has one more record, and each record has its outcome."""
        async with asyncio.timeout(LIMIT):
            while not await self.round():  # noqa: ASYNC110  # another process elects the leaders
                await asyncio.sleep(0.05)

    @property
    def outcomes(self) -> Counter[Outcome]:
        """The outcomes so far."""
        return Counter(delivery.outcome for delivery in self.deliveries.values())


@asynccontextmanager
async def fault(kafka: KafkaCluster, kind: str, victim: int) -> AsyncIterator[None]:
    """A node is frozen or killed within the block, and comes back behind it."""
    node = kafka.node(victim)
    if kind == "frozen":
        node.pause()
    else:
        node.kill()
    try:
        yield
    finally:
        if kind == "frozen":
            node.resume()
        else:
            node.start()


@pytest.mark.parametrize(
    ("kind", "transactional_id"),
    [("frozen", None), ("killed", None), ("frozen", "resolving")],
    ids=["frozen", "killed", "frozen-transactional"],
)
async def test_verdicts_after_the_loss_of_a_leader(
    faulty_nodes: KafkaCluster, kind: str, transactional_id: str | None
) -> None:
    """A flush and each delivery tell the contents of the log; nearly all of it is certain when the leader is back."""
    topic = f"resolved-{kind}-{transactional_id}"
    await asyncio.to_thread(faulty_nodes.create_topic, topic, PARTITIONS, min_insync_replicas=2)
    settings = HASTY if transactional_id is None else {**HASTY, "transactional_id": transactional_id}
    async with Producer(faulty_nodes.bootstrap_servers, **settings) as producer, producer.scope() as scope:
        load = Load(producer, topic)
        await load.acked_everywhere()
        leaders = await asyncio.to_thread(faulty_nodes.leaders, topic)
        work = asyncio.ensure_future(load.run())
        async with asyncio.timeout(LIMIT), fault(faulty_nodes, kind, leaders[0]):
            while not load.outcomes[Outcome.UNKNOWN]:  # noqa: ASYNC110  # another process has no event for it
                await asyncio.sleep(0.05)
        load.stopped = True
        await work
        await load.acked_everywhere()
        report = await scope.flush(LIMIT, resolve=True)
        first = load.outcomes
        in_doubt = [value for value, each in load.deliveries.items() if each.outcome is Outcome.UNKNOWN]
        told = await asyncio.gather(*(load.deliveries[value].resolve_unknown(LIMIT) for value in in_doubt))
    found = await asyncio.to_thread(read_all, faulty_nodes.bootstrap_servers, topic)
    places = {record.value: (record.partition, record.offset) for record in found}
    for value, resolution in zip(in_doubt, told, strict=True):
        if resolution.outcome is Outcome.ACKED:
            assert places[value] == (load.deliveries[value].partition, resolution.offset)
        elif resolution.outcome is Outcome.NOT_WRITTEN:
            assert value not in places
    counts = Counter(resolution.outcome for resolution in told)
    print(f"{kind} {transactional_id}: {first} {counts} {report}")
    assert first[Outcome.UNKNOWN] == len(told) > 0
    assert counts[Outcome.UNKNOWN] <= 0.05 * len(told), [each.reason for each in told]
    assert (report.resolved_acked, report.resolved_not_written) == (
        counts[Outcome.ACKED],
        counts[Outcome.NOT_WRITTEN],
    )
    written = len(places.keys() & load.deliveries.keys())
    assert report.acked <= written <= report.acked + report.unknown
    assert report.acked + report.not_written + report.unknown == len(load.deliveries)
