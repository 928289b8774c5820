"""Listeners: one report per batch with its outcome, one per change of a connection; their failures have no effect."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

import attrs
import pytest

from aioproducer import (
    BatchReport,
    BrokerError,
    ConfigurationError,
    ConnectionReport,
    Outcome,
    Producer,
)
from aioproducer._net.log import log_of
from aioproducer._net.observing.listeners import Listeners
from aioproducer.testing import EmbeddedKafka
from tests.api.conftest import Make
from tests.api.support import LIMIT, turns, until, warm


@attrs.define
class Listener:
    """Keeps its reports."""

    batches: list[BatchReport] = attrs.Factory(list)
    connections: list[ConnectionReport] = attrs.Factory(list)

    def on_batch(self, report: BatchReport) -> None:
        self.batches.append(report)

    def on_connection(self, report: ConnectionReport) -> None:
        self.connections.append(report)

    def states(self, broker: str) -> list[str]:
        """The states of the connection to this broker, in their order."""
        return [report.state for report in self.connections if report.broker == broker]


async def test_a_report_for_each_batch(make: Make) -> None:
    """A report has the place, the sizes, the outcome, the broker, and the time of each stage."""
    listener = Listener()
    producer = await warm(make(listeners=[listener], compression_type="lz4"))
    before = asyncio.get_running_loop().time()
    for _ in range(3):
        await producer.send("one", bytes(10_000))
    await producer.flush()
    await until(lambda: listener.batches)
    (report,) = listener.batches
    assert (report.topic, report.partition, report.records) == ("one", 0, 3)
    assert (report.outcome, report.error, report.attempts, report.base_offset) == (Outcome.ACKED, None, 1, 0)
    assert report.bytes > 30_000
    assert 0 < report.compressed_bytes < 3_000
    assert (report.broker, report.address) == ("1", str(producer.config.bootstrap_servers[0]))
    moments = [report.opened_at, report.drained_at, report.written_at, report.answered_at]
    assert None not in moments
    assert moments == sorted(moments)  # type: ignore[type-var]  # none is None
    assert before <= report.opened_at <= asyncio.get_running_loop().time()
    assert abs(report.wall_ms / 1000 - time.time()) < LIMIT
    assert report.contexts == ()


async def test_reports_and_statistics_agree(make: Make, kafka: EmbeddedKafka) -> None:
    """Each record is in one report: written, refused, sent again, or withdrawn one by one."""
    listener = Listener()
    producer = await warm(make(listeners=[listener], linger_ms=10_000))
    kafka.faults.error("NOT_ENOUGH_REPLICAS", times=1)
    for number in range(20):
        await producer.send("four", b"v", partition=number % 4)
    await producer.flush()
    kafka.faults.error("INVALID_REQUIRED_ACKS", times=1)
    await (await producer.send("one", b"v")).wait()
    kept = [await producer.send("one", b"v") for _ in range(3)]
    assert kept[1].try_cancel()
    await producer.flush()
    await turns(3)
    stats = producer.stats()
    counts = dict.fromkeys(Outcome, 0)
    for report in listener.batches:
        counts[report.outcome] += report.records
    assert counts[Outcome.ACKED] == stats.records_acked == 22
    assert counts[Outcome.NOT_WRITTEN] == stats.records_not_written == 2
    assert counts[Outcome.UNKNOWN] == stats.records_unknown == 0
    assert max(report.attempts for report in listener.batches) == 2
    errors = [report.error for report in listener.batches if report.error is not None]
    assert isinstance(errors[0], BrokerError)
    assert errors[0].name == "INVALID_REQUIRED_ACKS"


async def test_a_batch_that_was_never_sent(make: Make) -> None:
    """Its report has no broker, and no time but that of its beginning."""
    listener = Listener()
    producer = await warm(make(listeners=[listener], linger_ms=10_000))
    await producer.send("one", b"v")
    assert producer.purge() == 1
    await until(lambda: listener.batches)
    (report,) = listener.batches
    assert (report.outcome, report.attempts, report.base_offset) == (Outcome.NOT_WRITTEN, 0, -1)
    assert (report.broker, report.address, report.drained_at, report.written_at, report.answered_at) == (
        None,
    ) * 5


async def test_a_report_for_each_change_of_a_connection(make: Make, kafka: EmbeddedKafka) -> None:
    """Connections are made, lost, refused, and made again."""
    listener = Listener()
    producer = await warm(
        make(listeners=[listener], reconnect_backoff_ms=1, reconnect_backoff_max_ms=5, retry_backoff_ms=1)
    )
    await producer.send_and_wait("one", b"v")
    assert listener.states("metadata")[:2] == ["connecting", "connected"]
    assert listener.states("1") == ["connecting", "connected"]
    await kafka.faults.stop_broker(1)
    delivery = await producer.send("one", b"v")
    await until(lambda: "unreachable" in listener.states("1"))
    await kafka.faults.start_broker(1)
    assert await delivery.wait(LIMIT) is Outcome.ACKED
    await producer.close()
    assert listener.states("1")[2] == "disconnected"
    assert listener.states("1")[-2:] == ["connected", "idle"]
    failures = [report for report in listener.connections if report.state == "unreachable"]
    assert failures[0].error is not None
    assert {report.address for report in failures} == {str(producer.config.bootstrap_servers[0])}


async def test_what_close_gives_up_is_reported(make: Make, kafka: EmbeddedKafka) -> None:
    """The reports come before close() returns."""
    listener = Listener()
    producer = await warm(make(listeners=[listener]))
    kafka.faults.delay(times=None)
    await (await producer.send("one", b"v")).wait(0.05)
    await producer.close(timeout=0.05)
    assert [report.outcome for report in listener.batches] == [Outcome.UNKNOWN]


class Failing:
    """Raises at each report."""

    def on_batch(self, report: BatchReport) -> None:
        raise OSError(f"no disk for {report.topic}")

    def on_connection(self, report: ConnectionReport) -> None:
        raise BaseException("no socket")  # noqa: TRY002


async def test_a_listener_that_raises(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    """The exception is logged once in a while, no record is affected, and the other listeners are called."""
    listener = Listener()
    producer = await warm(make(listeners=[Failing(), listener], linger_ms=0))
    for _ in range(10):
        await producer.send_and_wait("one", b"v")
    await until(lambda: len(listener.batches) == 10)
    lines = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert [line.getMessage() for line in lines] == [
        "aioproducer: on_connection() of Failing failed for 1 report",
        "aioproducer: on_batch() of Failing failed for 1 report",
    ]


async def test_no_object_of_the_library_shows_a_listener() -> None:
    """Some error reports show the variables of each frame, and the repr of a listener may have its settings."""
    listeners = Listeners([Listener()], asyncio.get_running_loop(), log_of("tests"))
    (method,) = listeners._of_batches
    assert "Listener(" not in repr(method)


async def test_a_listener_that_sends(make: Make) -> None:
    """A listener is called after the event, and may use the producer."""
    producer: Producer[Any, Any]

    class Echo:
        def on_batch(self, report: BatchReport) -> None:
            if report.topic == "one":
                producer.send_nowait("four", b"echo")
                assert producer.stats().records_acked

    listener = Listener()
    producer = await warm(make(listeners=[Echo(), listener]))
    await producer.send_and_wait("one", b"v")
    await until(lambda: [report.topic for report in listener.batches] == ["one", "four"])


async def test_a_listener_leaves_the_compiled_path_on(make: Make) -> None:
    """No code in Python sees a single record."""
    producer = await warm(make(listeners=[Listener()]))
    assert producer._plain


class Coroutine:
    """A listener that is a coroutine function, which cannot wait."""

    async def on_batch(self, report: BatchReport) -> None:
        del report


@pytest.mark.parametrize("listeners", [7, "log", [object()], [Listener], [Coroutine()]])
def test_what_is_no_listener(listeners: Any) -> None:
    """An invalid listener is refused when the producer is made."""
    with pytest.raises(ConfigurationError, match="listeners"):
        Producer("localhost:9092", listeners=listeners)
