"""MockProducer with callables of the user, and with many records in one call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import attrs
import pytest

from aioproducer import (
    BufferFullError,
    DeliveryTimeoutError,
    Outcome,
    Record,
    RecordError,
    RecordMetadata,
    RecordTooLargeError,
    SerializationError,
    StateError,
)
from aioproducer.interceptors import Interceptor
from aioproducer.serializers import json, string
from aioproducer.testing import MockProducer
from tests.testing.accepted import values

# -- callables of the user


async def test_serializers_are_used() -> None:
    """The history has the serialized values; failures of serializers are SerializationErrors."""
    async with MockProducer(key_serializer=string(), value_serializer=json()) as mock:
        await mock.send("orders", {"apples": 2}, key="alice")
        with pytest.raises(SerializationError, match="key"):
            await mock.send("orders", None, key=b"bytes")  # type: ignore[arg-type]
    assert [(record.key, record.value) for record in mock.history] == [(b"alice", b'{"apples":2}')]


def gated() -> tuple[Callable[[bytes], Any], dict[bytes, asyncio.Event]]:
    """A coroutine serializer that finishes each value when its gate is opened."""
    gates: dict[bytes, asyncio.Event] = {}

    async def serialize(data: bytes) -> bytes:
        await gates.setdefault(data, asyncio.Event()).wait()
        return data

    return serialize, gates


async def test_coroutine_serializers_keep_the_order() -> None:
    """A serializer that finishes early does not let its record overtake those of earlier calls."""
    serialize, gates = gated()
    async with MockProducer(value_serializer=serialize) as mock:
        sends = [asyncio.ensure_future(mock.send("orders", data)) for data in (b"1", b"2", b"3")]
        await asyncio.sleep(0)
        sends[1].cancel()
        gates[b"3"].set()
        for _ in range(5):
            await asyncio.sleep(0)
        assert values(mock) == []
        gates[b"1"].set()
        await asyncio.gather(*sends, return_exceptions=True)
        assert values(mock) == [b"1", b"3"]


async def test_slow_serializer_is_given_up() -> None:
    """A serializer has max_block seconds, as with the real producer."""
    serialize, _ = gated()
    async with MockProducer(value_serializer=serialize) as mock:
        with pytest.raises(BufferFullError, match="serializer"):
            await mock.send("orders", b"", max_block=0.001)


async def test_closing_refuses_what_is_at_its_serializer() -> None:
    """close() ends the wait of calls whose records were not accepted."""
    serialize, _ = gated()
    async with MockProducer(value_serializer=serialize) as mock:
        sending = asyncio.ensure_future(mock.send("orders", b""))
        await asyncio.sleep(0)
        assert mock.stats().waiting_calls == 1
    with pytest.raises(StateError, match="closed"):
        await sending


async def test_send_nowait_cannot_wait_for_a_serializer() -> None:
    """With coroutine serializers send_nowait() is a StateError."""
    serialize, _ = gated()
    async with MockProducer(value_serializer=serialize) as mock:
        with pytest.raises(StateError, match="serializer"):
            mock.send_nowait("orders", b"")


async def test_partitioner_is_asked() -> None:
    """The user's partitioner chooses among the configured partitions; None leaves the choice to the default."""

    def last(topic: str, key: object, value: object, partitions: Any, available: Any) -> int | None:
        return None if key is None else max(partitions)

    async with MockProducer(partitions=3, partitioner=last) as mock:
        await mock.send("orders", b"", key=b"k")
        await mock.send("orders", b"")
    assert [record.partition for record in mock.history] == [2, 0]


async def test_interceptors_see_records_and_fates() -> None:
    """Interceptors change records, receive acknowledgements, refusals and failures, and are closed."""
    heard: list[str] = []

    class Noting(Interceptor):
        def on_send(self, record: Record[Any, Any], /) -> Record[Any, Any]:
            return attrs.evolve(record, headers=[("seen", b"")])

        def on_acknowledgement(self, metadata: RecordMetadata | None, error: BaseException | None, /) -> None:
            heard.append("acked" if error is None else type(error).__name__)

        def close(self) -> None:
            heard.append("closed")

    async with MockProducer(interceptors=[Noting()]) as mock:
        await mock.send("orders", b"")
        mock.fail_delivery(DeliveryTimeoutError())
        await mock.send("orders", b"")
        await mock.flush()
        mock.fail_send(BufferFullError())
        with pytest.raises(BufferFullError):
            await mock.send("orders", b"")
    assert heard == ["acked", "DeliveryTimeoutError", "BufferFullError", "closed"]
    assert mock.history[0].headers == (("seen", b""),)


# -- many records


async def test_send_batch_takes_columns(mock: MockProducer) -> None:
    """send_batch() places each record, and returns the refused ones by index."""
    sent = await mock.send_batch(
        "orders",
        [b"1", "2", b"3"],
        keys=[b"a", b"b", None],
        partition=[1, 1, 2],
        headers={"h": b""},
        timestamps=[5, 6, 7],
    )
    result = await sent
    assert (list(result.offsets), list(result.partitions), result.acked) == ([0, -1, 0], [1, -1, 2], 2)
    assert isinstance(result.errors[1], SerializationError)
    assert [(record.key, record.timestamp) for record in mock.history] == [(b"a", 5), (None, 7)]


async def test_send_batch_takes_arrow(mock: MockProducer) -> None:
    """Arrow columns are accepted: text as UTF-8, times without a zone as UTC."""
    import pyarrow as pa

    stamps = pa.array([1000, 2000], pa.timestamp("ms"))
    await (await mock.send_batch("orders", pa.array(["1", None]), timestamps=stamps))
    assert [(record.value, record.timestamp) for record in mock.history] == [(b"1", 1000), (None, 2000)]


@pytest.mark.parametrize(
    "columns",
    [
        {"values": b"12"},
        {"values": 7},
        {"values": [b"1"], "keys": []},
        {"values": [b"1"], "partition": [0, 0]},
        {"values": [b"1"], "headers": [None, None]},
    ],
)
async def test_send_batch_refuses_columns_that_do_not_fit(
    mock: MockProducer, columns: dict[str, Any]
) -> None:
    """Columns of other types or lengths are a RecordError, and no record is accepted."""
    with pytest.raises(RecordError):
        await mock.send_batch("orders", **columns)
    assert mock.history == ()


async def test_send_all_counts_what_became_of_records(mock: MockProducer) -> None:
    """send_all() sends a stream, counts outcomes, and reports progress at the end."""
    progress: list[int] = []
    mock.fail_delivery(DeliveryTimeoutError(outcome=Outcome.UNKNOWN))
    records: list[Any] = [
        Record("orders", b"1"),
        Record("orders", b"2"),
        "no record",
        Record("orders", bytes(2_000_000)),
    ]
    result = await mock.send_all(records, on_progress=progress.append)
    assert (result.acked, result.not_written, result.unknown) == (1, 2, 1)
    assert {at: type(error) for at, error in result.errors.items()} == {
        0: DeliveryTimeoutError,
        2: RecordError,
        3: RecordTooLargeError,
    }
    assert progress == [4]
