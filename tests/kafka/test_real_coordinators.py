"""Transactions on a real Kafka of three nodes whose coordinators are killed, and whose version of transactions changes."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import random
from typing import Any, Final

import pytest

from aioproducer import Producer
from aioproducer._wire.messages.find_coordinator import FindCoordinatorRequest
from tests.contract.client import WireClient
from tests.effort import PROOF, SEED_VARIABLE
from tests.kafka.committed import LIMIT, offsets, values
from tests.kafka.levels import finalize, level_of
from tests.kafka.scissors import Scissors
from tests.net.support import engine
from tools.kafka_cluster import KafkaCluster

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600 if PROOF else 180)]

KILLS: Final = 20 if PROOF else 2
_SEED: Final = int(os.environ.get(SEED_VARIABLE) or random.SystemRandom().randrange(2**31))
_TRANSACTION: Final = 1
_numbers = itertools.count()

Made = Producer[Any, Any]


@pytest.fixture
def name() -> str:
    """A transactional id that no other test uses."""
    return f"coordinated-{next(_numbers)}"


async def _coordinator_of(kafka: KafkaCluster, name: str) -> int:
    running = next(node for node in kafka.nodes if node.running)
    async with WireClient(running.address) as client:
        answer = await client.ask(FindCoordinatorRequest(key_type=_TRANSACTION, coordinator_keys=[name]), 4)
    return int(answer.coordinators[0].node_id)


# -- killed


async def test_d15_the_coordinator_is_killed_at_the_end(transacting_nodes: KafkaCluster, name: str) -> None:
    """D15: with a commit or an abort on its way, or nothing yet: each transaction is seen as it was ended, and once."""
    rng = random.Random(_SEED)
    print(f"replay these kills with {SEED_VARIABLE}={_SEED}")
    kafka, kept = transacting_nodes, []
    topic = await asyncio.to_thread(kafka.create_topic, f"topic-of-{name}", 3)
    async with Producer(kafka.bootstrap_servers, transactional_id=name, request_timeout_ms=4_000) as producer:
        await producer.init_transactions()
        for number in range(KILLS):
            commits = number % 2 == 0
            value = b"%d" % number
            await producer.begin_transaction()
            for partition in range(3):
                await producer.send(topic, value, partition=partition)
            await producer.send_offsets_to_transaction({(topic, 0): number}, name)
            ending = asyncio.create_task(_end(producer, commits=commits))
            await asyncio.sleep(rng.choice([0, 0, rng.uniform(0, 0.02)]))
            victim = kafka.node(await _coordinator_of(kafka, name))
            await asyncio.to_thread(victim.kill)
            await ending
            kept += [value] * commits
            victim.start()
            async with producer.transaction(timeout=LIMIT):
                await producer.send(topic, b"after " + value, partition=0)
            await asyncio.to_thread(kafka.wait_ready, LIMIT)
    seen = await values(kafka.bootstrap_servers, topic, name)
    assert [value for value in seen[0] if value is not None and not value.startswith(b"after")] == kept
    assert [value for value in seen[0] if value not in kept] == [b"after %d" % n for n in range(KILLS)]
    assert (seen[1], seen[2]) == (kept, kept)
    assert await offsets(kafka.bootstrap_servers, name, topic, 1) == {0: int(kept[-1])}


async def _end(producer: Made, *, commits: bool) -> None:
    await (producer.commit_transaction if commits else producer.abort_transaction)(timeout=60.0)


# -- up and down


async def test_the_version_of_transactions_changes(faulty_nodes: KafkaCluster, name: str) -> None:
    """One producer goes on as before over connections that it has, and in the new way over new ones; up and down."""
    kafka = faulty_nodes
    before = await level_of(kafka.node(1))
    topic = await asyncio.to_thread(kafka.create_topic, f"topic-of-{name}", 3)
    async with contextlib.AsyncExitStack() as stack:
        # Connections are cut by hand: nodes would take their time to come back.
        ways = [await stack.enter_async_context(Scissors(node.ports.broker)) for node in kafka.nodes]
        producer = await stack.enter_async_context(Producer(kafka.bootstrap_servers, transactional_id=name))
        kept = await _some(producer, topic, before)
        for old, new in ((before, 3 - before), (3 - before, before)):
            await finalize(kafka, new)
            kept += await _some(producer, topic, old)
            for way in ways:
                way.sever()
            kept += await _some(producer, topic, None)
            kept += await _some(producer, topic, new)
    seen = await values(kafka.bootstrap_servers, topic, name)
    assert seen == {partition: kept for partition in range(3)}
    assert await offsets(kafka.bootstrap_servers, name, topic, 1) == {0: int(kept[-1])}


async def _some(producer: Made, topic: str, level: int | None) -> list[bytes]:
    """Transactions of all kinds, in this version if one is given; what is to be seen of them."""
    kept = []
    for end in ("commit", "abort", "empty", "commit"):
        value = b"%d" % next(_numbers)
        with contextlib.suppress(ZeroDivisionError):
            async with producer.transaction(timeout=LIMIT) as tx:
                for partition in range(3 if end != "empty" else 0):
                    await producer.send(topic, value, partition=partition)
                tx.send_offsets({(topic, 0): int(value)} if end != "empty" else {}, producer_name(producer))
                if end == "abort":
                    await producer.flush()
                    raise ZeroDivisionError
        kept += [value] * (end == "commit")
        transactions = engine(producer).transactions
        assert transactions is not None
        assert level in (None, transactions.parts.level)
    return kept


def producer_name(producer: Made) -> str:
    """The group has the name of the transactional id."""
    found = producer.config.transactional_id
    assert found is not None
    return found
