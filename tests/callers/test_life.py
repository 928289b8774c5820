"""Starting, closing and settings with arguments that lie: a refusal leaves nothing half begun."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
from typing import Any

import pytest

from aioproducer import ConfigurationError, KafkaError, Outcome, Producer, ProducerConfig, ProducerFencedError
from aioproducer.config import SETTINGS
from aioproducer.config.kinds import Integer
from aioproducer.testing import EmbeddedKafka, MockProducer
from tests.callers.table import KAFKA, Wild
from tests.callers.zoo import ANYTHING, ERRORS, GROUPS, OWN_ERRORS, LyingInt, LyingMapping, LyingStr, Own
from tests.net.support import LIMIT, Make, warm
from tests.runtime.support import sound
from tests.seeds import fresh_seed

TIMES = {"None", "an int", "an int that lies", "a numpy float"}
"""Those are lengths of time."""
SHORT = {"linger_ms": 0, "reconnect_backoff_ms": 5}


async def test_limits_of_time_that_lie(make: Make, kafka: EmbeddedKafka) -> None:
    """start(), ready(), flush() and close() refuse them before anything has happened."""
    producer = make(kafka)
    lying = {name: thing for name, thing in ANYTHING.items() if name not in TIMES}
    for thing in lying.values():
        wrong = thing()
        with pytest.raises((ConfigurationError, *OWN_ERRORS)):
            await producer.start(wait_ready=wrong)
        assert producer.health().state == "new"
    await producer.start(wait_ready=LIMIT)
    async with producer.scope() as scope:
        for thing in lying.values():
            for call in (producer.ready, producer.flush, scope.flush, producer.close):
                with pytest.raises((ConfigurationError, *OWN_ERRORS)):
                    await call(thing())
    assert producer.health().state == "running"
    await sound(producer)


PASSWORDS: dict[str, Any] = {
    "security_protocol": "SASL_SSL",
    "sasl_mechanism": "PLAIN",
    "sasl_username": "a",
    "sasl_password": "b",
}
TOKENS: dict[str, Any] = {
    "security_protocol": "SASL_SSL",
    "sasl_mechanism": "OAUTHBEARER",
    "sasl_token_provider": lambda: "t",
}


@pytest.mark.parametrize("name", ["username", "password", "token_provider"])
def test_credentials_that_lie(name: str) -> None:
    """set_credentials() takes them, or refuses them before anything has changed."""
    settings = TOKENS if name == "token_provider" else PASSWORDS
    for thing in ANYTHING.values():
        producer: Producer = Producer("127.0.0.1:1", **settings)
        before = producer.config
        given: dict[str, Any] = {name: thing()}
        try:
            producer.set_credentials(**given)
        except (ConfigurationError, *OWN_ERRORS):
            assert producer.config is before
        else:
            assert producer.config is not before


class Pieces:
    """Makes a partitioner, but not at first."""

    def __init__(self, error: Any) -> None:
        self.errors = [error]

    def for_producer(self) -> Any:
        if self.errors:
            error = self.errors.pop()()
            raise error
        return lambda *_: 0


@pytest.mark.parametrize("name", ERRORS)
@pytest.mark.parametrize("kind", ["producer", "mock"])
async def test_a_piece_that_raises_at_the_start(
    kind: str, name: str, make: Make, kafka: EmbeddedKafka
) -> None:
    """start() raises what it raises, and may be called again; meanwhile everything can be looked at."""
    pieces = Pieces(ERRORS[name])
    lying: dict[str, Any] = {"partitioner": pieces}
    producer: Any = MockProducer(**lying) if kind == "mock" else make(kafka, **lying)
    with pytest.raises(BaseException) as caught:
        await producer.start()
    assert type(caught.value) in {type(ERRORS[name]()), RuntimeError}
    assert producer.health().state == "new"
    assert producer.stats().records_accepted == 0
    assert "new" in repr(producer)
    await producer.start()
    assert (await producer.send_and_wait("one", b"v")).offset == 0
    await producer.close(LIMIT)


@pytest.mark.parametrize("name", ERRORS)
@pytest.mark.parametrize("piece", ["partitioner", "serializer", "coroutine serializer", "interceptor"])
async def test_errors_that_lie(piece: str, name: str, make: Make, kafka: EmbeddedKafka) -> None:
    """An error that a piece raises ends its record, on every way, also when its text cannot be made."""

    def raises(*_: Any) -> Any:
        error = ERRORS[name]()
        raise error

    async def raises_later(*_: Any) -> Any:
        await asyncio.sleep(0)
        error = ERRORS[name]()
        raise error

    class Intercepts:
        on_send = on_acknowledgement = close = raises

    every: dict[str, dict[str, Any]] = {
        "partitioner": {"partitioner": raises},
        "serializer": {"value_serializer": raises},
        "coroutine serializer": {"value_serializer": raises_later},
        "interceptor": {"interceptors": [Intercepts()]},
    }
    producer = await warm(make(kafka, **every[piece]), "one")
    for topic in ("one", "new"):
        async with asyncio.timeout(LIMIT):
            try:
                assert (await producer.send_and_wait(topic, b"v")).offset >= 0
            except KafkaError as error:
                assert error.outcome is Outcome.NOT_WRITTEN  # noqa: PT017  # interceptors end nothing
                assert str(error)  # noqa: PT017
            except (GeneratorExit, asyncio.CancelledError):
                assert name in ("the end of a generator", "a cancellation")
    assert producer.health().state == "running"
    async with asyncio.timeout(LIMIT):
        await producer.close()


# -- settings


@pytest.mark.parametrize("name", sorted(SETTINGS))
def test_settings_that_lie(name: str) -> None:
    """Each is a `ConfigurationError` that names the setting, or is taken over as it is; properties as well."""
    servers = {} if name == "bootstrap_servers" else {"bootstrap_servers": "localhost:9092"}
    for drawn, thing in (ANYTHING | GROUPS).items():
        for given in (from_settings, from_properties):
            try:
                config = given(servers, name, thing())
            except ConfigurationError as error:
                assert name in str(error), drawn  # noqa: PT017  # it may work as well
            else:
                assert isinstance(repr(config), str), drawn
                value = getattr(config, name)
                assert type(value) in (str, int, float, bool, tuple, type(None)) or name in PIECES, drawn


PIECES = {"key_serializer", "value_serializer", "partitioner", "tracing"}


def from_settings(servers: dict[str, Any], name: str, thing: Any) -> ProducerConfig:
    """By the name of Python."""
    return ProducerConfig(**{**servers, name: thing})


def from_properties(servers: dict[str, Any], name: str, thing: Any) -> ProducerConfig:
    """By the dotted name of Kafka."""
    properties = {key.replace("_", "."): value for key, value in {**servers, name: thing}.items()}
    try:
        return ProducerConfig.from_properties(properties)
    except ConfigurationError as error:
        assert name.replace("_", ".") in str(error) or name in str(error)  # noqa: PT017  # it may work as well
        raise ConfigurationError(name) from error


def test_names_and_numbers_are_taken_over() -> None:
    """No subclass is kept, whose methods could answer otherwise in a task of the producer."""
    lying: dict[str, Any] = {
        "bootstrap_servers": (server for server in [LyingStr("a:1"), "b:2"]),
        "client_id": LyingStr("me"),
        "topics": (LyingStr(name) for name in "ab"),
        "transactional_id": LyingStr("t"),
        "linger_ms": LyingInt(3),
        "acks": LyingStr("ALL"),
        "compression_type": LyingStr("GZIP"),
        "client_rack": LyingStr("r"),
        "topic_buffer_limits": {LyingStr("a"): LyingInt(1000)},
    }
    config = ProducerConfig(**lying)
    taken = (
        *config.bootstrap_servers[0],
        config.client_id,
        *config.topics,
        config.transactional_id,
        config.linger_ms,
        config.acks,
        config.compression_type,
        config.client_rack,
        *config.topic_buffer_limits[0],
    )
    assert taken == ("a", 1, "me", "a", "b", "t", 3, -1, "gzip", "r", "a", 1000)
    assert {type(each) for each in taken} == {str, int}


def test_iterables_without_an_end() -> None:
    """They are given up at the first item that is wrong, and what they raise is a problem of their setting."""
    lying: dict[str, Any] = {
        "bootstrap_servers": itertools.count(),
        "topics": itertools.count(),
        "interceptors": itertools.count(),
        "topic_buffer_limits": LyingMapping(),
        "max_block_ms": 10**5000,
        "batch_size": Indexed(),
    }
    with pytest.raises(ConfigurationError) as caught:
        ProducerConfig(**lying)
    assert len(caught.value.problems) == 6


class Indexed:
    """A number that raises."""

    def __index__(self) -> int:
        raise Own


EXTREMES = [
    (name, value)
    for name, row in SETTINGS.items()
    if isinstance(row.kind, Integer)
    for value in (row.kind.low, row.kind.high)
]


async def test_settings_at_their_ends(kafka: EmbeddedKafka) -> None:
    """With the least and the largest of each number a producer starts, and sends or says why not, and closes in time."""
    refused: set[str] = set()
    for name, value in EXTREMES:
        settings: dict[str, Any] = {**SHORT, "enable_idempotence": False, name: value}
        try:
            producer: Producer[Any, Any] = Producer(kafka.bootstrap_servers, **settings)
        except ConfigurationError:
            # It needs another one.
            continue
        async with asyncio.timeout(LIMIT):
            await producer.start()
            try:
                await producer.send_and_wait("one", b"v", timeout=1, max_block=1)
            except KafkaError:
                # There is no memory for it, or no time.
                refused.add(name)
            assert producer.health().state == "running", (name, value)
            await producer.close(0.05)
    assert len(refused) < len(EXTREMES) / 4, refused


# -- the mock


async def test_ends_of_the_mock() -> None:
    """wait_pending() and close() refuse what lies; after fence_me() every call says so."""
    mock: MockProducer[Any, Any] = MockProducer(auto_complete=False, transactional_id="t")
    async with mock:
        for wrong in ("1", None):
            with pytest.raises(TypeError):
                await mock.wait_pending(wrong)  # type: ignore[arg-type]
        mock.fence_me()
        with pytest.raises(ProducerFencedError):
            await mock.send("one", b"v")
        with pytest.raises(ConfigurationError):
            await mock.close("text")  # type: ignore[arg-type]
    assert mock.health().state == "closed"


async def test_a_kafka_that_is_given_lies() -> None:
    """The embedded Kafka refuses them, and goes on."""
    wild = Wild(random.Random(fresh_seed()))
    async with EmbeddedKafka() as kafka:
        kafka.create_topic("judge", 1)
        for _ in range(300):
            name = wild.rng.choice(sorted(set(KAFKA) - {"limit_version", "delete_topic"}))
            with contextlib.suppress(Exception, *OWN_ERRORS):
                KAFKA[name](wild, kafka)
        async with Producer(kafka.bootstrap_servers) as producer:
            assert (await producer.send_and_wait("judge", b"v")).offset == 0
        assert [record.value for record in kafka.records("judge")] == [b"v"]
