"""The producer id: requested until it is there, or until it is clear that there will be none."""

from __future__ import annotations

import asyncio

import pytest

from aioproducer import AuthorizationError, BrokerError, DeliveryError, Outcome, ProtocolError, StateError
from aioproducer._wire.messages.api_versions import ApiVersionsResponse
from aioproducer.testing import EmbeddedKafka
from aioproducer.testing.broker.cluster.cluster import key_of
from tests.net.support import LIMIT, Make, all_acked, engine, numbers, send_all, until, warm

PASSING = [
    "COORDINATOR_LOAD_IN_PROGRESS",
    "COORDINATOR_NOT_AVAILABLE",
    "NOT_COORDINATOR",
    "CONCURRENT_TRANSACTIONS",
]


@pytest.mark.parametrize("code", PASSING)
async def test_asked_again(code: str, make: Make, kafka: EmbeddedKafka) -> None:
    """Temporary errors are retried with a backoff; records wait meanwhile, and are then written."""
    fault = kafka.faults.error(code, api="InitProducerId", times=3)
    producer = await warm(make(kafka), "one")
    assert await all_acked(await send_all(producer, range(5)))
    assert fault.hits == 3


@pytest.mark.parametrize(
    "how",
    ["cut", "cut before", "garbage", "wrong id", "silence", "half"],
    ids=lambda how: how.replace(" ", "-"),
)
async def test_asked_again_on_a_new_connection(how: str, make: Make, kafka: EmbeddedKafka) -> None:
    """A lost request, or one answered with nonsense, is repeated; it never ends the producer."""
    api = "InitProducerId"
    match how:
        case "cut":
            fault = kafka.faults.cut(api=api, times=2)
        case "cut before":
            fault = kafka.faults.cut(before=True, api=api, times=2)
        case "garbage":
            fault = kafka.faults.garbage(api=api, times=2)
        case "wrong id":
            fault = kafka.faults.wrong_correlation_id(api=api, times=2)
        case "silence":
            fault = kafka.faults.silence(api=api, times=2)
        case _:
            fault = kafka.faults.cut_answer(7, api=api, times=2)
    producer = await warm(make(kafka, request_timeout_ms=100), "one")
    assert await all_acked(await send_all(producer, range(5)))
    assert fault.hits == 2
    assert numbers(kafka) == list(range(5))


async def test_not_authorized(make: Make, kafka: EmbeddedKafka) -> None:
    """CLUSTER_AUTHORIZATION_FAILED is final: deliveries have it as their cause, and sends raise it, with the remedy."""
    passing = kafka.faults.error("COORDINATOR_LOAD_IN_PROGRESS", api="InitProducerId", times=None)
    producer = await warm(make(kafka), "one")
    delivery = await producer.send("one", b"0")
    kafka.faults.hide_topic("new")
    waiting = asyncio.ensure_future(producer.send("new", b"0"))
    await until(lambda: engine(producer).admission.calls.waiting)
    passing.heal()
    kafka.faults.error("CLUSTER_AUTHORIZATION_FAILED", api="InitProducerId")
    assert await delivery.wait(LIMIT) is Outcome.NOT_WRITTEN
    error = delivery.exception()
    assert isinstance(error, DeliveryError)
    assert isinstance(error.cause, AuthorizationError)
    with pytest.raises(AuthorizationError, match="IDEMPOTENT_WRITE"):
        await waiting
    for _ in range(2):
        with pytest.raises(AuthorizationError, match="IDEMPOTENT_WRITE"):
            await producer.send("one", b"0")
    with pytest.raises(AuthorizationError):
        await producer.ready()


async def test_not_authorized_at_start(make: Make, kafka: EmbeddedKafka) -> None:
    """A start that waits raises it, and may be called again when the permission is granted."""
    kafka.faults.error("CLUSTER_AUTHORIZATION_FAILED", api="InitProducerId")
    useless = kafka.faults.alter(lambda answer: answer._replace(error_code=-1), api="Metadata", times=None)
    producer = make(kafka)
    with pytest.raises(AuthorizationError):
        await producer.start(wait_ready=LIMIT)
    useless.heal()
    await producer.start(wait_ready=LIMIT)
    await producer.send_and_wait("one", b"0")


async def test_other_final_errors(make: Make, kafka: EmbeddedKafka) -> None:
    """An error that is not known as temporary ends the producer, with the broker's text."""
    kafka.faults.error("INVALID_REQUEST", api="InitProducerId")
    producer = make(kafka)
    await producer.start()
    await until(lambda: producer.health().state == "failed")
    with pytest.raises(StateError) as failure:
        await producer.send("one", b"0")
    assert isinstance(failure.value.cause, BrokerError)
    assert failure.value.cause.name == "INVALID_REQUEST"


async def test_broker_without_producer_ids(make: Make, kafka: EmbeddedKafka) -> None:
    """A broker that cannot give a producer id: the error has that reason, and the setting that needs no id."""
    kafka.limit_version("InitProducerId", 100, 100)
    producer = make(kafka)
    await producer.start()
    await until(lambda: producer.health().state == "failed")
    with pytest.raises(StateError) as failure:
        await producer.send("one", b"0")
    assert isinstance(failure.value.cause, ProtocolError)
    assert "enable_idempotence=False" in str(failure.value.cause)
    await producer.close()
    plain = await warm(make(kafka, enable_idempotence=False), "one")
    await plain.send_and_wait("one", b"0")


async def test_broker_without_producer_ids_is_asked_for_the_others_first(
    make: Make, pair: EmbeddedKafka
) -> None:
    """Metadata in flight from such a broker is waited for, however long it takes: it names the other brokers."""
    pair.faults.alter(_without_producer_ids, api="ApiVersions", broker=1, times=None)
    pair.faults.delay(0.05, api="Metadata", times=None)
    producer = make(pair.brokers[0].address)
    await producer.start(wait_ready=LIMIT)
    await producer.send_and_wait("two", b"0", partition=1)


async def test_slow_brokers_without_producer_ids(make: Make, kafka: EmbeddedKafka) -> None:
    """The absence of a capable broker is known as soon as the first metadata arrives, however long it takes."""
    kafka.limit_version("InitProducerId", 100, 100)
    kafka.faults.delay(0.05, api="Metadata", times=None)
    producer = make(kafka)
    await producer.start()
    await until(lambda: producer.health().state == "failed")


def _without_producer_ids(answer: ApiVersionsResponse) -> ApiVersionsResponse:
    return answer._replace(
        api_keys=[one for one in answer.api_keys if one.api_key != key_of("InitProducerId")]
    )


async def test_old_versions(make: Make, kafka: EmbeddedKafka) -> None:
    """The oldest supported versions work."""
    kafka.limit_version("Produce", 3, 3)
    kafka.limit_version("InitProducerId", 0, 0)
    kafka.limit_version("Metadata", 1, 1)
    producer = await warm(make(kafka), "one")
    assert await all_acked(await send_all(producer, range(5)))


async def test_last_epoch(make: Make, kafka: EmbeddedKafka) -> None:
    """At the last epoch a new producer id is requested, and records continue under it, in order, none twice."""
    producer = await warm(make(kafka, batch_size=1, delivery_timeout_ms=150, request_timeout_ms=100), "one")
    await producer.send_and_wait("one", b"0")
    sequences = engine(producer).sequences
    assert sequences.identity is not None
    first_id = sequences.identity[0]
    sequences.obtained(first_id, 32_766)
    with kafka.faults.silence(api="Produce"):
        lost = await producer.send("one", b"1")
        assert await lost.wait(LIMIT) is Outcome.UNKNOWN
    await producer.send_and_wait("one", b"2", timeout=10)
    await until(lambda: sequences.identity is not None and sequences.identity[0] != first_id)
    assert await all_acked(await send_all(producer, range(3, 8)))
    assert numbers(kafka) == [0, *range(2, 8)]
