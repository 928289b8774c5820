"""The log lines of a life without faults: connections, and a close() that takes long; each names the client."""

from __future__ import annotations

import asyncio
import logging
import re

import pytest

from aioproducer._calls import lifecycle
from aioproducer.testing import EmbeddedKafka
from tests.net.support import Make, until, warm


def lines(caplog: pytest.LogCaptureFixture, word: str) -> list[str]:
    found = [record for record in caplog.records if word in record.getMessage()]
    assert {record.levelno for record in found} <= {logging.INFO}
    return [record.getMessage() for record in found]


async def test_connected_and_reconnected(
    make: Make, kafka: EmbeddedKafka, caplog: pytest.LogCaptureFixture
) -> None:
    """One line each, with the broker and the purpose of the connection."""
    caplog.set_level(logging.INFO, logger="aioproducer")
    producer = await warm(make(kafka, client_id="till-3"), "one")
    await producer.send_and_wait("one", b"v")
    kafka.faults.cut()
    await producer.send_and_wait("one", b"v")
    written = lines(caplog, "onnected to broker")
    place = f"127.0.0.1:{kafka.brokers[0].port}"
    assert sorted(written) == [
        f"till-3: connected to broker {place} (id 1)",
        f"till-3: connected to broker {place}, for metadata",
        f"till-3: reconnected to broker {place} (id 1)",
    ]


async def test_a_long_close(
    make: Make, kafka: EmbeddedKafka, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A long close() logs once the records that it waits for, and its limit; a short one logs nothing."""
    caplog.set_level(logging.INFO, logger="aioproducer")
    short = await warm(make(kafka), "one")
    await short.close()
    assert lines(caplog, "close() waits") == []
    monkeypatch.setattr(lifecycle, "WORTH_A_LINE", 0.0)
    producer = await warm(make(kafka, client_id="till-3"), "one")
    hold = kafka.faults.delay(before=True)
    await producer.send("one", b"v")
    closing = asyncio.ensure_future(producer.close(timeout=5))
    await until(lambda: lines(caplog, "close() waits"))
    hold.release()
    await closing
    (line,) = lines(caplog, "close() waits")
    broker = f"broker 127.0.0.1:{kafka.brokers[0].port} (id 1)"
    assert re.fullmatch(
        rf"till-3: close\(\) waits for \d\.\d s more at most: 1 record without an outcome \(1 at {re.escape(broker)}\)",
        line,
    )
