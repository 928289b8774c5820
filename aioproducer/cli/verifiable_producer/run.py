"""A run of `verifiable-producer`: send growing numbers until their end or a signal, and tell every outcome."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Iterator
from functools import partial

import attrs
import click

from aioproducer import ConfigurationError, Delivery, KafkaError, Producer, ProducerConfig
from aioproducer.cli.pace import Pace
from aioproducer.cli.running import Stop, heeding_signals
from aioproducer.cli.terminal.screen import Screen
from aioproducer.cli.verifiable_producer.events import Events


@attrs.frozen
class Job:
    """The options of the user. `records` and `rate` are negative where there is no limit."""

    config: ProducerConfig
    topic: str
    records: int
    rate: int
    prefix: int | None
    keys: int | None
    create_time: int | None

    def numbers(self) -> Iterator[int]:
        """The numbers to send."""
        return itertools.count() if self.records < 0 else iter(range(self.records))

    def value(self, number: int) -> str:
        """The value of a record."""
        return str(number) if self.prefix is None else f"{self.prefix}.{number}"

    def key(self, number: int) -> str | None:
        """The key of a record."""
        return None if self.keys is None else str(number % self.keys)


async def verify(job: Job, screen: Screen) -> int:
    """Send, close, and return the exit code."""
    producer: Producer = Producer.from_config(job.config)
    with screen.log() as log, heeding_signals(lambda: screen.complain("aioproducer: stopping")) as stop:
        log.shown = True
        run = Run(job, producer, stop)
        async with producer:
            run.events.tell("startup_complete")
            sending = asyncio.create_task(run.send_all())
            await stop.asked_or(sending)
            # A call that waits for memory or metadata is refused by this, and the task ends.
            await stop.close(producer)
            await sending
        run.conclude()
    return 0


class Run:
    """The records of one run, and their outcomes."""

    def __init__(self, job: Job, producer: Producer, stop: Stop) -> None:
        self.events = Events(failed=stop.ask)
        self._job = job
        self._producer = producer
        self._stop = stop
        self._began = time.monotonic()
        self._sent = 0
        self._acked = 0
        self._unusable: ConfigurationError | None = None

    async def send_all(self) -> None:
        """Send until the last number, a signal, or the death of the producer."""
        pace = Pace(self._job.rate, time.monotonic) if self._job.rate > 0 else None
        for number in self._job.numbers():
            if self._job.rate == 0:
                await self._stop.pause(None)
            if self._stop.asked.is_set():
                return
            goes_on = await self._send(self._job.key(number), self._job.value(number))
            if not goes_on:
                return
            if pace is not None and (wait := pace.wait(self._sent)):
                await self._stop.pause(wait)

    async def _send(self, key: str | None, value: str) -> bool:
        """Send one record; whether the producer takes more."""
        # It is never cancelled: a call that is cancelled after acceptance would lose its delivery.
        self._sent += 1
        try:
            delivery = await self._producer.send(
                self._job.topic,
                value.encode(),
                key=None if key is None else key.encode(),
                timestamp=self._timestamp(),
            )
        except KafkaError as error:
            self._tell_failure(key, value, error)
            if isinstance(error, ConfigurationError) and not self._acked:
                self._unusable = error
                return False
            # Refused calls do not suspend, and signals need the loop.
            await asyncio.sleep(0)
            return self._producer.health().state == "running"
        delivery.add_done_callback(partial(self._tell_outcome, key, value))
        return True

    def _timestamp(self) -> int | None:
        """That of the first record is the option; later ones are later by the time that has passed."""
        if self._job.create_time is None or self._sent == 1:
            return self._job.create_time
        return self._job.create_time + int((time.monotonic() - self._began) * 1000)

    def _tell_outcome(self, key: str | None, value: str, delivery: Delivery) -> None:
        error = delivery.exception()
        if isinstance(error, KafkaError):
            self._tell_failure(key, value, error)
            return
        self._acked += 1
        metadata = delivery.result()
        self.events.tell(
            "producer_send_success",
            key=key,
            value=value,
            topic=metadata.topic,
            partition=metadata.partition,
            offset=metadata.offset,
        )

    def _tell_failure(self, key: str | None, value: str, error: KafkaError) -> None:
        self.events.tell(
            "producer_send_error",
            key=key,
            value=value,
            topic=self._job.topic,
            exception=type(error).__name__,
            message=str(error),
            outcome=error.outcome.name.lower(),
        )

    def conclude(self) -> None:
        """Tell the end, and the figures of the run; raise the reason for which it is worth nothing."""
        self.events.tell("shutdown_complete")
        self.events.tell(
            "tool_data",
            sent=self._sent,
            acked=self._acked,
            target_throughput=self._job.rate,
            avg_throughput=self._acked / max(time.monotonic() - self._began, 0.001),
        )
        if self.events.failure is not None:
            raise click.ClickException(f"stdout cannot be written to: {self.events.failure.strerror}")
        if self._unusable is not None:
            raise self._unusable
