"""Serializers of a registry in producers: known schemas, new ones, and a registry that fails."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import gc
import json
import math
import weakref
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from aioproducer import MetadataTimeoutError, Outcome, Producer, Record, serializers
from aioproducer.errors import ConfigurationError, SerializationError, StateError
from aioproducer.outlets import DeadLetters
from aioproducer.registry import (
    AvroSerializer,
    IncompatibleSchemaError,
    JsonSerializer,
    Reference,
    Registry,
    RegistryError,
    Schema,
    SchemaNotFoundError,
)
from aioproducer.serializers import Encoded, NotPrepared
from aioproducer.testing import EmbeddedKafka, EmbeddedRegistry, MockProducer
from tests.net.support import LIMIT, until


def schema(*fields: str, name: str = "shop.Order") -> str:
    """A record of longs; a field that ends with "?" has a default."""
    described = [
        {"name": field.rstrip("?"), "type": "long", **({"default": 0} if field.endswith("?") else {})}
        for field in fields
    ]
    return json.dumps({"type": "record", "name": name, "fields": described})


@pytest.fixture
async def kafka() -> AsyncIterator[EmbeddedKafka]:
    """An embedded Kafka."""
    async with EmbeddedKafka() as kafka:
        yield kafka


@pytest.fixture
async def registry(embedded: EmbeddedRegistry) -> AsyncIterator[Registry]:
    """A client of the embedded registry that gives up soon."""
    async with Registry(embedded.url, timeout=0.3) as registry:
        yield registry


def paths(server: EmbeddedRegistry) -> list[str]:
    """The requests that a registry got."""
    return [f"{each.method} {each.path}" for each in server.requests]


async def test_keys_and_values(kafka: EmbeddedKafka, registry: Registry, embedded: EmbeddedRegistry) -> None:
    """One serializer serves both, and many topics: the id belongs to the subject and the schema."""
    serializer: AvroSerializer[Any] = AvroSerializer(registry, schema("n"))
    async with Producer(
        kafka.bootstrap_servers, key_serializer=serializer, value_serializer=serializer
    ) as producer:
        for topic in ("a", "b", "a"):
            await producer.send_and_wait(topic, {"n": 1}, key={"n": 2})
        await producer.send_and_wait("a", None, key={"n": 2})
    assert embedded.subjects == ("a-key", "a-value", "b-key", "b-value")
    assert len(embedded.requests) == 4
    first, second, third = kafka.records("a")
    assert (first.key, first.value) == (b"\0\0\0\0\1\4", b"\0\0\0\0\1\2")
    assert second.value == first.value
    assert third.value is None


@pytest.mark.parametrize("way", ["send", "send_nowait", "send_batch", "send_all", "mock"])
async def test_fifty_calls_make_one_request(
    way: str, kafka: EmbeddedKafka, registry: Registry, embedded: EmbeddedRegistry
) -> None:
    """Every way of sending learns the id once, and keeps the order of the calls."""
    serializer: AvroSerializer[Any] = AvroSerializer(registry, schema("n"))
    kafka.create_topic("a")
    values: list[Any] = [{"n": number} for number in range(50)]
    made: Producer[Any, Any]
    if way == "mock":
        made = MockProducer(value_serializer=serializer)
    else:
        made = Producer(kafka.bootstrap_servers, value_serializer=serializer)
    async with made as producer:
        if way == "send_batch":
            await (await producer.send_batch("a", values))
        elif way == "send_all":
            await producer.send_all(Record("a", value) for value in values)
        elif way == "send_nowait":
            await producer.partitions_for("a")
            with pytest.raises(SerializationError) as caught:
                producer.send_nowait("a", values[0])
            assert caught.value.retriable
            await until(lambda: serializer_knows(producer, "a"))
            for value in values:
                producer.send_nowait("a", value)
        else:
            await asyncio.gather(*(producer.send_and_wait("a", value) for value in values))
        await producer.flush()
        sent = producer.history if isinstance(producer, MockProducer) else kafka.records("a")
    assert [each.value for each in sent] == [bytes(5)[:4] + b"\1" + zigzag(n) for n in range(50)]
    assert paths(embedded) == ["POST /subjects/a-value/versions"]


def zigzag(number: int) -> bytes:
    """A small number in Avro."""
    coded = number << 1
    return bytes([coded]) if coded < 0x80 else bytes([coded & 0x7F | 0x80, coded >> 7])


def is_open(serializer: AvroSerializer[Any]) -> bool:
    """Whether the registry of a serializer is open."""
    return "(closed)" not in repr(serializer)


def serializer_knows(producer: Any, topic: str) -> bool:
    """Whether the serializer of a producer has learned what it needs for a topic."""
    return topic in producer._intake.serializing.value.owner._writes


async def test_topics_are_warmed(
    kafka: EmbeddedKafka, registry: Registry, embedded: EmbeddedRegistry
) -> None:
    """The ids for `topics=` are asked for at the start."""
    kafka.create_topic("a")
    serializer: AvroSerializer[Any] = AvroSerializer(registry, schema("n"))
    async with Producer(kafka.bootstrap_servers, value_serializer=serializer, topics=["a"]) as producer:
        await until(lambda: serializer_knows(producer, "a"))
        await producer.partitions_for("a")
        producer.send_nowait("a", {"n": 1})
    assert len(kafka.records("a")) == 1


@pytest.mark.parametrize(
    ("fault", "kind", "retriable"),
    [
        ({"status": 404, "body": b'{"error_code":40403,"message":"no"}'}, SchemaNotFoundError, False),
        ({"status": 409, "body": b'{"error_code":409,"message":"no"}'}, IncompatibleSchemaError, False),
        ({"status": 401}, RegistryError, False),
        ({"status": 200, "body": b"[]"}, RegistryError, False),
        ({"status": 503}, RegistryError, True),
        ({"cut": True}, RegistryError, True),
        ({"delay": math.inf}, RegistryError, True),
    ],
)
async def test_a_registry_that_fails(
    fault: dict[str, Any],
    kind: type[RegistryError],
    retriable: bool,
    kafka: EmbeddedKafka,
    registry: Registry,
    embedded: EmbeddedRegistry,
) -> None:
    """The record is refused with the registry's error as the cause, and nothing was written; later ones are taken."""
    serializer: AvroSerializer[Any] = AvroSerializer(registry, schema("n"))
    async with Producer(kafka.bootstrap_servers, value_serializer=serializer) as producer:
        with embedded.faults.add(**fault), pytest.raises(SerializationError) as caught:
            await producer.send("a", {"n": 1})
        error = caught.value
        assert type(error.cause) is kind
        assert (error.retriable, error.outcome) == (retriable, Outcome.NOT_WRITTEN)
        if retriable:
            await producer.send_and_wait("a", {"n": 2})
    assert len(kafka.records("a") if "a" in kafka.topics else ()) == int(retriable)


@pytest.mark.parametrize("way", ["send", "send_batch", "mock"])
@pytest.mark.parametrize("fault", [{"status": 503}, {"cut": True}, {"delay": math.inf}])
async def test_max_block_ends_before_the_registry_answers(
    fault: dict[str, Any], way: str, kafka: EmbeddedKafka, embedded: EmbeddedRegistry
) -> None:
    """The registry's last failure, or its silence, is the cause, although its own time is not over."""
    kafka.create_topic("a")
    made: Callable[..., Producer[Any, Any]] = MockProducer if way == "mock" else Producer
    async with Registry(embedded.url, timeout=60) as registry:
        serializer: AvroSerializer[Any] = AvroSerializer(registry, schema("n"))
        servers, blocked = kafka.bootstrap_servers, {"max_block_ms": 200}
        async with made(
            servers, key_serializer=serializer, value_serializer=serializer, **blocked
        ) as producer:
            with embedded.faults.add(**fault):
                if way == "send_batch":
                    many = await (await producer.send_batch("a", [{"n": 1}, {"n": 2}], keys=[{"n": 1}] * 2))
                    errors: list[Any] = list(many.errors.values())
                else:
                    calls = [producer.send("a", {"n": number}, key={"n": 1}) for number in range(2)]
                    errors = list(await asyncio.gather(*calls, return_exceptions=True))
            assert len(errors) == 2
            for error in errors:
                assert isinstance(error, SerializationError), error
                assert (error.retriable, error.outcome) == (True, Outcome.NOT_WRITTEN)
                assert isinstance(error.cause, RegistryError)
            await producer.send_and_wait("a", {"n": 3}, key={"n": 1}, max_block=LIMIT)


async def test_a_known_schema_needs_no_registry(
    kafka: EmbeddedKafka, registry: Registry, embedded: EmbeddedRegistry
) -> None:
    """It may be dead, and it comes back for the next topic."""
    serializer: AvroSerializer[Any] = AvroSerializer(registry, schema("n"))
    async with Producer(kafka.bootstrap_servers, value_serializer=serializer) as producer:
        await producer.send_and_wait("a", {"n": 1})
        await embedded.stop()
        await producer.send_and_wait("a", {"n": 2})
        with pytest.raises(SerializationError):
            await producer.send_and_wait("b", {"n": 3})
        await embedded.start()
        await producer.send_and_wait("b", {"n": 3})
    assert (len(kafka.records("a")), len(kafka.records("b"))) == (2, 1)


async def test_the_next_of_two_servers(kafka: EmbeddedKafka, embedded: EmbeddedRegistry) -> None:
    """A dead one is passed over."""
    async with EmbeddedRegistry() as dead:
        urls = f"{dead.url},{embedded.url}"
    serializer: AvroSerializer[Any] = AvroSerializer(urls, schema("n"))
    async with Producer(kafka.bootstrap_servers, value_serializer=serializer) as producer:
        await producer.send_and_wait("a", {"n": 1})
    assert embedded.subjects == ("a-value",)


async def test_closing_while_the_registry_is_silent(kafka: EmbeddedKafka, embedded: EmbeddedRegistry) -> None:
    """The call is refused, and the serializer's own registry is closed."""
    serializer: AvroSerializer[Any] = AvroSerializer(embedded.url, schema("n"))
    with embedded.faults.add(delay=math.inf) as held:
        async with Producer(kafka.bootstrap_servers, value_serializer=serializer) as producer:
            calls = [asyncio.create_task(producer.send("a", {"n": 1})) for _ in range(3)]
            await held.reached()
            await producer.close(timeout=1)
        for outcome in await asyncio.gather(*calls, return_exceptions=True):
            assert isinstance(outcome, SerializationError | StateError), outcome
    assert not is_open(serializer)
    assert [each for each in asyncio.all_tasks() if "registry" in each.get_name()] == []


async def test_a_registry_of_its_own_ends_with_the_last_producer(
    kafka: EmbeddedKafka, embedded: EmbeddedRegistry
) -> None:
    """Two producers may use a serializer with a URL, one after the other as well."""
    serializer: AvroSerializer[Any] = AvroSerializer(embedded.url, schema("n"))

    def producer() -> Producer[Any, Any]:
        return Producer(kafka.bootstrap_servers, key_serializer=serializer, value_serializer=serializer)

    async with producer() as first:
        async with producer() as second:
            await second.send_and_wait("a", {"n": 1}, key={"n": 1})
        assert is_open(serializer)
        await first.send_and_wait("b", {"n": 1}, key={"n": 1})
    assert not is_open(serializer)
    async with producer() as third:
        await third.send_and_wait("c", {"n": 1}, key={"n": 1})
    assert not is_open(serializer)
    assert len(embedded.requests) == 6


async def test_a_start_that_failed_leaves_no_registry_open(
    kafka: EmbeddedKafka, embedded: EmbeddedRegistry
) -> None:
    """It may be repeated, and each start has a use of the registry of its own."""
    serializer = AvroSerializer[Any](embedded.url, schema("n"))
    unreachable = Producer("127.0.0.1:1", value_serializer=serializer, topics=["a"])
    for _ in range(2):
        with pytest.raises(MetadataTimeoutError):
            await unreachable.start(wait_ready=0.01)
        assert serializer._place.users == 0
    starting = asyncio.create_task(unreachable.start(wait_ready=LIMIT))
    await until(lambda: serializer._place.users == 1)
    registry = serializer._place.registry()
    starting.cancel()
    await asyncio.wait([starting])
    assert registry.closed
    await unreachable.close()
    assert serializer._place.users == 0
    async with Producer(kafka.bootstrap_servers, value_serializer=serializer) as producer:
        await producer.send_and_wait("a", {"n": 1})
        registry = serializer._place.registry()
    assert (serializer._place.users, registry.closed) == (0, True)


async def test_the_user_closes_a_registry_of_the_user(kafka: EmbeddedKafka, registry: Registry) -> None:
    """A producer does not."""
    serializer: AvroSerializer[Any] = AvroSerializer(registry, schema("n"))
    async with Producer(kafka.bootstrap_servers, value_serializer=serializer) as producer:
        await producer.send_and_wait("a", {"n": 1})
    assert not registry.closed


async def test_evolution(kafka: EmbeddedKafka, registry: Registry, embedded: EmbeddedRegistry) -> None:
    """A compatible schema gets the next version, an incompatible one refuses its records, and the former goes on."""
    embedded.set_compatibility("BACKWARD")

    async def send(fields: tuple[str, ...], value: dict[str, int]) -> int:
        serializer: AvroSerializer[Any] = AvroSerializer(registry, schema(*fields))
        async with Producer(kafka.bootstrap_servers, value_serializer=serializer) as producer:
            await producer.send_and_wait("a", value)
        newest = kafka.records("a")[-1].value
        assert newest is not None
        return int.from_bytes(newest[1:5], "big")

    assert await send(("n",), {"n": 1}) == 1
    assert await send(("n", "m?"), {"n": 1, "m": 2}) == 2
    with pytest.raises(SerializationError) as caught:
        await send(("n", "k"), {"n": 1, "k": 2})
    assert isinstance(caught.value.cause, IncompatibleSchemaError)
    assert await send(("n",), {"n": 1}) == 1
    assert [each["version"] for each in embedded.versions("a-value")] == [1, 2]


async def test_the_latest_version_encodes(kafka: EmbeddedKafka, embedded: EmbeddedRegistry) -> None:
    """A new version is used soon, without a failed record."""
    async with Registry(embedded.url, latest_ttl=0.0) as registry:
        await registry.register("a-value", Schema(schema("n")))
        serializer: AvroSerializer[Any] = AvroSerializer(registry, use_latest=True)
        async with Producer(kafka.bootstrap_servers, value_serializer=serializer) as producer:
            await producer.send_and_wait("a", {"n": 1, "m": 2})
            await registry.register("a-value", Schema(schema("n", "m?")))
            await producer.send_and_wait("a", {"n": 1, "m": 2})
    assert [each.value for each in kafka.records("a")] == [b"\0\0\0\0\1\2", b"\0\0\0\0\2\2\4"]


async def test_objects_that_wait_for_one_preparation(
    embedded: EmbeddedRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is written with the version that it learned, also where that serves for no time; another one waits again."""
    monkeypatch.setattr("aioproducer.registry.serializing._FOR_ALL", 0.0)
    async with Registry(embedded.url, latest_ttl=0.0) as registry:
        await registry.register("a-value", Schema(schema("n")))
        serializer: AvroSerializer[Any] = AvroSerializer(registry, use_latest=True)
        waiting = [{"n": 1} for _ in range(3)]
        for _ in range(2):
            for each in waiting:
                with pytest.raises(NotPrepared):
                    serializer.serialize("a", None, each)
            await serializer.prepare("a", None, waiting[0])
            with pytest.raises(NotPrepared):
                serializer.serialize("a", None, {"n": 2})
            for each in waiting:
                assert serializer.serialize("a", None, each) == b"\0\0\0\0\1\2"


async def test_an_object_that_several_tasks_send(
    embedded: EmbeddedRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is taken as often as it was refused, behind a later preparation too, and beside calls that did not wait."""
    async with Registry(embedded.url, latest_ttl=0.0) as registry:
        await registry.register("a-value", Schema(schema("n")))
        serializer: AvroSerializer[Any] = AvroSerializer(registry, use_latest=True)
        shared, other = {"n": 1}, {"n": 2}
        for each in (shared, shared, other):
            with pytest.raises(NotPrepared):
                serializer.serialize("a", None, each)
        await serializer.prepare("a", None, shared)
        monkeypatch.setattr("aioproducer.registry.serializing._FOR_ALL", 0.0)
        assert serializer.serialize("a", None, shared) == b"\0\0\0\0\1\2"
        await serializer.prepare("a", None, {"n": 3})
        assert serializer.serialize("a", None, shared) == b"\0\0\0\0\1\2"
        assert serializer.serialize("a", None, other) == b"\0\0\0\0\1\4"
        for each in (shared, other):
            with pytest.raises(NotPrepared):
                serializer.serialize("a", None, each)
        monkeypatch.undo()
        await serializer.prepare("a", None, shared)
        for _ in range(2):
            assert serializer.serialize("a", None, shared) == b"\0\0\0\0\1\2"


class Noted(dict[str, int]):
    """A mapping to which a weak reference may be had."""


@pytest.mark.parametrize("pause", [0.0, 60.0])
async def test_objects_that_were_taken_are_not_kept(
    pause: float, embedded: EmbeddedRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They stay for a second for other tasks, whether another look at the latest version is due or not."""
    async with Registry(embedded.url, latest_ttl=0.0) as registry:
        await registry.register("a-value", Schema(schema("n")))
        serializer: AvroSerializer[Any] = AvroSerializer(registry, use_latest=True)
        objects = [Noted(n=each) for each in range(3)]
        kept = [weakref.ref(each) for each in objects]
        for each in objects:
            # A frame of the error has the object.
            with contextlib.suppress(NotPrepared):
                serializer.serialize("a", None, each)
        registry.latest_ttl = pause
        await serializer.prepare("a", None, objects[0])
        for each in objects:
            assert serializer.serialize("a", None, each) is not None
        monkeypatch.setattr("aioproducer.registry.serializing._FOR_ALL", 0.0)
        await serializer.prepare("a", None, {"n": 4})
        objects.clear()
        del each
        gc.collect()
        assert [each() for each in kept] == [None] * 3


async def test_objects_of_cancelled_calls(
    embedded: EmbeddedRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are kept for a limited time, and their number has a bound."""
    async with Registry(embedded.url, latest_ttl=0.0) as registry:
        await registry.register("a-value", Schema(schema("n")))
        serializer: AvroSerializer[Any] = AvroSerializer(registry, use_latest=True)
        for limit in ("_MOST_REFUSED", "_KEPT"):
            cancelled = [{"n": each} for each in range(3)]
            for each in cancelled:
                with pytest.raises(NotPrepared):
                    serializer.serialize("a", None, each)
            monkeypatch.setattr(f"aioproducer.registry.serializing.{limit}", 0)
            for _ in range(2):
                await serializer.prepare("a", None, cancelled[0])
            monkeypatch.undo()
            for each in cancelled:
                with pytest.raises(NotPrepared):
                    serializer.serialize("a", None, each)


async def test_a_new_version_is_noticed(embedded: EmbeddedRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the latest version serves, it is compared now and then: another one needs a preparation."""
    monkeypatch.setattr("aioproducer.registry.serializing._LOOK", 0.0)
    async with Registry(embedded.url) as registry:
        await registry.register("a-value", Schema(schema("n")))
        serializer: AvroSerializer[Any] = AvroSerializer(registry, use_latest=True)
        await serializer.warm("a")
        for _ in range(3):
            assert serializer.serialize("a", None, {"n": 1}) == b"\0\0\0\0\1\2"
        newer = await registry.register("a-value", Schema(schema("n", "m?")))
        found = await registry.version("a-value", 2)
        registry._latest.put("a-value", found, asyncio.get_running_loop().time())
        with pytest.raises(NotPrepared):
            serializer.serialize("a", None, {"n": 1})
        await serializer.prepare("a", None, {"n": 1})
        assert serializer.serialize("a", None, {"n": 1}) == b"\0\0\0\0\2\2\0"
        assert newer.id == 2


async def test_types(registry: Registry) -> None:
    """A producer has the types of its serializers."""

    @dataclasses.dataclass
    class Order:
        n: int

    values = AvroSerializer[Order](registry, schema("n"))
    producer: Producer[str, Order] = Producer(
        "localhost:1", key_serializer=serializers.string(), value_serializer=values
    )
    converted: Producer[bytes, Order] = Producer(
        "localhost:1",
        value_serializer=AvroSerializer[Order](registry, schema("n"), to_dict=lambda order: {"n": order.n}),
    )
    assert producer.config.value_serializer is values
    assert converted.config.value_serializer is not values


async def test_no_schema_is_registered_unasked(registry: Registry, embedded: EmbeddedRegistry) -> None:
    """Without `auto_register` it is looked up; with an id nothing but that is asked for."""
    careful: AvroSerializer[Any] = AvroSerializer(registry, schema("n"), auto_register=False)
    with pytest.raises(SchemaNotFoundError):
        await careful.warm("a")
    assert embedded.subjects == ()
    made = await registry.register("other", Schema(schema("n")))
    embedded.forget_requests()
    by_id: AvroSerializer[Any] = AvroSerializer(registry, schema_id=made.id)
    await by_id.warm("a")
    assert by_id.serialize("a", None, {"n": 1}) == b"\0\0\0\0\1\2"
    assert paths(embedded) == ["GET /schemas/ids/1"]


@pytest.mark.parametrize(
    ("subject", "expected"),
    [
        ("topic", "a-value"),
        ("record", "shop.Order"),
        ("topic-record", "a-shop.Order"),
        (lambda topic, part, name: f"{topic}/{part}/{name}", "a/value/shop.Order"),
    ],
)
async def test_subjects(subject: Any, expected: str, registry: Registry, embedded: EmbeddedRegistry) -> None:
    """The strategies of Confluent's serializers, and a function."""
    await AvroSerializer[Any](registry, schema("n"), subject=subject).warm("a")
    assert embedded.subjects == (expected,)


async def test_subjects_that_cannot_be(registry: Registry) -> None:
    """A union has no name, and a function must return one."""
    union = '["null","string"]'
    wrong: list[tuple[Any, Any]] = [
        ("record", union),
        ("topic-record", union),
        (lambda *_: None, schema("n")),
    ]
    for subject, text in wrong:
        with pytest.raises(ConfigurationError, match="subject"):
            await AvroSerializer[Any](registry, text, subject=subject).warm("a")


async def test_framings(registry: Registry) -> None:
    """The header has the guid; a function makes what it likes."""
    header: AvroSerializer[Any] = AvroSerializer(registry, schema("n"), framing="header")
    await header.warm("a")
    made = header.serialize("a", None, {"n": 1})
    guid = (await registry.lookup("a-value", Schema(schema("n")))).guid
    assert guid is not None
    assert made == Encoded(b"\2", [("__value_schema_id", b"\1" + guid.bytes)])
    assert header.serialize("a", None, None) is None

    def own(schema_id: Any, indexes: tuple[int, ...], data: bytes) -> Encoded:
        return Encoded(data, [("id", str(schema_id.id).encode()), ("path", str(indexes).encode())])

    other: AvroSerializer[Any] = AvroSerializer(registry, schema("n"), framing=own)
    await other.warm("a")
    assert other.serialize("a", None, {"n": 1}) == Encoded(b"\2", [("id", b"1"), ("path", b"()")])


async def test_a_registry_without_guids(kafka: EmbeddedKafka) -> None:
    """Framing by headers is refused with the reason."""
    async with EmbeddedRegistry(guids=False) as server, Registry(server.url) as registry:
        serializer: AvroSerializer[Any] = AvroSerializer(registry, schema("n"), framing="header")
        async with Producer(kafka.bootstrap_servers, value_serializer=serializer) as producer:
            with pytest.raises(SerializationError, match="gives no guid"):
                await producer.send("a", {"n": 1})


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"use_latest": True, "auto_register": True}, "auto_register"),
        ({"use_latest": True, "schema_id": 1}, "schema_id"),
        ({"schema": None}, "schema: is missing"),
        ({"schema_id": True}, "schema_id"),
        ({"schema_id": -1}, "schema_id"),
        ({"subject": "other"}, "subject"),
        ({"framing": "other"}, "framing"),
        ({"registry": 7}, "registry"),
        ({"registry": "localhost"}, "urls"),
        ({"schema": Schema("{}", "JSON")}, "JSON"),
    ],
)
def test_options_that_cannot_be(options: dict[str, Any], problem: str) -> None:
    """They are refused when the serializer is made."""
    with pytest.raises(ConfigurationError, match=problem):
        AvroSerializer(**{"registry": "http://localhost", "schema": schema("n"), **options})


async def test_a_schema_of_another_type(registry: Registry) -> None:
    """An id of a JSON schema encodes no Avro."""
    made = await registry.register("s", Schema("{}", "JSON"))
    with pytest.raises(ConfigurationError, match="is JSON"):
        await AvroSerializer[Any](registry, schema_id=made.id).warm("a")


async def test_topics_without_end(embedded: EmbeddedRegistry) -> None:
    """The known topics are bounded."""
    async with Registry(embedded.url, cache_size=3) as registry:
        serializer: AvroSerializer[Any] = AvroSerializer(registry, schema("n"))
        for number in range(10):
            await serializer.warm(f"t{number}")
        assert list(serializer._writes) == ["t7", "t8", "t9"]
        assert len(registry._ids) == 3


@pytest.mark.parametrize(
    "fault",
    [
        {"status": 401},
        {"status": 404, "body": b'{"error_code":40403,"message":"no"}'},
        {"status": 409},
        {"status": 200, "body": b"<html>"},
    ],
)
async def test_what_concerns_all_records_sets_none_aside(
    fault: dict[str, Any], kafka: EmbeddedKafka, registry: Registry, embedded: EmbeddedRegistry
) -> None:
    """A deployment with a wrong schema or credentials would set aside everything; an object that does not fit is set aside."""
    async with Producer(
        kafka.bootstrap_servers, value_serializer=AvroSerializer[Any](registry, schema("n"))
    ) as producer:
        letters = DeadLetters(producer, "dead")
        with embedded.faults.add(**fault), pytest.raises(SerializationError):
            await letters.send_and_wait("a", {"n": 1})
        assert "dead" not in kafka.topics
        sent = letters.send("b", {"n": "one"})
        await sent
        assert sent.dead_lettered


def no_subject(*_arguments: object) -> str:
    """A function with an error."""
    raise KeyError("tenant")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"subject": no_subject}, "the function raised KeyError"),
        ({"subject": lambda *_: None}, "the function returned NoneType"),
        ({"framing": "header"}, "gives no guid"),
    ],
)
async def test_a_wrong_option_sets_no_record_aside(
    options: dict[str, Any], text: str, kafka: EmbeddedKafka
) -> None:
    """It concerns all records, and shows itself with the first one."""
    async with EmbeddedRegistry(guids=False) as server, Registry(server.url) as registry:
        serializer: AvroSerializer[Any] = AvroSerializer(registry, schema("n"), **options)
        async with Producer(kafka.bootstrap_servers, value_serializer=serializer) as producer:
            with pytest.raises(SerializationError, match=text):
                await DeadLetters(producer, "dead").send_and_wait("a", {"n": 1})
            assert "dead" not in kafka.topics


async def test_a_reference_of_another_format(registry: Registry) -> None:
    """A JSON schema that refers to one that is no JSON is no fault of its objects."""
    await registry.register("s", Schema('syntax = "proto3";', "PROTOBUF"))
    order = Schema('{"$ref": "s.json"}', "JSON", [Reference("s.json", "s", 1)])
    with pytest.raises(ConfigurationError, match="is no JSON"):
        await JsonSerializer[Any](registry, order).warm("a")


async def test_a_preparation_that_ends_with_its_time_has_its_reason(
    kafka: EmbeddedKafka, embedded: EmbeddedRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    """Also where no call waits for it: the line of the log tells what the registry answered last."""
    kafka.create_topic("a")
    async with Registry(embedded.url, timeout=60) as registry:
        values = AvroSerializer[Any](registry, schema("n"))
        with embedded.faults.add(status=503):
            async with Producer(
                kafka.bootstrap_servers,
                value_serializer=values,
                topics=["a"],
                max_block_ms=1000,
                request_timeout_ms=1000,
            ):
                await until(lambda: "warm() of the value serializer" in caplog.text)
    assert "did not end in time (topic 'a', value): RegistryError" in caplog.text
    assert "status 503" in caplog.text
