"""`check_topics()` reports later failures before any record is sent."""

from __future__ import annotations

import asyncio

import pytest

from aioproducer import (
    AuthorizationError,
    BrokerUnavailableError,
    ConfigurationError,
    MetadataTimeoutError,
    RecordError,
    check_topics,
)
from aioproducer.testing import EmbeddedKafka


async def test_partitions_of_all(kafka: EmbeddedKafka) -> None:
    """Each name appears once, for every form of the argument."""
    found = await check_topics(["four", "one", "four"], kafka.bootstrap_servers)
    assert found == {"one": 1, "four": 4}
    assert await check_topics([], kafka.bootstrap_servers) == {}
    with pytest.raises(ConfigurationError, match="pass a list of topic names"):
        await check_topics("one", kafka.bootstrap_servers)


async def test_a_broker_that_does_not_tell_what_is_allowed(kafka: EmbeddedKafka) -> None:
    """Brokers before Kafka 2.3 are asked without that field."""
    kafka.limit_version("Metadata", 0, 7)
    assert await check_topics(["four"], kafka.bootstrap_servers) == {"four": 4}


async def test_a_topic_that_is_not_there(kafka: EmbeddedKafka) -> None:
    """The error names it, and the call does not create it; the other topics do not help."""
    with pytest.raises(MetadataTimeoutError, match=r"the topic does not exist \(and 1 more\)") as caught:
        await check_topics(["one", "none", "neither"], kafka.bootstrap_servers, timeout=1.0)
    assert caught.value.topic == "none"
    assert "none" not in kafka.topics


async def test_a_topic_that_is_made_in_this_moment(kafka: EmbeddedKafka) -> None:
    """The call waits for it."""
    hold = kafka.faults.delay(api="Metadata")
    waiting = asyncio.ensure_future(check_topics(["late"], kafka.bootstrap_servers, retry_backoff_ms=5))
    await hold.reached()
    kafka.create_topic("late", 2)
    hold.release()
    assert await waiting == {"late": 2}


async def test_what_may_not_be_seen(kafka: EmbeddedKafka) -> None:
    """The call does not wait for it."""
    kafka.faults.error("TOPIC_AUTHORIZATION_FAILED", api="Metadata", topic="one", times=None)
    with pytest.raises(AuthorizationError) as caught:
        await check_topics(["one"], kafka.bootstrap_servers)
    assert caught.value.topic == "one"


async def test_no_broker_answers(kafka: EmbeddedKafka) -> None:
    """The error has the problem of the last broker."""
    await kafka.faults.stop_broker(1)
    with pytest.raises(MetadataTimeoutError) as caught:
        await check_topics(["one"], kafka.bootstrap_servers, timeout=0.2, retry_backoff_ms=5)
    assert isinstance(caught.value.cause, BrokerUnavailableError)
    assert caught.value.topic is None


async def test_names_that_cannot_be(kafka: EmbeddedKafka) -> None:
    """No broker is asked for them."""
    with pytest.raises(RecordError):
        await check_topics(["a b"], kafka.bootstrap_servers)
