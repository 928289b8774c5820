"""A run of `produce`: connect, feed, close, and print the outcomes."""

from __future__ import annotations

import time
from collections.abc import Sequence

import attrs
from rich.filesize import decimal

from aioproducer import Outcome, Producer, ProducerConfig
from aioproducer.cli.connecting import reach
from aioproducer.cli.produce.feed import Account, Feed
from aioproducer.cli.produce.reading_lines import Format
from aioproducer.cli.produce.sources import Source, bytes_on_stdin
from aioproducer.cli.running import Stop, every, heeding_signals
from aioproducer.cli.terminal.screen import Screen
from aioproducer.outlets import DeadLetters

LOOK_EVERY = 0.1


@attrs.frozen
class Job:
    """The options of the user."""

    config: ProducerConfig
    sources: Sequence[Source]
    form: Format
    topic: str | None
    delimiter: bytes
    stops_at_failure: bool
    dead_letters: str | None
    wait: float
    progress: bool | None

    @property
    def size(self) -> int | None:
        """The number of bytes to read, if it is known."""
        sizes = [source.size for source in self.sources]
        return None if None in sizes else sum(size for size in sizes if size is not None)


async def produce(job: Job, screen: Screen) -> int:
    """Send all lines, and return the exit code."""
    bytes_on_stdin()
    began = time.perf_counter()
    producer: Producer = Producer.from_config(job.config)
    letters = None if job.dead_letters is None else DeadLetters(producer, job.dead_letters)
    feed = Feed(producer, job.form, job.delimiter, stops_at_failure=job.stops_at_failure, letters=letters)
    with screen.log() as log, heeding_signals(lambda: _say_stopping(screen, job)) as stop:
        async with producer:
            await stop.unless_asked(reach(producer, job.topic, job.wait))
            if job.dead_letters is not None:
                await stop.unless_asked(reach(producer, job.dead_letters, job.wait))
            log.shown = True
            await _feed(job, screen, stop, producer, feed)
    return _conclude(screen, feed.account, stop, time.perf_counter() - began)


async def _feed(job: Job, screen: Screen, stop: Stop, producer: Producer, feed: Feed) -> None:
    account = feed.account
    with screen.progress("sending", job.size, job.progress) as meter:

        def look() -> None:
            feed.watch.look()
            for complaint in account.failures.told():
                screen.complain(complaint)
            meter.show(account.bytes_read, _figures(account))

        async with every(LOOK_EVERY, look):
            await stop.unless_asked(feed.run(job.sources))
            await stop.unless_asked(producer.flush())
            await stop.unless_asked(feed.settled())
            await stop.close(producer)
        look()


def _figures(account: Account) -> str:
    failed = f", {account.failures.count:,} failed" if account.failures.count else ""
    return f"{decimal(account.bytes_read)} read, {account.outcomes[Outcome.ACKED]:,} acked{failed}"


def _say_stopping(screen: Screen, job: Job) -> None:
    limit = job.config.close_timeout_ms / 1000
    screen.complain(
        f"aioproducer: stopping: sending the lines already read, for at most {limit:g} s; interrupt again to end at once"
    )


def _conclude(screen: Screen, account: Account, stop: Stop, seconds: float) -> int:
    outcomes = account.outcomes
    acked = outcomes[Outcome.ACKED]
    aside = f", {account.dead_lettered:,} set aside" if account.sets_aside else ""
    screen.say(
        f"{acked:,} acked, {outcomes[Outcome.NOT_WRITTEN]:,} not written, {outcomes[Outcome.UNKNOWN]:,} unknown{aside}"
        f" in {seconds:.2f} s ({acked / seconds:,.0f} records/s)"
    )
    if stop.asked.is_set():
        where = "{}:{}".format(*account.place) if account.place else "the first line"
        screen.complain(f"aioproducer: interrupted at {where}; later lines were not read")
        return 1
    return 0 if account.is_good else 1
