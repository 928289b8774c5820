"""Feeding lines to a producer, with an account of their outcomes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import aclosing

import attrs

from aioproducer import KafkaError, Outcome, Producer, StateError
from aioproducer.cli.produce.failures import Failures
from aioproducer.cli.produce.reading_lines import Format, LineError, RawRecord
from aioproducer.cli.produce.sources import Source
from aioproducer.cli.produce.splitting import OVERLONG, Splitter
from aioproducer.cli.watch import Sent, Watch
from aioproducer.outlets import DeadLetters, SentRecord

Place = tuple[str, int]

LONGEST = 8  # times max.request.size: escapes make a line longer than its record


@attrs.define
class Account:
    """The lines that were read, and their outcomes."""

    bytes_read: int = 0
    place: Place | None = None
    outcomes: dict[Outcome, int] = attrs.Factory(lambda: dict.fromkeys(Outcome, 0))
    failures: Failures = attrs.Factory(Failures)
    sets_aside: bool = False
    dead_lettered: int = 0

    @property
    def is_good(self) -> bool:
        """Whether all lines are acknowledged."""
        return not self.failures.count

    def settled(self, arrived: list[tuple[Place, Sent]]) -> None:
        """Count the outcomes of these records."""
        for place, delivery in arrived:
            if isinstance(delivery, SentRecord) and delivery.dead_lettered:
                self.dead_lettered += 1
                continue
            outcome = delivery.outcome
            self.outcomes[outcome] += 1
            if outcome is not Outcome.ACKED:
                error = delivery.error if isinstance(delivery, SentRecord) else delivery.exception()
                self.failures.add(*place, str(error))

    def refused(self, place: Place, reason: object) -> None:
        """Count a line that was not sent."""
        self.outcomes[Outcome.NOT_WRITTEN] += 1
        self.failures.add(*place, str(reason))


class Feed:
    """Reads the sources one after the other, and sends their lines."""

    def __init__(
        self,
        producer: Producer,
        form: Format,
        delimiter: bytes,
        *,
        stops_at_failure: bool,
        letters: DeadLetters | None = None,
    ) -> None:
        self.account = Account(sets_aside=letters is not None)
        self._letters = letters
        self.watch: Watch[Place, Sent] = Watch(self.account.settled)
        self._producer = producer
        self._form = form
        self._delimiter = delimiter
        self._limit = producer.config.max_request_size * LONGEST
        self._stops_at_failure = stops_at_failure

    @property
    def _stopped(self) -> bool:
        return self._stops_at_failure and not self.account.is_good

    async def run(self, sources: Iterable[Source]) -> None:
        """Send all, or up to the first failure."""
        for source in sources:
            if self._stopped:
                return
            try:
                await self._read(source)
            except OSError as error:
                self.account.failures.unreadable(source.name, error)

    async def _read(self, source: Source) -> None:
        splitter = Splitter(self._delimiter, self._limit)
        name, number = source.name, 0
        async with aclosing(source.pieces()) as pieces:
            async for piece in pieces:
                for line in splitter.lines(piece):
                    number += 1
                    await self._line((name, number), line)
                    if self._stopped:
                        return
                self.account.bytes_read += len(piece)
        for line in splitter.last():
            await self._line((name, number + 1), line)

    async def _line(self, place: Place, line: bytes | None) -> None:
        self.account.place = place
        if line is OVERLONG:
            self.account.refused(place, f"is longer than {self._limit} bytes")
            return
        try:
            record = self._form.record(line)
        except LineError as error:
            self.account.refused(place, error)
            return
        if record is not None:
            await self._send(place, record)

    async def settled(self) -> None:
        """Wait until the records that may be set aside have their outcome."""
        if self._letters is not None:
            await self.watch.settled()

    async def _send(self, place: Place, record: RawRecord) -> None:
        if self._letters is not None:
            await self._send_with_letters(self._letters, place, record)
            return
        call = self._producer.send(
            record.topic,
            record.value,
            key=record.key,
            partition=record.partition,
            timestamp=record.timestamp,
            headers=record.headers,
        )
        try:
            self.watch.add(place, await call)
        except StateError:
            raise
        except KafkaError as error:
            self.account.refused(place, error)
        except asyncio.CancelledError:
            # Interrupted: an accepted record continues, a record that is not accepted yet is withdrawn.
            if call.delivery is not None:
                self.watch.add(place, call.delivery)
            else:
                self.account.refused(place, "was not sent: interrupted")
            raise

    async def _send_with_letters(self, letters: DeadLetters, place: Place, record: RawRecord) -> None:
        sent = letters.send(
            record.topic,
            record.value,
            key=record.key,
            partition=record.partition,
            timestamp=record.timestamp,
            headers=record.headers,
        )
        try:
            await sent.placed()
            if isinstance(sent.error, StateError):
                raise sent.error
        finally:
            # Interrupted: a record that is not accepted yet is withdrawn, and has its outcome.
            self.watch.add(place, sent)
        await asyncio.sleep(0)
