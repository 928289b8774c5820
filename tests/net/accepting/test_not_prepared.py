"""Serializers that have to learn something first: `NotPrepared`, `prepare()` and the records that wait for it."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import weakref
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import attrs
import pytest

from aioproducer import (
    BufferFullError,
    DeliveryTimeoutError,
    MetadataTimeoutError,
    Outcome,
    Producer,
    Record,
    SerializationError,
    StateError,
)
from aioproducer.serializers import NotPrepared
from aioproducer.testing import EmbeddedKafka
from tests.net.support import LIMIT, Make, engine, turns, until, warm
from tests.net.transactional import MovableClock
from tests.runtime.support import sound


@attrs.define(eq=False)
class Learning:
    """Serializes texts whose first letter it has learned, for each topic; `prepare` learns the letter of its data."""

    gate: asyncio.Event = attrs.Factory(asyncio.Event)
    known: set[tuple[str, str]] = attrs.Factory(set)
    prepared: list[tuple[str, str]] = attrs.Factory(list)
    asked: Counter[str] = attrs.Factory(Counter)
    running: int = 0
    most_running: int = 0
    errors: dict[str, BaseException] = attrs.Factory(dict)
    forgetful: bool = False

    def serialize(self, topic: str, headers: Any, data: str) -> bytes:
        self.asked[data] += 1
        if (topic, data[0]) not in self.known:
            raise NotPrepared(data[0])
        return data.encode()

    async def prepare(self, topic: str, headers: Any, data: str) -> None:
        self.prepared.append((topic, data))
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            await self.gate.wait()
            if data in self.errors:
                raise self.errors[data]
            if not self.forgetful:
                self.known.add((topic, data[0]))
        finally:
            self.running -= 1


class LearningLater(Learning):
    """The same, with a coroutine function as `serialize`, which suspends now and then."""

    async def serialize(self, topic: str, headers: Any, data: str) -> bytes:  # type: ignore[override]
        if len(data) % 2:
            await asyncio.sleep(0)
        return Learning.serialize(self, topic, headers, data)


@pytest.fixture(params=[Learning, LearningLater], ids=["function", "coroutine function"])
async def learning(request: pytest.FixtureRequest) -> Learning:
    """A serializer that has learned nothing yet, and learns when its gate is opened."""
    made: Learning = request.param()
    return made


@pytest.fixture
async def open_learning(learning: Learning) -> Learning:
    """The same, which learns at once."""
    learning.gate.set()
    return learning


def written(kafka: EmbeddedKafka, topic: str = "one") -> list[str]:
    """The values, in the order of the log."""
    return [(record.value or b"").decode() for record in kafka.records(topic)]


async def preparing(learning: Learning, count: int = 1) -> None:
    """Wait until this many preparations are in progress."""
    await until(lambda: learning.running == count)


# -- calls that wait for a preparation


@pytest.mark.parametrize("topic", ["one", "new"], ids=["known topic", "unknown topic"])
async def test_one_preparation_for_all_that_wait(
    topic: str, learning: Learning, make: Make, kafka: EmbeddedKafka
) -> None:
    """With any number of waiting calls `prepare` runs once; their records are written in the order of the calls."""
    producer = await warm(make(kafka, value_serializer=learning), "one")
    texts = [f"a{number}" for number in range(50)]
    calls = [asyncio.ensure_future(producer.send_and_wait(topic, text)) for text in texts]
    await preparing(learning)
    later = [asyncio.ensure_future(producer.send_and_wait(topic, f"a-later{number}")) for number in range(3)]
    await turns(5)
    assert not any(call.done() for call in calls)
    learning.gate.set()
    await asyncio.gather(*calls, *later)
    assert learning.prepared == [(topic, "a0")]
    assert written(kafka, topic) == [*texts, "a-later0", "a-later1", "a-later2"]
    await sound_with(producer, learning)


async def sound_with(producer: Producer[Any, Any], learning: Learning) -> None:
    """The producer works and holds nothing, and no preparation is in progress."""
    learning.gate.set()
    learning.known.add(("sound", "s"))
    learning.known.add(("sound", "b"))
    metadata = await producer.send_and_wait("sound", "sound")
    assert metadata.offset >= 0
    await producer.flush()
    await turns(3)
    assert (producer.stats().waiting_calls, producer.stats().records_buffered, learning.running) == (0, 0, 0)


async def test_what_is_known_is_serialized_in_the_call(make: Make, kafka: EmbeddedKafka) -> None:
    """After the preparation the call is accepted at once, and the serializer is called once for each record."""
    learning = Learning()
    learning.gate.set()
    producer = await warm(make(kafka, value_serializer=learning), "one")
    await producer.send_and_wait("one", "a")
    before = len(asyncio.all_tasks())
    sending = producer.send("one", "ab")
    assert sending.delivery is not None
    assert len(asyncio.all_tasks()) == before
    await sending
    assert learning.asked == {"a": 2, "ab": 1}


async def test_several_things_are_learned_one_after_the_other(
    open_learning: Learning, make: Make, kafka: EmbeddedKafka
) -> None:
    """Records that need different things: one preparation for each, never two at a time, and the order is kept."""
    producer = await warm(make(kafka, value_serializer=open_learning), "one")
    texts = [f"{letter}{number}" for number in range(10) for letter in "abc"]
    await asyncio.gather(*(producer.send_and_wait("one", text) for text in texts))
    assert sorted(text[0] for _, text in open_learning.prepared) == ["a", "b", "c"]
    assert open_learning.most_running == 1
    assert written(kafka) == texts


async def test_a_record_that_is_known_waits_for_those_before_it(
    learning: Learning, make: Make, kafka: EmbeddedKafka
) -> None:
    """The order of a topic is kept; other topics are not held up."""
    learning.known |= {("one", "k"), ("four", "k")}
    producer = await warm(make(kafka, value_serializer=learning), "one", "four")
    first = asyncio.ensure_future(producer.send_and_wait("one", "a"))
    second = asyncio.ensure_future(producer.send_and_wait("one", "k"))
    await producer.send_and_wait("four", "k")
    await preparing(learning)
    other = asyncio.ensure_future(producer.send_and_wait("four", "a"))
    await preparing(learning, 2)
    assert not first.done()
    assert not second.done()
    learning.gate.set()
    await asyncio.gather(first, second, other)
    assert written(kafka) == ["a", "k"]


async def test_keys_and_values_are_prepared_alike(make: Make, kafka: EmbeddedKafka) -> None:
    """Each part has its own preparations; a serialized part is not serialized again."""
    keys, values = Learning(), LearningLater()
    producer = await warm(make(kafka, key_serializer=keys, value_serializer=values), "one")
    calls = [asyncio.ensure_future(producer.send_and_wait("one", "v", key="k")) for _ in range(3)]
    await preparing(keys)
    keys.gate.set()
    values.gate.set()
    await asyncio.gather(*calls)
    assert (keys.prepared, values.prepared) == ([("one", "k")], [("one", "v")])
    known_key = Learning(known={("one", "k")})
    second = await warm(
        make(kafka, key_serializer=known_key, value_serializer=Learning(gate=values.gate)), "one"
    )
    await second.send_and_wait("one", "v", key="k")
    assert known_key.asked["k"] == 1
    assert [(record.key, record.value) for record in kafka.records("one")] == [(b"k", b"v")] * 4


# -- failures


async def test_not_prepared_after_its_preparation_is_an_error(
    open_learning: Learning, make: Make, kafka: EmbeddedKafka
) -> None:
    """Each record whose preparation fails is refused, NOT_WRITTEN, and delays no other."""
    open_learning.forgetful = True
    open_learning.known.add(("one", "k"))
    producer = await warm(make(kafka, value_serializer=open_learning), "one")
    results = await asyncio.gather(
        *(producer.send("one", text) for text in ("a", "k", "b")), return_exceptions=True
    )
    for at in (0, 2):
        error = results[at]
        assert isinstance(error, SerializationError)
        assert "the value serializer raised NotPrepared again after prepare()" in str(error)
        assert (error.part, error.topic, error.retriable, error.outcome) == (
            "value",
            "one",
            False,
            Outcome.NOT_WRITTEN,
        )
        assert isinstance(error.cause, NotPrepared)
    assert open_learning.prepared == [("one", "a"), ("one", "b")]
    await producer.flush()
    assert written(kafka) == ["k"]


async def test_not_prepared_without_prepare(make: Make, kafka: EmbeddedKafka) -> None:
    """A function, and an object without `prepare`: the record is refused, and the text has that reason."""

    def function(_: Any) -> bytes:
        raise NotPrepared

    @attrs.define
    class Without:
        prepare: Any = None

        def serialize(self, topic: str, headers: Any, data: Any) -> bytes:
            raise NotPrepared

    for serializer in (function, Without(), Without(prepare="nothing to call")):
        producer = await warm(make(kafka, value_serializer=serializer), "one")
        for send in (producer.send, producer.send_nowait):
            with pytest.raises(SerializationError, match="raised NotPrepared and has no prepare") as caught:
                await send("one", "a")
            assert not caught.value.retriable


class Own(BaseException):
    """An exception that is no subclass of Exception."""


@pytest.mark.parametrize(
    ("error", "retriable"),
    [
        (ZeroDivisionError("no schema"), False),
        (BufferFullError("the registry is busy"), True),
        (StateError("the registry is closed"), False),
        (asyncio.CancelledError(), False),
        (NotPrepared(), False),
        (Own(), False),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_a_preparation_that_fails(
    error: BaseException, retriable: bool, learning: Learning, make: Make, kafka: EmbeddedKafka
) -> None:
    """It refuses its own record only, which is as retriable as the cause; the next record has its own preparation."""
    learning.errors["a1"] = error
    producer = await warm(make(kafka, value_serializer=learning), "one")
    calls = [asyncio.ensure_future(producer.send_and_wait("one", text)) for text in ("a1", "a2", "a3")]
    await preparing(learning)
    learning.gate.set()
    first, *others = await asyncio.gather(*calls, return_exceptions=True)
    assert isinstance(first, SerializationError)
    what = "was cancelled" if isinstance(error, asyncio.CancelledError) else "failed"
    assert f"prepare() of the value serializer {what}" in str(first)
    assert isinstance(first.cause, type(error))
    assert (first.retriable, first.topic, first.part, first.outcome) == (
        retriable,
        "one",
        "value",
        Outcome.NOT_WRITTEN,
    )
    assert not any(isinstance(other, BaseException) for other in others)
    assert [text for _, text in learning.prepared] == ["a1", "a2"]
    assert written(kafka) == ["a2", "a3"]
    await sound_with(producer, learning)


async def test_many_preparations_that_fail(learning: Learning, make: Make, kafka: EmbeddedKafka) -> None:
    """After a failure, serializers that would raise again are not called again: the work does not grow with the square."""
    count = 100
    learning.errors = {f"a{number:04}": ZeroDivisionError() for number in range(count)}
    producer = await warm(make(kafka, value_serializer=learning), "one")
    calls = [asyncio.ensure_future(producer.send("one", text)) for text in learning.errors]
    await preparing(learning)
    learning.gate.set()
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert {type(result) for result in results} == {SerializationError}
    assert learning.asked.total() == count
    assert len(learning.prepared) == count


# -- calls that go away


@pytest.mark.parametrize("raises", [False, True])
async def test_a_serializer_that_knows_why_it_is_late(make: Make, kafka: EmbeddedKafka, raises: bool) -> None:
    """Its reason is the cause of the refusal; one that fails to tell is as one that tells nothing."""

    class Late(Learning):
        def trouble_of_prepare(self, topic: str) -> BaseException:
            if raises:
                raise Own
            return DeliveryTimeoutError(topic, retriable=False)

    late = Late()
    producer = await warm(make(kafka, value_serializer=late), "one")
    with pytest.raises(BufferFullError if raises else SerializationError) as caught:
        await producer.send("one", "a1", max_block=0.02)
    if not raises:
        assert isinstance(caught.value.cause, DeliveryTimeoutError)
        assert not caught.value.retriable
    await sound_with(producer, late)


async def test_max_block_ends_a_call_and_not_its_preparation(
    learning: Learning, make: Make, kafka: EmbeddedKafka
) -> None:
    """The preparation continues, other calls that wait for it are served, and the next call uses its result."""
    producer = await warm(make(kafka, value_serializer=learning), "one")
    patient = asyncio.ensure_future(producer.send_and_wait("one", "a0", max_block=LIMIT))
    await preparing(learning)
    with pytest.raises(BufferFullError, match="the serializer did not finish in time"):
        await producer.send("one", "a1", max_block=0.02)
    patient.cancel()
    with pytest.raises(BufferFullError, match="the serializer did not finish in time"):
        await producer.send("one", "a2", max_block=0.02)
    last = asyncio.ensure_future(producer.send_and_wait("one", "a3", max_block=LIMIT))
    await turns(5)
    learning.gate.set()
    await last
    assert learning.prepared == [("one", "a0")]
    assert written(kafka) == ["a3"]
    await sound_with(producer, learning)


async def test_a_call_that_is_cancelled_stops_nothing_for_others(
    learning: Learning, make: Make, kafka: EmbeddedKafka
) -> None:
    """Its record is not written; the preparation that it began serves the calls behind it."""
    producer = await warm(make(kafka, value_serializer=learning), "one")
    calls = [asyncio.ensure_future(producer.send_and_wait("one", f"a{number}")) for number in range(4)]
    await preparing(learning)
    calls[0].cancel()
    calls[2].cancel()
    await turns(5)
    assert learning.running == 1
    learning.gate.set()
    await asyncio.gather(*calls, return_exceptions=True)
    assert learning.prepared == [("one", "a0")]
    assert written(kafka) == ["a1", "a3"]


class Text(str):
    """A text that can be referred to weakly."""

    __slots__ = ("__weakref__",)


async def test_a_preparation_that_goes_on_keeps_nothing_of_others(
    learning: Learning, make: Make, kafka: EmbeddedKafka
) -> None:
    """The data of calls that ended meanwhile is free at once, except for the record that began the preparation."""
    producer = await warm(make(kafka, value_serializer=learning), "one")
    texts = [Text(f"a{number}") for number in range(5)]
    calls = [asyncio.ensure_future(producer.send("one", text)) for text in texts]
    await preparing(learning)
    found = [weakref.ref(text) for text in texts]
    for call in calls[:4]:
        call.cancel()
    await asyncio.gather(*calls[:4], return_exceptions=True)
    await turns(5)
    texts.clear()
    learning.asked.clear()
    del calls[:4]
    gc.collect()
    assert [text() is not None for text in found] == [True, False, False, False, True]
    learning.gate.set()
    await (await calls[0])
    assert written(kafka) == ["a4"]


async def test_a_preparation_that_hangs_is_given_up(
    loop_clock: MovableClock, learning: Learning, make: Make, kafka: EmbeddedKafka
) -> None:
    """It ends after the longer of `max_block_ms` and `request_timeout_ms`, and the next record begins another."""
    producer = await warm(
        make(kafka, value_serializer=learning, max_block_ms=50_000, request_timeout_ms=20_000), "one"
    )
    hung = asyncio.ensure_future(producer.send("one", "a0"))
    await preparing(learning)
    loop_clock.skip(50.1)
    with pytest.raises((BufferFullError, SerializationError)) as caught:
        await hung
    assert caught.value.retriable
    await preparing(learning, 0)
    learning.gate.set()
    await producer.send_and_wait("one", "a1")
    assert [text for _, text in learning.prepared] == ["a0", "a1"]
    assert written(kafka) == ["a1"]


async def test_a_longer_max_block_has_a_longer_preparation(
    loop_clock: MovableClock, learning: Learning, make: Make, kafka: EmbeddedKafka
) -> None:
    """The limit of the call applies where it is longer than the producer's."""
    producer = await warm(
        make(kafka, value_serializer=learning, max_block_ms=1000, request_timeout_ms=1000), "one"
    )
    waiting = asyncio.ensure_future(producer.send_and_wait("one", "a", max_block=100))
    await preparing(learning)
    loop_clock.skip(90)
    await turns(10)
    assert learning.running == 1
    learning.gate.set()
    await waiting


async def test_a_preparation_that_ignores_its_cancellation(
    make: Make, kafka: EmbeddedKafka, caplog: pytest.LogCaptureFixture
) -> None:
    """The next record begins another one in parallel, and close() does not wait for it."""
    let_go = asyncio.Event()

    class Deaf(Learning):
        async def prepare(self, topic: str, headers: Any, data: str) -> None:
            while data == "a0" and not let_go.is_set():
                with contextlib.suppress(asyncio.CancelledError):
                    await let_go.wait()
            self.known.add((topic, "a"))

    try:
        producer = await warm(
            make(kafka, value_serializer=Deaf(), max_block_ms=30, request_timeout_ms=30), "one"
        )
        with pytest.raises(BufferFullError):
            await producer.send("one", "a0")
        await producer.send_and_wait("one", "a1", max_block=LIMIT)
        await asyncio.wait_for(producer.close(timeout=0.1), LIMIT)
        supervisor = engine(producer).supervisor.task
        assert supervisor is not None
        await asyncio.wait_for(asyncio.shield(supervisor), LIMIT)
        assert "ignore their cancellation" in caplog.text
    finally:
        let_go.set()
        await turns(5)


async def test_close_during_a_preparation(learning: Learning, make: Make, kafka: EmbeddedKafka) -> None:
    """The calls that wait are refused, and the preparation is cancelled."""
    producer = await warm(make(kafka, value_serializer=learning), "one")
    calls = [asyncio.ensure_future(producer.send("one", text)) for text in ("a0", "a1")]
    many = asyncio.ensure_future(producer.send_batch("one", ["a2", "b3"]))
    await preparing(learning)
    await producer.close()
    assert learning.running == 0
    for call in calls:
        with pytest.raises(StateError):
            await call
    assert (await (await many)).not_written == 2
    assert written(kafka) == []


# -- all ways to send


async def test_send_nowait_prepares_behind(make: Make, kafka: EmbeddedKafka) -> None:
    """It raises a retriable error, prepares once, and is accepted as soon as the serializer is prepared."""
    learning = Learning()
    producer = await warm(make(kafka, value_serializer=learning), "one")
    for topic in ("one", "one", "new"):
        with pytest.raises(SerializationError, match="raised NotPrepared and is being prepared") as caught:
            producer.send_nowait(topic, "a0")
        assert caught.value.retriable
        assert isinstance(caught.value.cause, NotPrepared)
    await preparing(learning, 2)
    learning.gate.set()
    await preparing(learning, 0)
    await turns(3)
    await producer.send_nowait("one", "a1")
    await producer.send_nowait("new", "a1")
    assert learning.prepared == [("one", "a0"), ("new", "a0")]
    assert (written(kafka), written(kafka, "new")) == (["a1"], ["a1"])


async def test_send_nowait_that_comes_too_early_fails_no_transaction(
    make: Make, kafka: EmbeddedKafka
) -> None:
    """The record may be sent again, in the same transaction; a serializer without `prepare` fails it."""
    learning = Learning()
    learning.gate.set()
    producer = await warm(make(kafka, value_serializer=learning, transactional_id="orders"), "one")
    await producer.init_transactions()
    async with producer.transaction():
        with pytest.raises(SerializationError):
            producer.send_nowait("one", "a")
        await until(lambda: learning.known)
        producer.send_nowait("one", "a")
    assert written(kafka) == ["a"]


async def test_send_batch(open_learning: Learning, make: Make, kafka: EmbeddedKafka) -> None:
    """Its records are prepared in their order; one that fails is an entry of `errors`."""
    open_learning.errors["x2"] = ZeroDivisionError()
    producer = await warm(make(kafka, value_serializer=open_learning), "one")
    for topic in ("one", "new"):
        texts = ["a0", "b1", "x2", "a3"]
        result = await (await producer.send_batch(topic, texts))
        assert (result.acked, list(result.errors)) == (3, [2])
        assert isinstance(result.errors[2], SerializationError)
        assert written(kafka, topic) == ["a0", "b1", "a3"]
        assert [text for name, text in open_learning.prepared if name == topic] == ["a0", "b1", "x2"]
    await sound_with(producer, open_learning)


async def test_a_bulk_send_among_single_ones(learning: Learning, make: Make, kafka: EmbeddedKafka) -> None:
    """The order is that of the calls."""
    producer = await warm(make(kafka, value_serializer=learning), "one")
    calls: list[Awaitable[Any]] = [
        asyncio.ensure_future(producer.send("one", "a0")),
        asyncio.ensure_future(producer.send_batch("one", ["b1", "a2", "b3"])),
        asyncio.ensure_future(producer.send("one", "a4")),
    ]
    await preparing(learning)
    learning.gate.set()
    for call in calls:
        await (await call)
    assert written(kafka) == ["a0", "b1", "a2", "b3", "a4"]


async def test_send_all_and_other_threads(open_learning: Learning, make: Make, kafka: EmbeddedKafka) -> None:
    """They wait for a preparation as `send()` does."""
    producer = await warm(make(kafka, value_serializer=open_learning), "one", "four")
    result = await producer.send_all(Record("one", text) for text in ("a0", "b1", "a2"))
    assert (result.acked, written(kafka)) == (3, ["a0", "b1", "a2"])
    future = await asyncio.to_thread(producer.send_threadsafe, "four", "a")
    assert (await asyncio.wrap_future(future)).topic == "four"


async def test_with_a_partitioner_and_interceptors(
    open_learning: Learning, make: Make, kafka: EmbeddedKafka
) -> None:
    """They see each record once: interceptors before it is serialized, the partitioner its bytes."""
    seen: list[Any] = []

    class Watcher:
        def on_send(self, record: Any) -> Any:
            return attrs.evolve(record, value=record.value + "!")

        def on_acknowledgement(self, metadata: Any, error: Any) -> None:
            seen.append(type(error).__name__ if error is not None else metadata.partition)

        def close(self) -> None:
            pass

    def choose(topic: str, key: Any, value: Any, *_: Any) -> int:
        seen.append(value)
        return 2

    open_learning.errors["x!"] = ZeroDivisionError()
    producer = await warm(
        make(kafka, value_serializer=open_learning, interceptors=[Watcher()], partitioner=choose), "four"
    )
    await producer.send_and_wait("four", "a")
    with pytest.raises(SerializationError):
        await producer.send("four", "x")
    await turns(3)
    assert seen == [b"a!", 2, "SerializationError"]


async def test_a_record_that_fails_otherwise_while_it_is_prepared(
    learning: Learning, make: Make, kafka: EmbeddedKafka
) -> None:
    """A wrong argument is refused at once, and nothing waits for its preparation."""
    producer = await warm(make(kafka, value_serializer=learning), "one")
    wrongs: list[dict[str, Any]] = [{"partition": -1}, {"headers": 5}, {"timestamp": "now"}]
    for wrong in wrongs:
        with pytest.raises(ValueError, match=r"partition|headers|timestamp"):
            await producer.send("one", "a", **wrong)
    assert producer.stats().waiting_calls == 0
    waiting = asyncio.ensure_future(producer.send("one", "a", partition=9, max_block=0.1))
    learning.gate.set()
    with pytest.raises(MetadataTimeoutError):
        await waiting
    await sound_with(producer, learning)


async def test_a_prepare_that_sends(make: Make, kafka: EmbeddedKafka) -> None:
    """It sends to another topic, and waits for that record."""

    class Announcing(Learning):
        async def prepare(self, topic: str, headers: Any, data: str) -> None:
            if topic == "one":
                await producer.send_and_wait("four", "announced " + data)
            self.known.add((topic, data[0]))

    producer: Producer[Any, Any] = await warm(make(kafka, value_serializer=Announcing()), "one", "four")
    await producer.send_and_wait("one", "b")
    assert (written(kafka), written(kafka, "four")) == (["b"], ["announced b"])


async def test_one_serializer_of_two_producers(
    open_learning: Learning, make: Make, kafka: EmbeddedKafka
) -> None:
    """Each producer prepares it for itself; the result of one preparation serves both."""
    first = await warm(make(kafka, value_serializer=open_learning), "one")
    second = await warm(make(kafka, value_serializer=open_learning), "one", "four")
    await asyncio.gather(first.send_and_wait("one", "a0"), second.send_and_wait("four", "a0"))
    await first.close()
    await second.send_and_wait("one", "a1")
    assert len(open_learning.prepared) == 2


async def test_a_prepare_that_is_no_coroutine_function(make: Make, kafka: EmbeddedKafka) -> None:
    """Its result is awaited if it is awaitable."""

    class Plain(Learning):
        def prepare(self, topic: str, headers: Any, data: str) -> None:  # type: ignore[override]
            self.known.add((topic, data[0]))

    producer = await warm(make(kafka, value_serializer=Plain()), "one")
    await producer.send_and_wait("one", "a")
    await sound(await warm(make(kafka)))


WAYS: dict[str, Callable[[Producer[Any, Any]], Any]] = {
    "send": lambda producer: producer.send("one", "a0"),
    "send_and_wait": lambda producer: producer.send_and_wait("one", "a0"),
    "send_batch": lambda producer: producer.send_batch("one", ["a0"]),
}


@pytest.mark.parametrize("name", WAYS)
async def test_a_call_that_is_dropped_before_its_task_has_begun(
    name: str, learning: Learning, make: Make, kafka: EmbeddedKafka
) -> None:
    """It is withdrawn in the call that began to wait: the record is not written, and nothing is left behind."""
    producer = await warm(make(kafka, value_serializer=learning), "one")
    sending = WAYS[name](producer)
    sending.send(None)
    sending.close()
    assert producer.stats().waiting_calls == 0
    await turns(5)
    learning.gate.set()
    await sound_with(producer, learning)
    assert written(kafka) == []
