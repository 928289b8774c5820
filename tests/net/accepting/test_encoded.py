"""Serializers that add headers to their records."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import attrs
import pytest

from aioproducer import Outcome, RecordError, SerializationError
from aioproducer.serializers import Encoded
from aioproducer.testing import EmbeddedKafka
from tests.net.support import Make, warm
from tests.runtime.support import sound

GIVEN = [("own", b"1")]


@attrs.define
class Adding:
    """Returns the result of its function."""

    make: Callable[[Any], Any]
    seen: list[Any] = attrs.Factory(list)

    def serialize(self, topic: str, headers: Any, data: Any) -> Any:
        self.seen.append(headers)
        return self.make(data)


class AddingLater(Adding):
    """The same as a coroutine function."""

    async def serialize(self, topic: str, headers: Any, data: Any) -> Any:
        await asyncio.sleep(0)
        return Adding.serialize(self, topic, headers, data)


KINDS = pytest.mark.parametrize("kind", [Adding, AddingLater], ids=["function", "coroutine function"])
FORMS: dict[str, Any] = {
    "pairs": (("schema", b"7"),),
    "a list": [("schema", b"7")],
    "a mapping": {"schema": b"7"},
    "pairs of lists": [["schema", bytearray(b"7")]],
    "an iterator": lambda: iter([("schema", b"7")]),
}


def form(name: str) -> Any:
    """Headers in this form."""
    found = FORMS[name]
    return found() if callable(found) else found


@KINDS
@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("topic", ["one", "new"])
async def test_headers_come_behind_those_of_the_record(
    kind: type[Adding], name: str, topic: str, make: Make, kafka: EmbeddedKafka
) -> None:
    """In every form, from every way to send; the caller's headers are not changed."""
    adding = kind(lambda data: Encoded(data, form(name)))
    producer = await warm(make(kafka, value_serializer=adding), "one")
    given = list(GIVEN)
    await (await producer.send(topic, b"0", headers=given))
    await producer.send_and_wait(topic, b"1")
    await (await producer.send_batch(topic, [b"2"], headers=[given]))
    if kind is Adding:
        await producer.send_nowait(topic, b"3", headers=given)
    assert given == GIVEN
    added = (("schema", b"7"),)
    expected = [(("own", b"1"), *added), added, (("own", b"1"), *added), (("own", b"1"), *added)]
    records = kafka.records(topic)
    assert [record.headers for record in records] == expected[: len(records)]
    assert [record.value for record in records] == [b"0", b"1", b"2", b"3"][: len(records)]
    assert len(records) >= 3


@KINDS
async def test_those_of_the_key_come_before_those_of_the_value(
    kind: type[Adding], make: Make, kafka: EmbeddedKafka
) -> None:
    """Each serializer sees only the headers of the record."""
    keys = Adding(lambda data: Encoded(data, [("key", b"k")]))
    values = kind(lambda data: Encoded(data, {"value": None}))
    producer = await warm(make(kafka, key_serializer=keys, value_serializer=values), "one")
    await producer.send_and_wait("one", b"v", key=b"k", headers=GIVEN)
    (record,) = kafka.records("one")
    assert record.headers == (("own", b"1"), ("key", b"k"), ("value", None))
    assert (record.key, record.value) == (b"k", b"v")
    assert keys.seen == values.seen == [(("own", b"1"),)]


@pytest.mark.parametrize("headers", [None, (), {}, []])
async def test_without_headers(headers: Any, make: Make, kafka: EmbeddedKafka) -> None:
    """Only the data is written, in the call; None as data is a tombstone."""
    producer = await warm(make(kafka, value_serializer=lambda data: Encoded(data, headers)), "one")
    sending = producer.send("one", b"v")
    assert sending.delivery is not None
    await (await sending)
    await producer.send_and_wait("one", None, headers=GIVEN)
    assert [(record.value, record.headers) for record in kafka.records("one")] == [
        (b"v", ()),
        (None, (("own", b"1"),)),
    ]


async def test_headers_are_added_in_the_call(make: Make, kafka: EmbeddedKafka) -> None:
    """Topic known, room in the buffer: such a record is accepted at once as well."""
    producer = await warm(
        make(kafka, value_serializer=lambda data: Encoded(memoryview(data), [("h", b"1")])), "one"
    )
    sending = producer.send_and_wait("one", b"v", headers=GIVEN)
    assert sending.delivery is not None
    await sending
    assert kafka.records("one")[0].headers == (("own", b"1"), ("h", b"1"))


WRONG: dict[str, Any] = {
    "headers that are a number": Encoded(b"v", 5),  # type: ignore[arg-type]
    "a header without a value": Encoded(b"v", [("h",)]),  # type: ignore[list-item]
    "a header that is text": Encoded(b"v", [("h", "text")]),  # type: ignore[list-item]
    "data that is text": Encoded("text"),  # type: ignore[arg-type]
    "data that is encoded": Encoded(Encoded(b"v")),  # type: ignore[arg-type]
    "a plain pair": (b"v", None),
    "a subclass that is shorter": tuple.__new__(type("Short", (Encoded,), {}), (b"v",)),
    "a subclass that is empty": tuple.__new__(type("Empty", (Encoded,), {}), ()),
}


@KINDS
@pytest.mark.parametrize("topic", ["one", "new"])
@pytest.mark.parametrize("name", WRONG)
async def test_what_cannot_be_sent_is_refused(
    name: str, topic: str, kind: type[Adding], make: Make, kafka: EmbeddedKafka
) -> None:
    """The refusal ends its record only, as NOT_WRITTEN."""
    adding = kind(lambda data: WRONG[name] if data == b"bad" else data)
    producer = await warm(make(kafka, value_serializer=adding), "one")
    for way in (producer.send, producer.send_and_wait):
        with pytest.raises(RecordError) as caught:
            await way(topic, b"bad")
        assert caught.value.outcome is Outcome.NOT_WRITTEN
    result = await (await producer.send_batch(topic, [b"0", b"bad", b"1"]))
    assert list(result.errors) == [1]
    await sound(producer)
    assert [record.value for record in kafka.records(topic)] == [b"0", b"1"]


async def test_the_text_names_the_part(make: Make, kafka: EmbeddedKafka) -> None:
    """The text shows which serializer to fix."""
    producer = await warm(make(kafka, key_serializer=lambda data: Encoded(data, 5)), "one")  # type: ignore[arg-type]
    with pytest.raises(
        SerializationError, match="the key serializer returned headers that cannot be sent"
    ) as caught:
        await producer.send("one", b"v", key=b"k")
    assert caught.value.part == "key"
    assert isinstance(caught.value.cause, RecordError)


@pytest.mark.parametrize("raw", [Encoded(b"v", [("h", b"1")]), (b"v", None), (b"v",), ()])
async def test_only_a_serializer_can_give_it(raw: Any, make: Make, kafka: EmbeddedKafka) -> None:
    """As a value or key without a serializer it is no bytes, even where the other part has a serializer."""
    plain = await warm(make(kafka), "one")
    with_key = await warm(make(kafka, key_serializer=lambda data: data), "one")
    with_value = await warm(make(kafka, value_serializer=lambda data: data), "one")
    for producer, record in (
        (plain, {"value": raw}),
        (plain, {"value": b"v", "key": raw}),
        (with_key, {"value": raw, "key": b"k"}),
        (with_value, {"value": b"v", "key": raw}),
    ):
        for topic in ("one", "new"):
            with pytest.raises(SerializationError, match="must be bytes-like or None"):
                await producer.send(topic, **record)
    await sound(with_key)
    assert kafka.records("one") == []
