"""A producer's liveness and readiness, and its problems in words."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from aioproducer import Health, Producer, ProducerFencedError, TransactionError
from aioproducer.testing import EmbeddedKafka
from tests.api.conftest import Make
from tests.api.support import LIMIT, held_answers, until, warm

QUICK: dict[str, Any] = {
    "reconnect_backoff_ms": 1,
    "reconnect_backoff_max_ms": 5,
    "retry_backoff_ms": 1,
    "retry_backoff_max_ms": 5,
}


async def test_a_producer_that_is_well(make: Make) -> None:
    """It is live all the time, and ready from the first metadata to close(), even if nothing was sent."""
    producer = make()
    healths = [producer.health()]
    await producer.start()
    healths.append(producer.health())
    await producer.ready(LIMIT)
    healths.append(producer.health())
    await producer.close()
    healths.append(producer.health())
    assert [health.live for health in healths] == [True] * 4
    assert [health.ready for health in healths] == [False, False, True, False]
    assert (healths[2].brokers_known, healths[2].brokers_unreachable, healths[2].problems) == (1, 0, ())
    assert healths[1].problems == ("no metadata was read yet",)


async def test_no_broker_answers() -> None:
    """The bootstrap servers are named with the reason; the producer stays live."""
    async with Producer("127.0.0.1:1", client_id="alone", **QUICK) as producer:
        await until(lambda: producer.health().last_error and producer.health().problems[1:])
        health = producer.health()
        assert (health.live, health.ready) == (True, False)
        first, second = health.problems
        assert first == "no metadata was read yet: connection refused"
        assert re.fullmatch(
            r"bootstrap server 127\.0\.0\.1:1 unreachable for \d\.\d s: connection refused", second
        )


def misplace(kafka: EmbeddedKafka, *brokers: int) -> None:
    """Metadata gives these brokers an address without a listener."""

    def elsewhere(answer: Any) -> Any:
        placed = [one._replace(port=1) if one.node_id in brokers else one for one in answer.brokers]
        return answer._replace(brokers=placed)

    kafka.faults.alter(elsewhere, api="Metadata", times=None)


async def test_one_broker_of_two_is_down() -> None:
    """The other one serves: the producer is ready, and the problem has its place, its time and its reason."""
    async with EmbeddedKafka(2) as kafka:
        kafka.create_topic("two", 2, replication_factor=1)
        misplace(kafka, 2)
        async with Producer(kafka.bootstrap_servers, close_timeout_ms=0, **QUICK) as producer:
            for partition in range(2):
                await producer.send("two", b"v", partition=partition)
            await until(lambda: producer.health().brokers_unreachable)
            health = producer.health()
            assert (health.live, health.ready, health.brokers_known, health.brokers_unreachable) == (
                True,
                True,
                2,
                1,
            )
            (problem,) = health.problems
            assert re.fullmatch(r"broker 2 \([^ ]+:1\) unreachable for \d\.\d s: connection refused", problem)


async def test_all_brokers_are_down() -> None:
    """The producer is not ready, though it has read metadata, and it is live."""
    async with EmbeddedKafka() as kafka:
        kafka.create_topic("one")
        misplace(kafka, 1)
        async with Producer(kafka.bootstrap_servers, close_timeout_ms=0, **QUICK) as producer:
            await producer.ready(LIMIT)
            await producer.send("one", b"v")
            await until(lambda: producer.health().brokers_unreachable)
            health = producer.health()
            assert (health.live, health.ready, health.brokers_known) == (True, False, 1)


async def test_a_record_that_waits_too_long(make: Make, kafka: EmbeddedKafka) -> None:
    """Longer than request_timeout_ms: the producer is not ready."""
    producer = await warm(make(request_timeout_ms=20, delivery_timeout_ms=60_000, **QUICK))
    held_answers(kafka)
    await producer.send("one", b"v")
    await until(lambda: (producer.health().oldest_unacked_seconds or 0) > 0.05)
    health = producer.health()
    assert (health.live, health.ready) == (True, False)
    assert any("longer than request_timeout_ms (20)" in problem for problem in health.problems)


def problems_but_stalls(producer: Producer[Any, Any]) -> list[str]:
    """The problems, without that of a machine that is busy with other work."""
    return [each for each in producer.health().problems if not each.startswith("the event loop")]


@pytest.mark.parametrize(
    ("partitions", "told"),
    [
        (1, "partition five-0 has no leader: its records wait"),
        (5, "5 partitions have no leader: their records wait (five-0, five-1, five-2 and 2 more)"),
    ],
)
async def test_partitions_without_a_leader(partitions: int, told: str) -> None:
    """They are named while records wait for them, and no longer; the producer stays ready for the others."""
    async with EmbeddedKafka() as kafka:
        kafka.create_topic("five", 6)
        for partition in range(partitions):
            kafka.faults.move_leader("five", partition, -1)
        async with Producer(kafka.bootstrap_servers, **QUICK) as producer:
            await producer.send_and_wait("five", b"v", partition=5)
            assert problems_but_stalls(producer) == []
            kept = [await producer.send("five", b"v", partition=each) for each in range(partitions)]
            assert (producer.health().ready, problems_but_stalls(producer)) == (True, [told])
            for partition in range(partitions):
                kafka.faults.move_leader("five", partition, 1)
            for delivery in kept:
                await delivery
            assert problems_but_stalls(producer) == []


async def test_a_producer_that_was_fenced(make: Make) -> None:
    """Another producer has taken over: this one has failed, with that reason."""
    old, new = make(transactional_id="t"), make(transactional_id="t")
    for producer in (old, new):
        await producer.start()
        await producer.init_transactions()
    try:
        async with old.transaction():
            await old.send("one", b"v")
    except (ProducerFencedError, TransactionError):
        pass
    await until(lambda: old.health().state == "failed")
    health = old.health()
    assert (health.live, health.ready) == (False, False)
    assert health.problems[0].startswith("the producer has failed: ")
    assert new.health().ready


async def test_the_facts_as_json(make: Make) -> None:
    """as_dict() has all fields, in types that json takes."""
    producer = await warm(make())
    facts = json.loads(json.dumps(producer.health().as_dict()))
    assert (facts["state"], facts["live"], facts["ready"], facts["problems"]) == ("running", True, True, [])
    failed = Health("failed", last_error=OSError("disk"), live=False, problems=("it is over",)).as_dict()
    assert (failed["last_error"], failed["problems"]) == ("disk", ["it is over"])
    assert Health("failed", last_error=OSError()).as_dict()["last_error"] == "OSError"
