"""A run of `perf`: send at the requested rate, print each interval, and print the summary."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from math import inf
from pathlib import Path

import attrs

from aioproducer import KafkaError, Producer, ProducerConfig, StateError, Stats
from aioproducer.cli.connecting import reach
from aioproducer.cli.latencies import histogram
from aioproducer.cli.pace import Pace
from aioproducer.cli.perf.measuring import Measure
from aioproducer.cli.perf.transacting import Transactions
from aioproducer.cli.running import Stop, every, heeding_signals
from aioproducer.cli.terminal.screen import Meter, Screen

LOOK_EVERY = 0.1


@attrs.frozen
class Job:
    """The options of the user; `configured` gets the address of the embedded Kafka, or None without one.

    Records go in transactions if the `configured` producer has a transactional id, each of so many seconds.
    """

    configured: Callable[[str | None], ProducerConfig]
    topic: str
    records: int
    payloads: Iterator[bytes]
    rate: float | None
    transaction: float
    tasks: int
    warmup: int
    interval: float
    prints_metrics: bool
    embedded: bool
    wait: float
    plot: Path | None


async def perf(job: Job, screen: Screen) -> int:
    """Measure, and return the exit code."""
    async with AsyncExitStack() as life:
        servers = await _embedded(job, life) if job.embedded else None
        producer: Producer = Producer.from_config(job.configured(servers))
        log = life.enter_context(screen.log())
        stop = life.enter_context(heeding_signals(lambda: screen.complain("aioproducer: stopping")))
        await life.enter_async_context(producer)
        await _prepare(job, producer, stop)
        log.shown = True
        run = Run(job, screen, producer)
        await run.measure(stop)
        run.conclude()
        return run.exit_code(interrupted=stop.asked.is_set())


async def _prepare(job: Job, producer: Producer, stop: Stop) -> None:
    """Wait for everything that the first record needs."""
    is_ready = False
    try:
        await stop.unless_asked(reach(producer, job.topic, job.wait))
        if producer.config.transactional_id is not None:
            await stop.unless_asked(producer.init_transactions(timeout=job.wait))
        is_ready = not stop.asked.is_set()
    finally:
        if not is_ready:
            # Nothing was sent. A close() with a time limit would spend it on the abandoned call.
            await producer.close(timeout=0)


async def _embedded(job: Job, life: AsyncExitStack) -> str:
    from aioproducer.testing import EmbeddedKafka  # noqa: PLC0415  # only for this

    kafka = await life.enter_async_context(EmbeddedKafka())
    kafka.create_topic(job.topic, 4)
    return kafka.bootstrap_servers


class Run:
    """One measurement."""

    def __init__(self, job: Job, screen: Screen, producer: Producer) -> None:
        self._job = job
        self._screen = screen
        self._producer = producer
        self._now = asyncio.get_running_loop().time
        self._measure = Measure(job.records, self._now())
        self._pace = None if job.rate is None else Pace(job.rate, self._now)
        is_transactional = producer.config.transactional_id is not None
        self._transactions = Transactions(producer, job.transaction) if is_transactional else None
        self._left = job.records
        self._ended = self._now()

    async def measure(self, stop: Stop) -> None:
        """Send all records, or until a stop is requested, and wait for all answers."""
        if self._job.warmup:
            self._screen.say(
                f"Warmup first {self._job.warmup} records. "
                "Steady state results will print after the complete test summary."
            )
        with self._screen.progress("sending", self._job.records) as meter:
            async with (
                every(LOOK_EVERY, lambda: self._look(meter)),
                every(self._job.interval, self._tell_window),
            ):
                await stop.unless_asked(self._send_all())
                if self._transactions is not None:
                    await stop.unless_insisted(self._leave(self._transactions))
                await stop.close(self._producer)
            self._ended = self._now()
            self._look(meter)

    @property
    def _sent(self) -> int:
        return self._job.records - self._left

    async def _send_all(self) -> None:
        if self._transactions is None:
            await self._send_until(inf)
            await self._producer.flush()
            return
        while self._left and await self._transactions.one(self._send_until):
            if self._pace is not None:
                await self._pace.keep(self._sent)

    async def _leave(self, transactions: Transactions) -> None:
        self._measure.watch.look()
        before = self._measure.failures.copy()
        before_that = transactions.problem
        try:
            await transactions.leave()
        finally:
            self._measure.watch.look()
            if before_that is None:
                # A requested abort is not a failure of the records that it drops.
                self._measure.failures = before

    async def _send_until(self, end: float) -> None:
        tasks = [asyncio.create_task(self._send(end)) for _ in range(self._job.tasks)]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()

    async def _send(self, end: float) -> None:
        """Send until all records are sent, or until the transaction's end has passed; then it is committed."""
        # Names are looked up once: this loop is part of the measurement, and must be cheap.
        now, pace, send, topic = self._now, self._pace, self._producer.send, self._job.topic
        add, payloads, records = self._measure.watch.add, self._job.payloads, self._job.records
        to_warm_up = records - self._job.warmup if self._job.warmup else -1
        while self._left:
            if self._left == to_warm_up:
                self._measure.warmed_up(now())
                self._screen.say("In steady state.")
            self._left -= 1
            payload = next(payloads)
            began = now()
            try:
                delivery = await send(topic, payload)
            except KafkaError as error:
                if self._transactions is not None or isinstance(error, StateError):
                    self._left += 1
                    raise
                self._measure.failed(error)
            else:
                add((began, len(payload)), delivery)
            if began >= end:
                return
            if pace is not None:
                await pace.keep(records - self._left)

    def _look(self, meter: Meter) -> None:
        self._measure.watch.look()
        acked = self._measure.all.records
        rate = acked / max(self._now() - self._measure.all.began, 1e-9)
        meter.show(acked, f"{acked:,} acked, {rate:,.0f} records/s")

    def _tell_window(self) -> None:
        now = self._now()
        self._screen.say(self._measure.new_window(now).window(now))

    def conclude(self) -> None:
        """Print the results."""
        measure, screen = self._measure, self._screen
        if screen.out.is_terminal:
            screen.say(histogram(measure.all.latencies.seconds, blocks=screen.blocks))
        if self._transactions is not None:
            screen.say(self._transactions.total())
        total = measure.all.total(self._ended)
        screen.say(total)
        if self._job.warmup:
            screen.say(measure.steady.total(self._ended, "steady state "))
        if self._job.prints_metrics:
            screen.say("\n" + "\n".join(_metrics(self._producer.stats())))
        if self._job.plot is not None:
            self._draw(self._job.plot, total)

    def _draw(self, path: Path, total: str) -> None:
        from aioproducer.cli.perf.plot import slices, write_plot  # noqa: PLC0415  # matplotlib, for this only

        parts = slices(self._measure.all.latencies, self._measure.all.began, self._ended)
        write_plot(path, ", ".join(total.split(", ")[:2]), parts)

    def exit_code(self, *, interrupted: bool) -> int:
        """The exit code: 0 if all records are acknowledged; otherwise stderr has the failures."""
        for reason, count in self._measure.failures.most_common():
            self._screen.complain(f"aioproducer: {count:,} records failed: {reason}")
        so_far = f"after {self._sent:,} of {self._job.records:,} records"
        problem = None if self._transactions is None else self._transactions.problem
        if problem is not None:
            self._screen.complain(f"aioproducer: ended {so_far}: {problem}")
        if interrupted:
            was_aborted = self._transactions is not None and self._transactions.was_aborted
            end = "; the open transaction was aborted" if was_aborted else ""
            self._screen.complain(f"aioproducer: interrupted {so_far}{end}")
        return 1 if interrupted or problem is not None or self._measure.failures else 0


def _metrics(stats: Stats) -> Iterator[str]:
    """The statistics of the producer, one line each."""
    yield f"{'Metric Name':<32}Value"
    for field in attrs.fields(Stats):
        value = getattr(stats, field.name)
        shown = f"mean {value.mean}" if hasattr(value, "mean") else value
        yield f"{field.name.replace('_', '-'):<30}: {shown}"
