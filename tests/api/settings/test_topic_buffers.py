"""`topic_buffer_limits`: one topic that no broker accepts does not keep the others from their memory."""

from __future__ import annotations

import asyncio

import pytest

from aioproducer import BufferFullError, ConfigurationError, Producer, ProducerConfig, RecordTooLargeError
from aioproducer.testing import EmbeddedKafka


async def test_a_topic_at_its_limit_waits_alone() -> None:
    """Its sends wait and run out of time; those to another topic of the same broker go through."""
    async with EmbeddedKafka() as kafka:
        kafka.create_topic("metrics", 1)
        kafka.create_topic("orders", 1)
        held = kafka.faults.delay(before=True, topic="metrics", times=None)
        async with Producer(
            kafka.bootstrap_servers, topic_buffer_limits={"metrics": 1_000}, topics=["metrics", "orders"]
        ) as producer:
            await producer.ready(5)
            first = await producer.send("metrics", bytes(800))
            with pytest.raises(BufferFullError):
                await producer.send("metrics", bytes(800), max_block=0.05)
            with pytest.raises(BufferFullError):
                producer.send_nowait("metrics", bytes(800))
            waiting = asyncio.ensure_future(producer.send_and_wait("metrics", bytes(500)))
            accepted = await producer.send("orders", bytes(800), max_block=0.05)
            held.heal()
            assert [(await delivery).topic for delivery in (first, accepted)] == ["metrics", "orders"]
            assert (await waiting).topic == "metrics"


async def test_a_record_larger_than_the_limit_is_refused() -> None:
    """Such a record could never be sent; the error names the setting."""
    async with (
        EmbeddedKafka() as kafka,
        Producer(kafka.bootstrap_servers, topic_buffer_limits={"metrics": 1_000}) as producer,
    ):
        with pytest.raises(RecordTooLargeError, match="topic_buffer_limits"):
            await producer.send("metrics", bytes(1_000))
        result = await (await producer.send_batch("metrics", [b"small", bytes(1_000)]))
        assert list(result.errors) == [1]


@pytest.mark.parametrize(
    ("limits", "problem"),
    [
        ({"metrics": 0}, "the limit of 'metrics' must be 1 or more"),
        ({"metrics": 1.5}, "the limit of 'metrics' must be a whole number of bytes, not float"),
        ({"no such name": 1}, "'no such name'"),
        (17, "must be a mapping, such as"),
    ],
)
def test_limits_that_make_no_sense_are_named(limits: object, problem: str) -> None:
    """The error comes at construction, like for every other setting."""
    with pytest.raises(ConfigurationError, match=problem):
        Producer("localhost:9092", topic_buffer_limits=limits)  # type: ignore[call-overload]


def test_limits_in_a_properties_file() -> None:
    """Names and numbers of bytes."""
    config = ProducerConfig.from_properties(
        {"bootstrap.servers": "localhost:9092", "topic.buffer.limits": "metrics:1000, logs:5000"}
    )
    assert dict(config.topic_buffer_limits) == {"metrics": 1_000, "logs": 5_000}


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"enable_idempotence": False}, "gapless=True: requires enable_idempotence=True"),
        (
            {"enable_idempotence": False, "acks": 0, "max_in_flight_requests_per_connection": 1},
            "gapless=True: with acks=0 a loss is not detected",
        ),
    ],
)
def test_gapless_needs_settings_that_keep_it(settings: dict[str, object], problem: str) -> None:
    """Settings that would break the guarantee are refused."""
    with pytest.raises(ConfigurationError, match=problem):
        ProducerConfig("localhost:9092", gapless=True, **settings)  # type: ignore[arg-type]
