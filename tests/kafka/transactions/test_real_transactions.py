"""The producer's transactions on a real Kafka of each kind: 4.3 with both versions of transactions, and 3.9.

confluent-kafka reads their results.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import pickle
import random
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from aioproducer import (
    CommitOutcomeUnknownError,
    Delivery,
    Outcome,
    Producer,
    ProducerFencedError,
    StateError,
    TransactionAbortedError,
    TransactionError,
    TransactionHandle,
    fence,
    list_transactions,
)
from tests.effort import SEED_VARIABLE
from tests.kafka.transactions.committed import (
    LIMIT,
    Values,
    all_values,
    offsets,
    state_of,
    until_state,
    values,
)
from tests.kafka.transactions.scissors import END_TXN, Scissors
from tests.seeds import seed_of
from tools.kafka_cluster import KafkaCluster

pytestmark = pytest.mark.kafka

_SEED: Final = seed_of(__name__)
_ROOT: Final = Path(__file__).parents[3]
_numbers = itertools.count()

Made = Producer[Any, Any]


@pytest.fixture
def kafka(transacting_kafka: KafkaCluster) -> KafkaCluster:
    """A real Kafka of each kind."""
    return transacting_kafka


@pytest.fixture
def servers(kafka: KafkaCluster) -> str:
    """The address of the cluster."""
    return kafka.bootstrap_servers


@pytest.fixture
def name() -> str:
    """A transactional id that no other test uses."""
    return f"transactional-{next(_numbers)}"


@pytest.fixture
def topic(kafka: KafkaCluster, name: str) -> str:
    """A topic of four partitions."""
    return kafka.create_topic(f"topic-of-{name}", 4)


async def put(producer: Made, topic: str, *values: bytes, partition: int = 0) -> list[Delivery]:
    """Send these in the open transaction, and wait until they are written."""
    sent = [await producer.send(topic, value, partition=partition) for value in values]
    assert {await one.wait(LIMIT) for one in sent} <= {Outcome.ACKED}
    return sent


# -- commit and abort


async def test_what_is_committed_is_seen(servers: str, name: str, topic: str) -> None:
    """Aborted records are not seen; empty transactions between do no harm."""
    async with Producer(servers, transactional_id=name) as producer:
        for number in range(6):
            async with producer.transaction():
                pass
            await producer.begin_transaction()
            await put(producer, topic, b"%d" % number)
            await (producer.abort_transaction if number % 2 else producer.commit_transaction)()
            await producer.begin_transaction()
            await producer.abort_transaction()
    assert await values(servers, topic, name) == {0: [b"0", b"2", b"4"]}
    assert await all_values(servers, topic) == {0: [b"0", b"1", b"2", b"3", b"4", b"5"]}


async def test_many_small_transactions(servers: str, name: str, topic: str) -> None:
    """Every third of 100 is aborted, written or not: the others are seen completely and in order."""
    rng = random.Random(_SEED)
    print(f"many small transactions: replay with {SEED_VARIABLE}={_SEED}")
    kept: Values = {}
    loop = asyncio.get_running_loop()
    async with Producer(servers, transactional_id=name) as producer:
        await producer.init_transactions()
        began = loop.time()
        for number in range(100):
            await producer.begin_transaction()
            sent = await _scattered(producer, topic, number, rng)
            if number % 3 == 2:
                await producer.flush() if rng.random() < 0.5 else None
                await producer.abort_transaction()
                continue
            await producer.commit_transaction()
            for partition, value in sent:
                kept.setdefault(partition, []).append(value)
        print(f"100 transactions in {loop.time() - began:.2f} s")
    assert await values(servers, topic, name) == kept


async def _scattered(producer: Made, topic: str, number: int, rng: random.Random) -> list[tuple[int, bytes]]:
    sent = [(rng.randrange(4), b"%d-%d" % (number, index)) for index in range(rng.randrange(1, 20))]
    for partition, value in sent:
        await producer.send(topic, value, partition=partition)
    return sent


async def test_another_name(servers: str, name: str, topic: str) -> None:
    """A producer that changes to another transactional id leaves the former one as it is."""
    async with Producer(servers, transactional_id=name) as producer:
        async with producer.transaction():
            await put(producer, topic, b"a")
        await producer.init_transactions(f"{name}-another")
        async with producer.transaction():
            await put(producer, topic, b"b")
        listed = await producer.list_transactions(name)
    assert [one.transactional_id for one in listed] == [name, f"{name}-another"]
    assert await values(servers, topic, name, f"{name}-another") == {0: [b"a", b"b"]}


# -- offsets


async def test_offsets_move_with_the_transaction(servers: str, name: str, topic: str) -> None:
    """A foreign client reads the offsets of a commit, and none of an abort; metadata is kept."""
    async with Producer(servers, transactional_id=name) as producer:
        async with producer.transaction() as tx:
            await put(producer, topic, b"a")
            tx.send_offsets({(topic, 0): 5, (topic, 1): 7}, name)
        with pytest.raises(ZeroDivisionError):
            async with producer.transaction():
                await producer.send_offsets_to_transaction({(topic, 0): 77}, name)
                raise ZeroDivisionError
        async with producer.transaction() as tx:
            tx.send_offsets({(topic, 1): 8}, name)
        committed = await producer.committed_offsets(name, [(topic, number) for number in range(4)])
    assert {place.partition: one.offset for place, one in committed.items()} == {0: 5, 1: 8}
    assert await offsets(servers, name, topic, 4) == {0: 5, 1: 8}


async def test_open_offsets_are_waited_for(servers: str, name: str, topic: str) -> None:
    """A request for offsets that a transaction holds is answered after its end."""
    async with Producer(servers, transactional_id=name) as producer, Producer(servers) as other:
        async with producer.transaction():
            await producer.send_offsets_to_transaction({(topic, 0): 3}, name)
            asking = asyncio.create_task(other.committed_offsets(name, [(topic, 0)]))
            done, _ = await asyncio.wait([asking], timeout=0.3)
            assert not done
        assert [one.offset for one in (await asking).values()] == [3]


# -- takeover


async def test_e07_a_second_producer_fences_the_first(servers: str, name: str, topic: str) -> None:
    """E07: at every point the first is fenced, all of its records are aborted, and the second continues."""
    for moment in ("ready", "open", "written", "offsets"):
        async with Producer(servers, transactional_id=name) as first:
            await first.init_transactions()
            if moment != "ready":
                await first.begin_transaction()
            if moment in ("written", "offsets"):
                await put(first, topic, b"lost")
            if moment == "offsets":
                await first.send_offsets_to_transaction({(topic, 0): 1}, name)
            async with Producer(servers, transactional_id=name) as second:
                async with second.transaction():
                    await put(second, topic, moment.encode())
                await _find_out(first, topic)
                async with second.transaction():
                    await put(second, topic, moment.encode())
    kept = [moment for moment in (b"ready", b"open", b"written", b"offsets") for _ in range(2)]
    assert await values(servers, topic, name) == {0: kept}
    assert await offsets(servers, name, topic, 1) == {}


async def _find_out(first: Made, topic: str) -> None:
    """Every call of the fenced producer fails, and none hangs."""
    with pytest.raises((ProducerFencedError, TransactionAbortedError)):
        async with asyncio.timeout(LIMIT):
            with contextlib.suppress(StateError):
                await first.begin_transaction()
            late = await first.send(topic, b"late")
            assert await late.wait(LIMIT) is not Outcome.ACKED
            await first.commit_transaction()
    with pytest.raises(ProducerFencedError):
        async with asyncio.timeout(LIMIT):
            while True:
                await first.abort_transaction()
    with pytest.raises(ProducerFencedError):
        await first.begin_transaction()


async def test_fence_ends_what_others_have_open(servers: str, name: str, topic: str) -> None:
    """The transactions are aborted, and their producers are refused afterwards; unused ids are accepted."""
    async with Producer(servers, transactional_id=name) as producer:
        await producer.init_transactions()
        await producer.begin_transaction()
        await put(producer, topic, b"lost")
        assert await state_of(servers, name) == "Ongoing"
        await fence([name, f"{name}-never-used"], servers)
        assert await state_of(servers, name) in ("Empty", "CompleteAbort")
        with pytest.raises(ProducerFencedError):
            await producer.commit_transaction()
        with pytest.raises(ProducerFencedError):
            await producer.begin_transaction()
    assert await values(servers, topic, name) == {}


async def test_transactions_are_listed(servers: str, name: str, topic: str) -> None:
    """Any client can list transactions with their states."""
    async with Producer(servers, transactional_id=name) as producer:
        await producer.init_transactions()
        assert await state_of(servers, name) == "Empty"
        await producer.begin_transaction()
        await put(producer, topic, b"a")
        assert await state_of(servers, name) == "Ongoing"
        await producer.commit_transaction()
        assert await until_state(servers, name, "CompleteCommit")
        assert await list_transactions("unused-prefix-", servers) == []


# -- time


async def test_e06_its_time_is_over_before_the_commit(servers: str, name: str, topic: str) -> None:
    """E06: the commit raises the time-out, no record is visible, and the next transaction works; and this twice."""
    async with Producer(servers, transactional_id=name, transaction_timeout_ms=400) as producer:
        await producer.init_transactions()
        for _ in range(2):
            await producer.begin_transaction()
            await put(producer, topic, b"lost")
            await until_state(servers, name, "CompleteAbort")
            with pytest.raises(TransactionAbortedError, match="transaction_timeout_ms"):
                await producer.commit_transaction()
            await producer.abort_transaction()
            await producer.begin_transaction()
            await put(producer, topic, b"kept")
            await producer.commit_transaction()
    assert await values(servers, topic, name) == {0: [b"kept", b"kept"]}


async def test_e06_its_time_is_over_while_it_sends(servers: str, name: str, topic: str) -> None:
    """E06: late records fail, and the transaction with them; the producer continues with the next."""
    async with Producer(servers, transactional_id=name, transaction_timeout_ms=500) as producer:
        with pytest.raises(TransactionAbortedError):
            async with producer.transaction():
                await put(producer, topic, b"lost")
                await until_state(servers, name, "CompleteAbort")
                for number in range(20):
                    await producer.send(topic, b"late", partition=number % 4)
        async with producer.transaction():
            await put(producer, topic, b"kept")
    assert await values(servers, topic, name) == {0: [b"kept"]}


# -- handles


async def test_a_handle_ends_it_in_another_process(servers: str, name: str, topic: str) -> None:
    """Each end is repeated without harm; the opposite end is refused; the producer continues after init."""
    handles = {}
    for end in ("commit", "abort"):
        producer: Made = Producer(servers, transactional_id=f"{name}-{end}")
        async with producer, producer.transaction() as tx:
            await put(producer, topic, end.encode())
            tx.send_offsets({(topic, 0): 9}, f"{name}-{end}")
            handles[end] = await tx.detach()
        assert await state_of(servers, f"{name}-{end}") == "Ongoing"
    assert await _ended_elsewhere(servers, handles) == ["done"] * 4
    for other in (handles["commit"].abort, handles["abort"].commit):
        with pytest.raises(TransactionError):
            await other(servers)
    for end in handles:
        producer = Producer(servers, transactional_id=f"{name}-{end}")
        async with producer, producer.transaction():
            await put(producer, topic, b"next")
    seen = await values(servers, topic, *(f"{name}-{end}" for end in handles))
    assert seen == {0: [b"commit", b"next", b"next"]}
    assert [await offsets(servers, f"{name}-{end}", topic, 1) for end in handles] == [{0: 9}, {}]


async def _ended_elsewhere(servers: str, handles: dict[str, TransactionHandle]) -> list[str]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.kafka.transactions.ended_elsewhere", servers),
        cwd=_ROOT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await asyncio.wait_for(process.communicate(pickle.dumps(handles)), LIMIT)
    return output.decode().split()


async def test_a_detached_producer_goes_on(servers: str, name: str, topic: str) -> None:
    """After the use of its handle the producer needs only `init_transactions()`."""
    async with Producer(servers, transactional_id=name) as producer:
        for number in range(2):
            async with producer.transaction() as tx:
                await put(producer, topic, b"%d" % number)
                handle = await tx.detach()
            await handle.commit(servers)
            await producer.init_transactions()
    assert await values(servers, topic, name) == {0: [b"0", b"1"]}


async def test_a_handle_whose_time_is_over(servers: str, name: str, topic: str) -> None:
    """The commit raises the time-out, the abort succeeds, and a successor continues."""
    producer: Made = Producer(servers, transactional_id=name, transaction_timeout_ms=500)
    async with producer, producer.transaction() as tx:
        await put(producer, topic, b"lost")
        handle = await tx.detach()
    await until_state(servers, name, "CompleteAbort")
    with pytest.raises(TransactionAbortedError, match="transaction_timeout_ms"):
        await handle.commit(servers)
    await handle.abort(servers)
    async with Producer(servers, transactional_id=name) as successor:
        async with successor.transaction():
            await put(successor, topic, b"kept")
        for call in (handle.commit, handle.abort):
            with pytest.raises(ProducerFencedError):
                await call(servers)
    assert await values(servers, topic, name) == {0: [b"kept"]}


# -- connections cut at the end of a transaction


async def test_e01_connections_are_cut_at_the_end(kafka: KafkaCluster, name: str, topic: str) -> None:
    """E01: whether the coordinator had the request or not, each commit and abort is done once; none affects the next."""
    servers, kept = kafka.bootstrap_servers, []
    async with (
        Scissors(kafka.node(1).ports.broker) as scissors,
        Producer(servers, transactional_id=name) as producer,
    ):
        await producer.init_transactions()
        for number, (behind, commits) in enumerate(2 * list(itertools.product([False, True], repeat=2))):
            await producer.begin_transaction()
            await put(producer, topic, b"%d" % number)
            scissors.cut(END_TXN, behind=behind, times=1 + number // 4)
            await (producer.commit_transaction if commits else producer.abort_transaction)()
            kept += [b"%d" % number] * commits
        assert scissors.cuts == 12
    assert await values(servers, topic, name) == {0: kept}


async def test_e01_a_commit_without_an_answer(kafka: KafkaCluster, name: str, topic: str) -> None:
    """E01: the outcome is unknown; the same call again joins it, or `init_transactions()` settles it."""
    servers, kept = kafka.bootstrap_servers, []
    async with (
        Scissors(kafka.node(1).ports.broker) as scissors,
        Producer(servers, transactional_id=name) as producer,
    ):
        await producer.init_transactions()
        for number, (behind, joins) in enumerate(itertools.product([False, True], repeat=2)):
            await producer.begin_transaction()
            await put(producer, topic, b"%d" % number)
            scissors.cut(END_TXN, behind=behind, times=1_000_000)
            with pytest.raises(CommitOutcomeUnknownError):
                await producer.commit_transaction(timeout=0.4)
            scissors.heal()
            await (producer.commit_transaction if joins else producer.init_transactions)()
            kept += [b"%d" % number] * (behind or joins)
    assert await values(servers, topic, name) == {0: kept}
