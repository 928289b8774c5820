"""Arguments that cannot be sent: each is refused by name, and nothing is written."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from aioproducer import (
    Outcome,
    Producer,
    RecordError,
    RecordTooLargeError,
    SerializationError,
)
from aioproducer.testing import EmbeddedKafka
from tests.api.support import values

UTC = datetime.UTC


class Whole:
    """A whole number of another library."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __index__(self) -> int:
        return self.number


class Text(str):
    """A str of a subclass."""

    __slots__ = ()


NAIVE = datetime.datetime(2024, 1, 1)  # noqa: DTZ001  # naive on purpose

BAD: dict[str, tuple[dict[str, Any], str]] = {
    "topic is None": ({"topic": None}, "topic"),
    "topic is bytes": ({"topic": b"one"}, "topic"),
    "topic is empty": ({"topic": ""}, "topic"),
    "topic is a dot": ({"topic": "."}, "topic"),
    "topic is two dots": ({"topic": ".."}, "topic"),
    "topic has a slash": ({"topic": "a/b"}, "topic"),
    "topic has a space": ({"topic": "a b"}, "topic"),
    "topic is not ASCII": ({"topic": "ä"}, "topic"),
    "topic is long": ({"topic": "a" * 250}, "topic"),
    "topic ends with a newline": ({"topic": "one\n"}, "topic"),
    "topic has a surrogate": ({"topic": "\ud800"}, "topic"),
    "value is str": ({"value": "text"}, "value"),
    "value is int": ({"value": 7}, "value"),
    "value is list": ({"value": [1]}, "value"),
    "value is dict": ({"value": {"a": 1}}, "value"),
    "value is float": ({"value": 1.5}, "value"),
    "key is str": ({"key": "text"}, "key"),
    "key is int": ({"key": 7}, "key"),
    "partition is negative": ({"partition": -1}, "partition"),
    "partition is huge": ({"partition": 2**31}, "partition"),
    "partition is beyond 64 bits": ({"partition": 2**70}, "partition"),
    "partition is bool": ({"partition": True}, "partition"),
    "partition is str": ({"partition": "0"}, "partition"),
    "partition is float": ({"partition": 0.0}, "partition"),
    "timestamp is naive": ({"timestamp": NAIVE}, "time zone"),
    "timestamp is float": ({"timestamp": 1.5}, "timestamp"),
    "timestamp is bool": ({"timestamp": True}, "timestamp"),
    "timestamp is str": ({"timestamp": "2024-01-01"}, "timestamp"),
    "timestamp is a date": ({"timestamp": datetime.date(2024, 1, 1)}, "timestamp"),
    "timestamp is negative": ({"timestamp": -1}, "timestamp"),
    "timestamp is huge": ({"timestamp": 2**63}, "timestamp"),
    "timestamp before 1970": ({"timestamp": datetime.datetime(1969, 12, 31, tzinfo=UTC)}, "1970"),
    "headers are str": ({"headers": "a=b"}, "headers"),
    "headers are bytes": ({"headers": b"a=b"}, "headers"),
    "headers are int": ({"headers": 7}, "headers"),
    "header is no pair": ({"headers": ["ab"]}, "header"),
    "header is a triple": ({"headers": [("a", b"b", b"c")]}, "header"),
    "header is a single": ({"headers": [("a",)]}, "header"),
    "header name is bytes": ({"headers": [(b"a", b"b")]}, "header"),
    "header name is None": ({"headers": [(None, b"b")]}, "header"),
    "header name is a surrogate": ({"headers": [("\ud800", b"b")]}, "header"),
    "header name is a surrogate in a tuple": ({"headers": (("\ud800", b"b"),)}, "header"),
    "header value is str": ({"headers": [("a", "b")]}, "header"),
    "header value is int": ({"headers": {"a": 1}}, "header"),
    "timeout is str": ({"timeout": "1"}, "timeout"),
    "timeout is bool": ({"timeout": True}, "timeout"),
    "timeout is negative": ({"timeout": -1}, "timeout"),
    "timeout is not a number": ({"timeout": float("nan")}, "timeout"),
    "max_block is str": ({"max_block": "1"}, "max_block"),
    "max_block is negative": ({"headers": [], "max_block": -1}, "max_block"),
    "max_block is not a number": ({"headers": [], "max_block": float("nan")}, "max_block"),
}
CALLS = ("send", "send_and_wait", "send_nowait")


@pytest.fixture(params=BAD)
def bad(request: pytest.FixtureRequest) -> tuple[dict[str, Any], str]:
    """Arguments with one mistake, and the name that the error must contain."""
    return BAD[request.param]


async def call(producer: Producer[Any, Any], how: str, arguments: dict[str, Any]) -> object:
    """Send in one of three ways; `topic` and `value` are as given, or valid ones."""
    given = {"topic": "one", "value": b"v", **arguments}
    if how == "send_nowait":
        given.pop("max_block", None)
        return producer.send_nowait(**given)
    return await getattr(producer, how)(**given)


@pytest.mark.parametrize("how", CALLS)
async def test_a_bad_argument_is_refused_by_name(
    producer: Producer, kafka: EmbeddedKafka, bad: tuple[dict[str, Any], str], how: str
) -> None:
    """It raises a RecordError that names the argument, with NOT_WRITTEN, and nothing is sent."""
    arguments, named = bad
    if how == "send_nowait" and "max_block" in arguments:
        arguments, named = {"timeout": -1}, "timeout"
    with pytest.raises(RecordError, match=named) as caught:
        await call(producer, how, arguments)
    assert caught.value.outcome is Outcome.NOT_WRITTEN
    assert not caught.value.retriable
    assert isinstance(caught.value, ValueError)
    await producer.flush()
    assert values(kafka) == []
    assert producer.stats().records_accepted == 0


async def test_a_bad_argument_on_an_unknown_topic_is_refused_at_once(
    producer: Producer, kafka: EmbeddedKafka, bad: tuple[dict[str, Any], str]
) -> None:
    """A mistake does not wait for metadata, and creates no topic."""
    arguments, named = bad
    with pytest.raises(RecordError, match=named):
        await call(producer, "send", {"topic": "new", **arguments})
    assert "new" not in kafka.topics


async def test_the_next_record_is_not_affected(
    producer: Producer, kafka: EmbeddedKafka, bad: tuple[dict[str, Any], str]
) -> None:
    """A valid record after a refused one is written as usual."""
    with pytest.raises(RecordError):
        await call(producer, "send", bad[0])
    assert (await producer.send_and_wait("one", b"good")).offset == 0
    assert values(kafka) == [b"good"]


async def test_str_value_says_what_to_do(producer: Producer[Any, Any]) -> None:
    """A str without a serializer is a SerializationError that names the setting to use."""
    with pytest.raises(SerializationError, match="value_serializer") as caught:
        await producer.send("one", "text")
    assert (caught.value.part, caught.value.topic) == ("value", "one")


async def test_str_key_says_what_to_do(producer: Producer[Any, Any]) -> None:
    """A str key without a serializer names its own setting."""
    with pytest.raises(SerializationError, match="key_serializer"):
        await producer.send("one", b"v", key="text")


async def test_error_names_the_topic(producer: Producer) -> None:
    """The error of a bad record has its topic, as text and as attribute."""
    with pytest.raises(RecordError, match="one") as caught:
        await producer.send("one", b"v", partition=-5)
    assert caught.value.topic == "one"


@pytest.mark.parametrize("how", [*CALLS, "unknown topic"])
async def test_too_large_record(producer: Producer, kafka: EmbeddedKafka, how: str) -> None:
    """A record above max_request_size is refused with its size, the limit and the setting."""
    arguments: dict[str, Any] = {"value": bytes(1_048_576)}
    if how == "unknown topic":
        how, arguments["topic"] = "send", "new"
    with pytest.raises(RecordTooLargeError, match="max_request_size") as caught:
        await call(producer, how, arguments)
    assert (caught.value.size or 0) > 1_048_576
    assert caught.value.limit == 1_048_576
    assert caught.value.outcome is Outcome.NOT_WRITTEN


async def test_record_larger_than_all_memory(kafka: EmbeddedKafka) -> None:
    """A record that the whole buffer cannot hold is refused at once, with the name of that setting."""
    async with Producer(kafka.bootstrap_servers, buffer_memory=50_000) as producer:
        for how in CALLS:
            with pytest.raises(RecordTooLargeError, match="buffer_memory is 50000"):
                await call(producer, how, {"value": bytes(60_000)})


@pytest.fixture(params=["bytes", "bytearray", "memoryview", "slice", "array", "empty"])
def bytes_like(request: pytest.FixtureRequest) -> tuple[Any, bytes]:
    """Something bytes-like, and its bytes."""
    import array

    kinds: dict[str, tuple[Any, bytes]] = {
        "bytes": (b"abc", b"abc"),
        "bytearray": (bytearray(b"abc"), b"abc"),
        "memoryview": (memoryview(b"abc"), b"abc"),
        "slice": (memoryview(b"a.b.c.")[::2], b"abc"),
        "array": (array.array("H", [0x6161]), b"aa"),
        "empty": (b"", b""),
    }
    return kinds[request.param]


@pytest.mark.parametrize("how", CALLS)
async def test_bytes_like_values_and_keys(
    producer: Producer[Any, Any], kafka: EmbeddedKafka, bytes_like: tuple[Any, bytes], how: str
) -> None:
    """Every kind of bytes-like object is accepted as value, key and header, and written as its bytes."""
    data, expected = bytes_like
    await call(producer, how, {"value": data, "key": data, "headers": [("h", data)]})
    await producer.flush()
    (record,) = kafka.records("one")
    assert (record.value, record.key, record.headers) == (expected, expected, (("h", expected),))


@pytest.fixture
async def sent(producer: Producer[Any, Any], kafka: EmbeddedKafka) -> Any:
    """Send one record with these arguments and read it back."""

    async def send(**arguments: Any) -> Any:
        given = {"topic": "one", "value": b"v", **arguments}
        topic = given.pop("topic")
        await producer.send_and_wait(topic, given.pop("value"), **given)
        return kafka.records(topic)[-1]

    return send


async def test_tombstone(sent: Any) -> None:
    """None is a value: a tombstone, and no key at all."""
    record = await sent(value=None, key=b"k")
    assert (record.value, record.key) == (None, b"k")
    assert (await sent()).key is None


async def test_timestamp_in_milliseconds(sent: Any) -> None:
    """An int is milliseconds since the epoch; 0 is a time like any other."""
    assert (await sent(timestamp=1_700_000_000_123)).timestamp == 1_700_000_000_123
    assert (await sent(timestamp=0)).timestamp == 0


async def test_timestamp_as_aware_datetime(sent: Any) -> None:
    """An aware datetime, in any time zone, is its moment in milliseconds."""
    zone = datetime.timezone(datetime.timedelta(hours=5, minutes=30))
    moment = datetime.datetime(2024, 1, 1, 5, 30, 0, 123_999, tzinfo=zone)
    assert (await sent(timestamp=moment)).timestamp == 1_704_067_200_123


async def test_numbers_of_other_libraries(sent: Any) -> None:
    """Whole numbers that are no int, such as those of numpy, are valid as partition and timestamp."""
    record = await sent(topic="four", partition=Whole(3), timestamp=Whole(1_700_000_000_000))
    assert (record.partition, record.timestamp) == (3, 1_700_000_000_000)


@pytest.mark.parametrize(
    "headers",
    [
        [("a", b"1"), ("b", None), ("a", b"2")],
        (("a", b"1"), ("b", None), ("a", b"2")),
        [["a", b"1"], ["b", None], ["a", b"2"]],
        ((Text("a"), bytearray(b"1")), ("b", None), ("a", memoryview(b"2"))),
    ],
)
async def test_headers_keep_order_and_repeats(sent: Any, headers: Any) -> None:
    """Headers are written as they are given: order, repeated names and null values."""
    assert (await sent(headers=headers)).headers == (("a", b"1"), ("b", None), ("a", b"2"))


async def test_headers_as_a_mapping(sent: Any) -> None:
    """A mapping is taken in its order."""
    assert (await sent(headers={"b": b"1", "a": None})).headers == (("b", b"1"), ("a", None))


@pytest.mark.parametrize("headers", [None, [], (), {}])
async def test_no_headers(sent: Any, headers: Any) -> None:
    """No headers and an empty container are the same."""
    assert (await sent(headers=headers)).headers == ()


async def test_header_names_beyond_ascii(sent: Any) -> None:
    """Names of headers are UTF-8, and may be empty."""
    assert (await sent(headers=[("größe", b"1"), ("", b"")])).headers == (("größe", b"1"), ("", b""))


async def test_topic_of_a_str_subclass(sent: Any) -> None:
    """A str of a subclass (an enum's member, say) is a topic's name."""
    assert (await sent(topic=Text("one"))).topic == "one"


async def test_default_timestamp_is_now(sent: Any) -> None:
    """Without a timestamp, the record has the time of its acceptance."""
    before = datetime.datetime.now(UTC).timestamp() * 1000 - 1
    record = await sent()
    assert before <= record.timestamp <= datetime.datetime.now(UTC).timestamp() * 1000 + 1
