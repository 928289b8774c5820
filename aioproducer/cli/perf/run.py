"""A run of `perf`: send at the pace that is asked for, tell each interval, and sum up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import attrs

from aioproducer import KafkaError, Producer, ProducerConfig, StateError, Stats
from aioproducer.cli.connecting import reach
from aioproducer.cli.latencies import histogram
from aioproducer.cli.perf.measuring import Measure
from aioproducer.cli.perf.pace import Pace
from aioproducer.cli.running import Stop, every, heeding_signals
from aioproducer.cli.screen import Meter, Screen

LOOK_EVERY = 0.1


@attrs.frozen
class Job:
    """What the user asked for; `configured` gets the address of the embedded Kafka, or None for no such one."""

    configured: Callable[[str | None], ProducerConfig]
    topic: str
    records: int
    payloads: Iterator[bytes]
    rate: float | None
    tasks: int
    warmup: int
    interval: float
    prints_metrics: bool
    embedded: bool
    patience: float
    plot: Path | None


async def perf(job: Job, screen: Screen) -> int:
    """Measure; the exit code."""
    async with AsyncExitStack() as life:
        servers = await _embedded(job, life) if job.embedded else None
        producer: Producer = Producer.from_config(job.configured(servers))
        log = life.enter_context(screen.log())
        stop = life.enter_context(heeding_signals(lambda: screen.complain("aioproducer: stopping")))
        await life.enter_async_context(producer)
        await stop.unless_asked(reach(producer, job.topic, job.patience))
        log.shown = True
        run = Run(job, screen, producer)
        await run.measure(stop)
        run.conclude()
        return run.exit_code(interrupted=stop.asked.is_set())


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
        self._left = job.records
        self._ended = self._now()

    async def measure(self, stop: Stop) -> None:
        """Send everything, or until a stop is asked for, and wait for all answers."""
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
                await stop.unless_asked(self._producer.flush())
                await stop.close(self._producer)
            self._ended = self._now()
            self._look(meter)

    async def _send_all(self) -> None:
        await asyncio.gather(*(self._send() for _ in range(self._job.tasks)))

    async def _send(self) -> None:
        # Names are looked up once: this loop is what is measured, and has to cost little itself.
        now, pace, send, topic = self._now, self._pace, self._producer.send, self._job.topic
        add, payloads = self._measure.watch.add, self._job.payloads
        to_warm_up = self._job.records - self._job.warmup if self._job.warmup else -1
        while self._left:
            if self._left == to_warm_up:
                self._measure.warmed_up(now())
                self._screen.say("In steady state.")
            self._left -= 1
            payload = next(payloads)
            began = now()
            try:
                delivery = await send(topic, payload)
            except StateError:
                raise
            except KafkaError as error:
                self._measure.failed(error)
            else:
                add((began, len(payload)), delivery)
            if pace is not None:
                await pace.keep()

    def _look(self, meter: Meter) -> None:
        self._measure.watch.look()
        acked = self._measure.all.records
        rate = acked / max(self._now() - self._measure.all.began, 1e-9)
        meter.show(acked, f"{acked:,} acked, {rate:,.0f} records/s")

    def _tell_window(self) -> None:
        now = self._now()
        self._screen.say(self._measure.new_window(now).window(now))

    def conclude(self) -> None:
        """Say what was measured."""
        measure, screen = self._measure, self._screen
        if screen.out.is_terminal:
            screen.say(histogram(measure.all.latencies.seconds, blocks=screen.blocks))
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
        """0 if all is acknowledged; otherwise stderr says what is not."""
        for reason, count in self._measure.failures.most_common():
            self._screen.complain(f"aioproducer: {count:,} records failed: {reason}")
        if interrupted:
            sent = self._job.records - self._left
            self._screen.complain(f"aioproducer: interrupted after {sent:,} of {self._job.records:,} records")
        return 1 if interrupted or self._measure.failures else 0


def _metrics(stats: Stats) -> Iterator[str]:
    """What the producer counted, a line each."""
    yield f"{'Metric Name':<32}Value"
    for field in attrs.fields(Stats):
        value = getattr(stats, field.name)
        shown = f"mean {value.mean}" if hasattr(value, "mean") else value
        yield f"{field.name.replace('_', '-'):<30}: {shown}"
