"""MockProducer stands in for a Producer: its types, errors, lifecycle, and records that are acknowledged at once."""

from __future__ import annotations

import asyncio
import logging
import pickle
import socket
import threading
from datetime import UTC, datetime
from typing import Any, assert_type

import attrs
import pytest

from aioproducer import (
    BatchReport,
    ConfigurationError,
    Delivery,
    Outcome,
    Producer,
    ProducerConfig,
    RecordMetadata,
    StateError,
)
from aioproducer.serializers import json, string
from aioproducer.testing import MockProducer
from tests.testing.accepted import values

LIMIT = 10
"""Seconds; only a broken implementation takes as long."""

# -- the same as a producer


def test_it_is_a_producer() -> None:
    """A type check accepts a mock as a producer, also at run time."""
    assert isinstance(MockProducer(), Producer)


async def publish(producer: Producer[str | None, Any], text: str) -> RecordMetadata:
    """Code under test that does not know mocks."""
    return await producer.send_and_wait("orders", text, key="alice")


async def test_fits_where_a_producer_is_annotated() -> None:
    """Code that takes a Producer accepts a mock, types included (mypy reads this file)."""
    mock = MockProducer(key_serializer=string(), value_serializer=json())
    async with mock as producer:
        assert_type(await publish(producer, "2 apples"), RecordMetadata)
        assert_type(await producer.send("orders", "1 pear", key="bob"), Delivery)
    assert values(mock) == [b'"2 apples"', b'"1 pear"']


def test_without_serializers_it_takes_bytes() -> None:
    """The type parameters are those of a Producer: bytes-like unless serializers say otherwise."""
    assert_type(
        MockProducer(), "MockProducer[bytes | bytearray | memoryview, bytes | bytearray | memoryview]"
    )
    assert MockProducer[str, str] is MockProducer


def test_construction_needs_no_loop() -> None:
    """A mock can be constructed outside a loop, also from a configuration or from properties."""
    config = ProducerConfig("localhost:9092", linger_ms=20)
    assert MockProducer.from_config(config).config is config
    assert MockProducer.from_properties({"bootstrap.servers": "localhost:9092"}).history == ()


@pytest.mark.parametrize("partitions", [0, {"orders": 0}, {"or ders": 1}, True])
def test_partitions_are_checked(partitions: Any) -> None:
    """A topic has a valid Kafka name and at least one partition."""
    with pytest.raises(ConfigurationError, match="partitions"):
        MockProducer(partitions=partitions)


# -- lifecycle


async def test_before_start_and_after_close_it_refuses() -> None:
    """Sending before start() or after close() is a StateError that names the state."""
    mock = MockProducer()
    with pytest.raises(StateError, match="not started"):
        await mock.send("orders", b"")
    await mock.start()
    await mock.close()
    with pytest.raises(StateError, match="closed"):
        await mock.send("orders", b"")
    with pytest.raises(StateError, match="closed"):
        await mock.start()


@pytest.mark.parametrize("settings", [{}, {"compression_type": "gzip"}], ids=repr)
@pytest.mark.parametrize("auto_complete", [True, False])
async def test_records_may_be_sent_while_it_starts(auto_complete: bool, settings: Any) -> None:
    """Another task may send before start() has returned, as with a producer."""
    async with asyncio.timeout(LIMIT):
        mock = MockProducer(auto_complete=auto_complete, **settings)
        start = asyncio.create_task(mock.start())
        await asyncio.sleep(0)
        deliveries = [mock.send_nowait("orders", b"%d" % number) for number in range(3)]
        await start
        await mock.wait_pending(0 if auto_complete else 3)
        mock.complete_all()
        assert [(await delivery).offset for delivery in deliveries] == [0, 1, 2]
        assert values(mock) == [b"0", b"1", b"2"]
        await mock.close()


async def test_a_question_beside_a_send(mock: MockProducer) -> None:
    """A call that waits for the partitions of a topic returns, also if a record makes the topic known meanwhile."""
    asked = asyncio.create_task(mock.partitions_for("orders", timeout=LIMIT))
    await asyncio.sleep(0)
    await mock.send("orders", b"")
    assert len(await asked) == 3


async def test_a_listener_that_sends() -> None:
    """Each batch ends within its call, and the loop still turns."""

    class Echo:
        def on_batch(self, report: BatchReport) -> None:
            mock.send_nowait("echoes", b"")

    async with MockProducer(listeners=[Echo()]) as mock:
        await mock.send("orders", b"")
        for number in range(2, 12):
            await asyncio.sleep(0)
            assert len(mock.history) <= number


async def test_another_thread_is_refused(mock: MockProducer) -> None:
    """From another thread only send_threadsafe() works."""
    with pytest.raises(StateError, match="another thread"):
        await asyncio.to_thread(mock.send_nowait, "orders", b"")
    future = await asyncio.to_thread(mock.send_threadsafe, "orders", b"1")
    assert (await asyncio.wrap_future(future)).offset == 0


async def test_without_sockets_threads_and_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mock works in an event loop whose time stands still."""
    loop = asyncio.get_running_loop()
    started = loop.time()
    monkeypatch.setattr(loop, "time", lambda: started)
    monkeypatch.setattr(socket, "socket", None)
    monkeypatch.setattr(threading.Thread, "start", None)
    async with MockProducer("kafka.invalid:9092", transactional_id="id") as mock:
        async with mock.transaction():
            await mock.send("orders", b"1")
        assert values(mock) == [b"1"]
        assert mock.committed == mock.history


async def test_ready_does_not_wait(mock: MockProducer) -> None:
    """There is no broker to wait for."""
    await mock.ready(timeout=0)
    assert mock.health().connected_brokers == 1


async def test_close_fails_at_once_what_is_left(caplog: pytest.LogCaptureFixture) -> None:
    """Without a time limit, closing does not wait for records that no test completes, and logs the loss."""
    with caplog.at_level(logging.ERROR, "aioproducer"):
        async with MockProducer(auto_complete=False) as mock:
            delivery = await mock.send("orders", b"")
    assert mock.close_report is not None
    assert mock.close_report.not_written == 1
    assert delivery.outcome is Outcome.NOT_WRITTEN
    assert "1 not written" in caplog.text


async def test_close_with_a_limit_waits_for_the_test(manual: MockProducer) -> None:
    """With a time limit, closing waits for the records that the test then completes."""
    await manual.send("orders", b"")
    closing = asyncio.create_task(manual.close(timeout=5))
    await asyncio.sleep(0)
    manual.complete_all()
    assert (await closing).delivered == 1


async def test_repr_and_pickle() -> None:
    """The repr of a mock has its state; like a producer it cannot be pickled."""
    mock = MockProducer()
    assert repr(mock) == "<MockProducer new>"
    with pytest.raises(TypeError, match="config"):
        pickle.dumps(mock)


# -- automatic completion


async def test_records_are_acknowledged_at_once(mock: MockProducer) -> None:
    """By default a record is written when send() returns."""
    delivery = await mock.send("orders", b"2 apples", key=b"alice", timestamp=7)
    assert delivery.outcome is Outcome.ACKED
    metadata = await delivery
    sizes = metadata.serialized_key_size, metadata.serialized_value_size
    assert (metadata.topic, metadata.offset, metadata.timestamp, *sizes) == ("orders", 0, 7, 5, 8)


async def test_history_has_the_bytes(mock: MockProducer) -> None:
    """The history has each record as it would be written, and is a snapshot."""
    moment = datetime(2020, 1, 1, tzinfo=UTC)
    headers = {"trace": b"1", "none": None}
    await mock.send(
        "orders", bytearray(b"v"), key=memoryview(b"k"), partition=2, headers=headers, timestamp=moment
    )
    (record,) = history = mock.history
    assert (record.topic, record.partition, record.key, record.value) == ("orders", 2, b"k", b"v")
    assert record.headers == (("trace", b"1"), ("none", None))
    assert record.timestamp == 1_577_836_800_000
    mock.clear()
    assert (len(history), mock.history, mock.written) == (1, (), ())


async def test_history_is_frozen(mock: MockProducer) -> None:
    """A test cannot change the history by accident."""
    await mock.send("orders", b"")
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        mock.history[0].value = b"other"  # type: ignore[misc]


async def test_unnamed_topics_have_one_partition(mock: MockProducer) -> None:
    """Topics come into being on the first use: with one partition, or as many as are configured."""
    assert len(await mock.partitions_for("orders")) == 3
    assert len(await mock.partitions_for("other")) == 1
    async with MockProducer(partitions=4) as wide:
        assert len(await wide.partitions_for("any")) == 4


async def test_records_without_a_key_stay_together(mock: MockProducer) -> None:
    """Records without a key go to one partition for a while, and then to the next."""
    for _ in range(10):
        await mock.send("orders", bytes(100_000))
    assert [record.partition for record in mock.history] == [0, 0, 0, 1, 1, 1, 2, 2, 2, 0]


async def test_callbacks_have_run_when_flush_returns(manual: MockProducer) -> None:
    """Callbacks run in the order of offsets, and before flush() returns."""
    seen: list[int] = []
    for _ in range(3):
        (await manual.send("orders", b"")).add_done_callback(lambda done: seen.append(done.result().offset))
    flushing = asyncio.create_task(manual.flush())
    await asyncio.sleep(0)
    manual.complete_all()
    assert (await flushing).acked == 3
    assert seen == [0, 1, 2]
