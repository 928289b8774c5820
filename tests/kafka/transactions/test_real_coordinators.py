"""Transactions on a real Kafka of three nodes: coordinators are killed, and the version of transactions changes."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
from typing import Any, Final

import pytest

from aioproducer import Producer
from aioproducer._wire.messages.find_coordinator import FindCoordinatorRequest
from tests.contract.client import WireClient
from tests.effort import PROOF, SEED_VARIABLE
from tests.kafka.transactions.committed import LIMIT, offsets, values
from tests.kafka.transactions.levels import finalize, level_of
from tests.kafka.transactions.scissors import Scissors
from tests.net.support import engine
from tests.seeds import seed_of
from tools.kafka_cluster import KafkaCluster

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]

KILLS: Final = 10 if PROOF else 1
PRODUCERS: Final = 6
_SEED: Final = seed_of(__name__)
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
    """D15: commits and aborts are on their way to it: each transaction has its one outcome, with its offset."""
    rng = random.Random(_SEED)
    print(f"replay these kills with {SEED_VARIABLE}={_SEED}")
    kafka = transacting_nodes
    topic = await asyncio.to_thread(kafka.create_topic, f"topic-of-{name}", PRODUCERS)
    names = [f"{name}-{index}" for index in range(PRODUCERS)]
    async with contextlib.AsyncExitStack() as stack:
        producers = [
            await stack.enter_async_context(
                Producer(kafka.bootstrap_servers, transactional_id=each, request_timeout_ms=4_000)
            )
            for each in names
        ]
        for number in range(KILLS):
            await _kill_at_the_end(kafka, producers, topic, number, rng)
    seen = await values(kafka.bootstrap_servers, topic, *names)
    assert seen == {index: _kept(index) for index in range(PRODUCERS)}
    for index, each in enumerate(names):
        committed = [number for number in range(KILLS) if _commits(index, number)]
        expected = {index: committed[-1]} if committed else {}
        assert await offsets(kafka.bootstrap_servers, each, topic, PRODUCERS) == expected


def _commits(index: int, number: int) -> bool:
    return (index + number) % 2 == 0


def _kept(index: int) -> list[bytes | None]:
    """The visible records of the producer with this number: all but those that it has aborted."""
    pairs = ((b"%d" % number, b"after %d" % number) for number in range(KILLS))
    return [value for n, pair in enumerate(pairs) for value in pair[0 if _commits(index, n) else 1 :]]


async def _kill_at_the_end(
    kafka: KafkaCluster, producers: list[Made], topic: str, number: int, rng: random.Random
) -> None:
    """Each producer has a transaction open; all end theirs as the coordinator of one is killed, and continue."""
    for index, producer in enumerate(producers):
        if not number:
            await producer.init_transactions()
        await producer.begin_transaction()
        await producer.send(topic, b"%d" % number, partition=index)
        await producer.send_offsets_to_transaction({(topic, index): number}, _name_of(producer))
    victim = kafka.node(await _coordinator_of(kafka, _name_of(rng.choice(producers))))
    ends = [_end(producer, commits=_commits(index, number)) for index, producer in enumerate(producers)]
    ending = asyncio.gather(*ends)
    # The length is the fault: from before the first request to after the last answer.
    await asyncio.sleep(rng.choice([0, rng.uniform(0, 0.05)]))
    victim.kill()
    await ending
    victim.start()
    for index, producer in enumerate(producers):
        async with producer.transaction(timeout=LIMIT):
            await producer.send(topic, b"after %d" % number, partition=index)
    await asyncio.to_thread(kafka.wait_ready, LIMIT)


async def _end(producer: Made, *, commits: bool) -> None:
    await (producer.commit_transaction if commits else producer.abort_transaction)(timeout=60.0)


# -- upgrade and downgrade


async def test_the_version_of_transactions_changes(faulty_nodes: KafkaCluster, name: str) -> None:
    """One producer keeps the old version on open connections, and uses the new one on new ones; up and down."""
    kafka = faulty_nodes
    before = await level_of(kafka.node(1))
    topic = await asyncio.to_thread(kafka.create_topic, f"topic-of-{name}", 3)
    async with contextlib.AsyncExitStack() as stack:
        # Connections are cut by the test: nodes would restore them too slowly.
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
    assert seen == dict.fromkeys(range(3), kept)
    assert await offsets(kafka.bootstrap_servers, name, topic, 1) == {0: int(kept[-1])}


async def _some(producer: Made, topic: str, level: int | None) -> list[bytes]:
    """Transactions of all kinds, in this version if one is given; returns the visible records."""
    kept = []
    for end in ("commit", "abort", "empty", "commit"):
        value = b"%d" % next(_numbers)
        with contextlib.suppress(ZeroDivisionError):
            async with producer.transaction(timeout=LIMIT) as tx:
                for partition in range(3 if end != "empty" else 0):
                    await producer.send(topic, value, partition=partition)
                if end != "empty":
                    tx.send_offsets({(topic, 0): int(value)}, _name_of(producer))
                if end == "abort":
                    await producer.flush()
                    raise ZeroDivisionError
        kept += [value] * (end == "commit")
        transactions = engine(producer).transactions
        assert transactions is not None
        assert level in (None, transactions.parts.level)
    return kept


def _name_of(producer: Made) -> str:
    """The group has the name of the transactional id."""
    found = producer.config.transactional_id
    assert found is not None
    return found
