"""Support for tests of Python's own faults."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Coroutine, Iterable
from pathlib import Path
from typing import Any, Self

import attrs

from aioproducer import Delivery, Producer
from aioproducer.errors import KafkaError
from aioproducer.testing import EmbeddedKafka
from tests.judge.history import Found, Sent, digest_of, found, refused, told, value_of
from tests.judge.judge import judge
from tests.net.support import engine, in_flight, memory_in_use, permits_are_all_back, turns, until
from tests.slowness import SLOWNESS

ROOT = Path(__file__).parents[2]


# -- producers that shall be as if nothing had happened


async def sound(producer: Producer[Any, Any]) -> None:
    """It works, holds nothing, and none of its tasks has died."""
    metadata = await asyncio.wait_for(producer.send_and_wait("sound", b"sound"), 5 * SLOWNESS)
    assert metadata.offset >= 0
    await asyncio.wait_for(producer.flush(), 5 * SLOWNESS)
    await until(lambda: not in_flight(producer))
    stats = producer.stats()
    left = (stats.records_buffered, stats.bytes_buffered, stats.waiting_calls)
    assert left == (0, 0, 0), left
    assert (stats.records_in_flight, stats.bytes_in_flight, memory_in_use(producer)) == (0, 0, 0)
    assert permits_are_all_back(producer)
    supervisor = engine(producer).supervisor.task
    assert supervisor is not None
    assert not supervisor.done()
    assert producer.health().state == "running"


def tasks_of_the_library() -> list[asyncio.Task[Any]]:
    """The background tasks of all producers."""
    return [task for task in asyncio.all_tasks() if task.get_name().startswith("aioproducer")]


async def no_task_left() -> None:
    """All background tasks have ended, or do so in a few turns."""
    await turns(5)
    assert tasks_of_the_library() == []


# -- the judge


@attrs.define
class History:
    """The sent records of a test, with their reported outcomes, for the judge."""

    sent: list[Sent] = attrs.Factory(list)
    _next: int = 0

    def value(self, filling: bytes = b"") -> bytes:
        """The value of the next record."""
        self._next += 1
        return value_of(self._next - 1, filling)

    def accepted(self, value: bytes, delivery: Delivery, key: bytes | None = None) -> None:
        """A record that was accepted; its delivery is done."""
        digest = digest_of(key, value, (), None)
        self.sent.append(told(_number(value), digest, delivery))

    def refused(self, value: bytes, topic: str, error: KafkaError | None = None) -> None:
        """A record that was refused, or withdrawn by a cancellation."""
        digest = digest_of(None, value, (), None)
        told_error = error or KafkaError("withdrawn by a cancellation")
        self.sent.append(refused(_number(value), digest, topic, told_error))

    def check(self, kafka: EmbeddedKafka, topics: Iterable[str]) -> None:
        """Every promise was kept."""
        assert [str(finding) for finding in judge(self.sent, log_of(kafka, topics))] == []


def _number(value: bytes) -> int:
    return int.from_bytes(value[:8], "big", signed=True)


def log_of(kafka: EmbeddedKafka, topics: Iterable[str]) -> list[Found]:
    """The logs of the embedded Kafka as the judge wants them."""
    return [
        found(topic, record.partition, record.offset, record.key, record.value, record.headers, None)
        for topic in topics
        for record in kafka.records(topic)
    ]


# -- other processes


def run_program(
    program: str, *flags: str, as_file: bool = False, timeout: float = 60
) -> subprocess.CompletedProcess[str]:
    """Run a Python program to its end, from a file where others import it; one that hangs fails the test."""
    if not as_file:
        return _run([*flags, "-c", program], timeout)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "program.py"
        file.write_text(program)
        return _run([*flags, str(file)], timeout)


def _run(args: list[str], timeout: float) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *args],
        check=False,
        capture_output=True,
        text=True,
        timeout=timeout * SLOWNESS,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


class Running:
    """A Python program that runs beside the test, and is asked and interrupted from it."""

    def __init__(self, program: str, *flags: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, *flags, "-c", program],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()

    def line(self) -> str:
        """The next line of its output."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    def end(self, timeout: float) -> tuple[int, str, str]:
        """Wait for its end: exit code, the rest of its output, its errors."""
        late = threading.Timer(timeout * SLOWNESS, self._process.kill)
        late.start()
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        # Not communicate(): it would miss what readline() has read ahead.
        out, errors = self._process.stdout.read(), self._process.stderr.read()
        code = self._process.wait()
        late.cancel()
        return code, out, errors


# -- a broker that goes on while the producer's loop cannot


class KafkaElsewhere:
    """An embedded Kafka in a thread with a loop of its own: it answers while the loop of the test is held up."""

    def __init__(self, *topics: str) -> None:
        self._topics = topics
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self.kafka = EmbeddedKafka()

    def __enter__(self) -> EmbeddedKafka:
        self._thread.start()
        self._there(self.kafka.start())
        for topic in self._topics:
            self.kafka.create_topic(topic, 1)
        return self.kafka

    def __exit__(self, *_: object) -> None:
        self._there(self.kafka.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        self._loop.close()

    def _there(self, coroutine: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(10)
