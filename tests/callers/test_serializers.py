"""Coroutine serializers and records that fail while they are read: each ends its own record, and no task of the producer."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterator
from typing import Any

import attrs
import pytest

from aioproducer import (
    BufferFullError,
    MetadataTimeoutError,
    Outcome,
    Producer,
    Record,
    RecordError,
    SerializationError,
    StateError,
)
from aioproducer._net.runtime.serializer_tasks import GRACE, MOST_UNCANCELLED
from aioproducer.testing import EmbeddedKafka
from tests.net.support import LIMIT, Make, memory_in_use, turns, until, warm
from tests.runtime.support import sound


class Own(BaseException):
    """Neither an Exception nor a way to end a program."""


def released() -> memoryview:
    """A view that cannot be read any more."""
    view = memoryview(b"gone")
    view.release()
    return view


class Deed:
    """A value whose serializer does something."""

    def __init__(self, deed: Callable[[], Any]) -> None:
        self.deed = deed


async def obeying(value: Any) -> Any:
    """A coroutine serializer that does what its value says."""
    await asyncio.sleep(0)
    return value.deed() if isinstance(value, Deed) else value


def raising(error: BaseException) -> Callable[[], Any]:
    """A function that raises it."""

    def raises() -> Any:
        raise error

    return raises


def half_of_a_header() -> Iterator[tuple[str, bytes]]:
    """Headers that raise in the middle."""
    yield "a", b"1"
    raise ZeroDivisionError


class BadIndex:
    """A number that raises when it is asked for."""

    def __index__(self) -> int:
        raise Own


BAD_RECORDS: dict[str, Callable[[], dict[str, Any]]] = {
    "a released view as result": lambda: {"value": Deed(released)},
    "a released key": lambda: {"key": released()},
    "headers that raise": lambda: {"headers": half_of_a_header()},
    "a header that was released": lambda: {"headers": [("h", released())]},
    "a partition that raises": lambda: {"partition": BadIndex()},
    "a time that raises": lambda: {"timestamp": BadIndex()},
    "an exception": lambda: {"value": Deed(raising(ZeroDivisionError()))},
    "its own class of exceptions": lambda: {"value": Deed(raising(Own()))},
    "GeneratorExit": lambda: {"value": Deed(raising(GeneratorExit()))},
    "StopAsyncIteration": lambda: {"value": Deed(raising(StopAsyncIteration()))},
    "a cancellation": lambda: {"value": Deed(raising(asyncio.CancelledError()))},
    "a group": lambda: {"value": Deed(raising(BaseExceptionGroup("two", [Own(), ValueError()])))},
    "an error that says UNKNOWN": lambda: {
        "value": Deed(raising(RecordError("a lie", outcome=Outcome.UNKNOWN)))
    },
}


@pytest.fixture
async def producer(make: Make, kafka: EmbeddedKafka) -> Producer[Any, Any]:
    """A running producer with a coroutine serializer."""
    return await warm(make(kafka, value_serializer=obeying), "one")


@pytest.mark.parametrize("topic", ["one", "new"], ids=["known topic", "unknown topic"])
@pytest.mark.parametrize("name", BAD_RECORDS)
async def test_a_bad_record_ends_alone(
    name: str, topic: str, producer: Producer[Any, Any], kafka: EmbeddedKafka
) -> None:
    """It is a RecordError with NOT_WRITTEN; the records before and behind it are written, in their order."""

    async def send(record: dict[str, Any]) -> Any:
        return await (await producer.send(topic, **record))

    bad = {"value": b"bad", **BAD_RECORDS[name]()}

    async with asyncio.timeout(LIMIT):
        results = await asyncio.gather(
            send({"value": b"0"}), send(bad), send({"value": b"2"}), return_exceptions=True
        )
    assert isinstance(results[1], RecordError)
    assert results[1].outcome is Outcome.NOT_WRITTEN
    await sound(producer)
    assert [record.value for record in kafka.records(topic)] == [b"0", b"2"]


@pytest.mark.parametrize("name", BAD_RECORDS)
async def test_a_bad_record_among_many(name: str, producer: Producer[Any, Any], kafka: EmbeddedKafka) -> None:
    """In `send_batch` it is an entry of `errors`, and all others are written."""
    bad = {"value": b"1", **BAD_RECORDS[name]()}

    def column(part: str, rest: Any) -> list[Any]:
        return [rest, bad.get(part, rest), rest]

    async with asyncio.timeout(LIMIT):
        result = await (
            await producer.send_batch(
                "one",
                [b"0", bad["value"], b"2"],
                keys=column("key", None),
                partition=column("partition", None),
                timestamps=column("timestamp", None),
                headers=column("headers", ()),
            )
        )
    assert list(result.errors) == [1]
    assert isinstance(result.errors[1], RecordError)
    assert result.errors[1].outcome is Outcome.NOT_WRITTEN
    assert [record.value for record in kafka.records("one")] == [b"0", b"2"]
    await sound(producer)


async def test_a_bad_record_fails_its_transaction_only(make: Make, kafka: EmbeddedKafka) -> None:
    """The transaction aborts, as with every record that is refused; the next one is committed."""
    producer = await warm(make(kafka, value_serializer=obeying, transactional_id="orders"), "one")
    await producer.init_transactions()
    await producer.begin_transaction()
    with pytest.raises(RecordError):
        await producer.send("one", Deed(released))
    await producer.abort_transaction()
    async with producer.transaction():
        await producer.send("one", b"good")
    assert [record.value for record in kafka.records("one", isolation="read_committed")] == [b"good"]


async def test_a_caller_that_changes_what_it_gave(producer: Producer[Any, Any], kafka: EmbeddedKafka) -> None:
    """Parts that no serializer makes (a key, headers, an array of bytes) have the values of the time of the call."""
    key, headers, header = bytearray(b"key"), [("h", bytearray(b"header"))], {"d": b"dict"}
    sendings = [
        asyncio.ensure_future(producer.send("one", b"v", key=key, headers=headers)),
        asyncio.ensure_future(producer.send("one", b"v", headers=header)),
    ]
    await turns(1)
    many = producer.send_batch("one", [b"v"], keys=[key], headers=header)
    key[:] = b"XXX"
    headers[0][1][:] = b"XXXXXX"
    headers.append(("more", bytearray()))
    header["later"] = b""
    for sending in sendings:
        await (await sending)
    await (await many)
    assert [(record.key, record.headers) for record in kafka.records("one")] == [
        (b"key", (("h", b"header"),)),
        (None, (("d", b"dict"),)),
        (b"key", (("d", b"dict"),)),
    ]


# -- those that hang


@attrs.define
class Hanging:
    """A coroutine serializer that waits without end for values that are not bytes, and counts these waits."""

    deaf: bool = False
    running: int = 0
    let_go: asyncio.Event = attrs.Factory(asyncio.Event)

    async def __call__(self, value: Any) -> Any:
        if isinstance(value, bytes):
            return value
        self.running += 1
        try:
            while not self.let_go.is_set():
                try:
                    await self.let_go.wait()
                except asyncio.CancelledError:
                    if not self.deaf:
                        raise
            return b"late"
        finally:
            self.running -= 1


class Held:
    """A value that can be told to be alive."""


def alive(kind: type) -> int:
    """How many objects of it there are."""
    gc.collect()
    return sum(type(thing) is kind for thing in gc.get_objects())


@pytest.fixture
def deaf() -> Iterator[Hanging]:
    """A serializer that ignores its cancellation until the test is over, however it ends."""
    hanging = Hanging(deaf=True)
    yield hanging
    hanging.let_go.set()


@pytest.mark.parametrize("topic", ["one", "new"], ids=["known topic", "unknown topic"])
async def test_max_block_ends_the_serializer_too(topic: str, make: Make, kafka: EmbeddedKafka) -> None:
    """A hundred sends that ran out of `max_block` leave no task and none of their values behind."""
    hanging = Hanging()
    producer = await warm(make(kafka, value_serializer=hanging), "one")
    calls = [producer.send(topic, Held(), max_block=0.05) for _ in range(100)]
    many = producer.send_batch(topic, [Held(), b"never"], timeout=0.05)
    await until(lambda: hanging.running == 101)
    for error in await asyncio.gather(*calls, return_exceptions=True):
        assert isinstance(error, BufferFullError)
        assert "the serializer did not finish in time" in str(error)
    result = await (await many)
    assert result.not_written == 2
    await until(lambda: hanging.running == 0)
    del calls, many, result, error
    assert alive(Held) == 0
    await sound(producer)
    assert topic == "new" or kafka.records(topic) == []


async def test_a_call_that_is_cancelled_ends_its_serializer(make: Make, kafka: EmbeddedKafka) -> None:
    """So does one whose caller goes away, and one that remains when the producer is closed."""
    hanging = Hanging()
    producer = await warm(make(kafka, value_serializer=hanging), "one")
    sending = asyncio.ensure_future(producer.send("one", Held()))
    many = asyncio.ensure_future(producer.send_batch("one", [Held(), Held()]))
    await until(lambda: hanging.running == 2)
    sending.cancel()
    many.cancel()
    await until(lambda: hanging.running == 0)
    await sound(producer)
    left = asyncio.ensure_future(producer.send("one", Held()))
    await until(lambda: hanging.running == 1)
    await producer.close()
    with pytest.raises(StateError):
        await left
    assert hanging.running == 0


async def test_serializers_that_ignore_their_cancellation_are_bounded(
    deaf: Hanging, make: Make, kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`max_block` ends each call; when too many serializers go on all the same, the next call is refused at once."""
    producer = await warm(make(kafka, value_serializer=deaf), "one")
    loop = asyncio.get_running_loop()
    refused = await asyncio.gather(
        *(producer.send("one", Held(), max_block=0.02) for _ in range(MOST_UNCANCELLED)),
        return_exceptions=True,
    )
    assert {type(error) for error in refused} == {BufferFullError}
    assert deaf.running == MOST_UNCANCELLED
    # A moment after their cancellation nothing is said yet: they may be cleaning up.
    await producer.send_and_wait("one", b"at once")
    now = loop.time
    monkeypatch.setattr(loop, "time", lambda: now() + GRACE)
    for way in (lambda: producer.send("one", b"v"), lambda: producer.send_batch("one", [b"v"])):
        with pytest.raises(BufferFullError, match=f"{MOST_UNCANCELLED} coroutine serializers go on"):
            await way()
    assert deaf.running == MOST_UNCANCELLED
    deaf.let_go.set()
    await until(lambda: deaf.running == 0)
    await turns()
    await producer.send_and_wait("one", b"later")
    assert [record.value for record in kafka.records("one")] == [b"at once", b"later"]


async def test_close_does_not_wait_for_a_deaf_serializer(
    deaf: Hanging, make: Make, kafka: EmbeddedKafka, caplog: pytest.LogCaptureFixture
) -> None:
    """close() ends in its time, the producer's own tasks soon after it, and the log says what goes on."""
    producer = await warm(make(kafka, value_serializer=deaf), "one")
    sending = asyncio.ensure_future(producer.send("one", Held()))
    await until(lambda: deaf.running == 1)
    await asyncio.wait_for(producer.close(timeout=0.1), LIMIT)
    with pytest.raises(StateError):
        await sending
    assert producer._engine is not None
    assert producer._engine.supervisor.task is not None
    await asyncio.wait_for(asyncio.shield(producer._engine.supervisor.task), GRACE + LIMIT)
    assert "1 coroutine serializers ignore their cancellation" in caplog.text
    assert deaf.running == 1
    deaf.let_go.set()
    await until(lambda: deaf.running == 0)


# -- in the caller's own call


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError])
async def test_what_ends_more_than_a_record_goes_on_to_the_caller(
    kind: type[BaseException], make: Make, kafka: EmbeddedKafka
) -> None:
    """Raised by a serializer in the caller's own call, it comes out of that call; nothing is accepted."""
    producer = await warm(
        make(kafka, value_serializer=lambda value: value.deed() if isinstance(value, Deed) else value), "one"
    )
    bad = Deed(raising(kind()))
    for way in (
        lambda: producer.send("one", bad),
        lambda: producer.send("new", bad),
        lambda: producer.send_nowait("one", bad),
        lambda: producer.send_batch("one", [b"v", bad]),
    ):
        with pytest.raises(kind):
            way()
    await sound(producer)
    assert kafka.records("one") == []


async def test_any_other_class_is_the_refusal_of_the_record(make: Make, kafka: EmbeddedKafka) -> None:
    """With serializers that answer at once, from partitioners and from interceptors."""

    def own(*_: Any) -> Any:
        raise Own

    @attrs.define
    class Interceptor:
        on_send = on_acknowledgement = own

        def close(self) -> None:
            own()

    serializing = await warm(make(kafka, value_serializer=own), "one")
    partitioning = await warm(make(kafka, partitioner=own), "one")
    for producer in (serializing, partitioning):
        for topic in ("one", "new"):
            with pytest.raises(RecordError) as caught:
                await producer.send(topic, b"v")
            assert isinstance(caught.value.cause, Own)
            result = await (await producer.send_batch(topic, [b"v"] * 3))
            assert sorted(result.errors) == [0, 1, 2]
    assert kafka.records("one") == kafka.records("new") == []
    # An interceptor that fails is only logged.
    intercepted = await warm(make(kafka, interceptors=[Interceptor()]), "one")
    await intercepted.send_and_wait("one", b"v")
    with pytest.raises(RecordError):
        await intercepted.send("one", 5)
    with pytest.raises(MetadataTimeoutError):
        await intercepted.send("one", b"v", partition=77, max_block=0.03)
    await sound(intercepted)


# -- code of the user's that calls back


async def test_a_partitioner_that_sends(make: Make, kafka: EmbeddedKafka) -> None:
    """A record whose partitioner sends another one is written once, and so is the other."""
    again: list[Any] = []

    def sends(topic: str, key: bytes | None, value: bytes | None, *_: Any) -> int:
        if value == b"outer" and not again:
            again.append(asyncio.ensure_future(sender.send(topic, b"inner")))
            again.append(sender.send(topic, b"inner too"))
        return 0

    sender: Producer[Any, Any] = await warm(make(kafka, partitioner=sends), "one")
    for topic in ("one", "new"):
        again.clear()
        await (await sender.send(topic, b"outer"))
        for sending in again:
            await (await sending)
        assert sorted(record.value or b"" for record in kafka.records(topic)) == [
            b"inner",
            b"inner too",
            b"outer",
        ]
    await sound(sender)


async def test_a_partitioner_that_withdraws_its_own_record(make: Make, kafka: EmbeddedKafka) -> None:
    """A record that is withdrawn while its partition is chosen is not written: single records, queued ones, and many."""
    deeds: dict[bytes, Callable[[], object]] = {}

    def partitioner(topic: str, key: bytes | None, value: bytes | None, *_: Any) -> int:
        deeds.pop(value or b"", lambda: None)()
        return 0

    producer = await warm(make(kafka, partitioner=partitioner), "one")
    sending = producer.send("late", b"single")
    sending.__await__()
    step = sending.send(None)
    assert step is not None
    queued = producer.send_nowait("later", b"queued")
    many = producer.send_batch("latest", [b"0", b"1", b"2", b"3"])
    many.send(None)
    deeds[b"single"] = sending.close
    deeds[b"queued"] = lambda: producer.purge("later")
    deeds[b"2"] = many.close
    await until(lambda: not deeds)
    assert await queued.wait(LIMIT) is Outcome.NOT_WRITTEN
    assert many.delivery is not None
    result = await many.delivery
    assert (result.acked, sorted(result.errors)) == (2, [2, 3])
    await sound(producer)
    assert [kafka.records(topic) for topic in ("late", "later")] == [[], []]
    assert [record.value for record in kafka.records("latest")] == [b"0", b"1"]
    del step


async def test_a_serializer_that_closes_the_producer(make: Make, kafka: EmbeddedKafka) -> None:
    """A record whose reading ended the producer is refused: it would wait without end."""

    def closes(value: bytes) -> bytes:
        closing = running.close(timeout=0)
        # As far as it gets without the loop: the producer has ended by then.
        closing.send(None)
        closing.close()
        return value

    ways: list[Callable[[Producer[Any, Any]], Any]] = [
        lambda producer: producer.send("one", b"v"),
        lambda producer: producer.send("one", b"v", timeout=5),
        lambda producer: producer.send_and_wait("new", b"v"),
        lambda producer: producer.send_nowait("one", b"v"),
        lambda producer: producer.send_batch("one", [b"v", b"w"]),
        lambda producer: producer.send_all([Record("one", b"v")]),
    ]
    for way in ways:
        running: Producer[Any, Any] = await warm(make(kafka, value_serializer=closes), "one")
        async with asyncio.timeout(LIMIT):
            with pytest.raises((StateError, SerializationError)):
                await way(running)
        await running.close()
        assert memory_in_use(running) == 0
