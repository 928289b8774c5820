"""MockProducer with callables of the user, and with many records in one call."""

from __future__ import annotations

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
)
from aioproducer.interceptors import Interceptor
from aioproducer.serializers import json, string
from aioproducer.testing import MockProducer

# -- callables of the user


async def test_serializers_are_used() -> None:
    """The history has the serialized values; failures of serializers are SerializationErrors."""
    async with MockProducer(key_serializer=string(), value_serializer=json()) as mock:
        await mock.send("orders", {"apples": 2}, key="alice")
        with pytest.raises(SerializationError, match="key"):
            await mock.send("orders", None, key=b"bytes")  # type: ignore[arg-type]
    assert [(record.key, record.value) for record in mock.history] == [(b"alice", b'{"apples":2}')]


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
