"""The ledger: every record of a simulation, numbered in the order of the calls, and its outcome."""

from __future__ import annotations

import asyncio
import heapq
import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import attrs

from aioproducer import Delivery, DeliveryError, KafkaError, Outcome, Producer, StateError
from aioproducer._core import BatchDelivery, Sending, peek
from aioproducer.records import BatchResult
from tests.judge.history import Headers, Sent, digest_of, refused, told, value_of
from tests.simulation.loop import SimulatedLoop

MOMENT: Final = 0.02
"""Seconds that an outcome may come after its deadline: a few turns of the loop."""


def in_a_moment(loop: SimulatedLoop, check: Callable[..., object], *args: object) -> None:
    """Check whether an outcome is overdue: a loop that was held up gets a moment for bytes that have arrived meanwhile.

    In two steps: the loop may be held up again within the first.
    """
    loop.call_later(MOMENT / 2, loop.call_later, MOMENT / 2, check, *args)


@attrs.define(eq=False)
class Entry:
    """One record."""

    number: int
    digest: bytes
    topic: str
    called_at: float
    due_at: float = math.inf
    resolved_at: float = -math.inf
    delivery: Delivery | None = None
    place: tuple[int, int] | None = None
    """Partition and offset of a record that a bulk call reported as acknowledged."""
    error: KafkaError | None = None
    sending: Sending[Any] | None = None
    """The call of a single record, while it runs."""
    withdrawn: bool = False
    """The caller of its bulk call was cancelled."""

    @property
    def accepted(self) -> bool:
        """Is the record known to be accepted?"""
        if self.sending is not None:
            return self.sending.delivery is not None
        return self.delivery is not None or self.place is not None or isinstance(self.error, DeliveryError)

    @property
    def waits(self) -> bool:
        """Is the record known to be accepted, without an outcome yet?"""
        delivery = self.delivery if self.sending is None else self.sending.delivery
        return delivery is not None and peek(delivery)[0] is Outcome.PENDING

    @property
    def refused(self) -> bool:
        """Is the record known never to be accepted?"""
        return self.error is not None and not self.accepted

    @property
    def pending(self) -> bool:
        """Does the record have no outcome yet?"""
        if self.delivery is not None:
            # Without the producer noticing the look.
            return peek(self.delivery)[0] is Outcome.PENDING
        return self.error is None and self.place is None and not self.withdrawn


class Ledger:
    """Sends through producers, and remembers the records."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self.loop = loop
        self.entries: list[Entry] = []
        # The timestamps that senders gave to their records.
        self.timestamps: set[int] = set()
        # Records with a deadline, by its time; only the first has a timer.
        self._deadlines: list[tuple[float, int, Entry]] = []
        self._watched_from = math.inf
        self._left: list[tuple[list[Entry], BatchDelivery]] = []

    # -- sending

    async def send(
        self, producer: Producer[Any, Any], topic: str, filling: bytes = b"", **arguments: Any
    ) -> Delivery | None:
        """`send()` of a recognizable record; None if it was refused."""
        entry, value = self._enter(topic, filling, arguments)
        entry.sending = producer.send(topic, value, **arguments)
        await self._called(entry, producer, arguments)
        return entry.delivery

    async def send_and_wait(
        self, producer: Producer[Any, Any], topic: str, filling: bytes = b"", **arguments: Any
    ) -> None:
        """`send_and_wait()` likewise; its error is noted."""
        entry, value = self._enter(topic, filling, arguments)
        entry.sending = producer.send_and_wait(topic, value, **arguments)
        await self._called(entry, producer, arguments)

    async def send_threadsafe(
        self, producer: Producer[Any, Any], topic: str, filling: bytes = b"", **arguments: Any
    ) -> None:
        """`send_threadsafe()` in a thread that ends before the next step; the call itself is made later."""
        entry, value = self._enter(topic, filling, arguments)
        with ThreadPoolExecutor(1) as other:
            asked = other.submit(producer.send_threadsafe, topic, value, **arguments)
        try:
            written = await asyncio.wrap_future(asked.result())
        except KafkaError as error:
            entry.error = error
        else:
            entry.place = (written.partition, written.offset)
        entry.resolved_at = self.loop.time()

    async def _called(self, entry: Entry, producer: Producer[Any, Any], arguments: Mapping[str, Any]) -> None:
        sending, failure = entry.sending, None
        assert sending is not None
        try:
            await sending
        except KafkaError as error:
            failure = error
        except asyncio.CancelledError:
            failure = StateError("its caller was cancelled before it was accepted")
            raise
        finally:
            entry.delivery, entry.sending = sending.delivery, None
            if entry.delivery is not None:
                self._accepted(entry, producer, arguments)
            else:
                entry.error, entry.resolved_at = failure, self.loop.time()

    def send_nowait(
        self, producer: Producer[Any, Any], topic: str, filling: bytes = b"", **arguments: Any
    ) -> Delivery | None:
        """`send_nowait()` likewise."""
        entry, value = self._enter(topic, filling, arguments)
        try:
            entry.delivery = producer.send_nowait(topic, value, **arguments)
        except KafkaError as error:
            entry.error = error
            entry.resolved_at = self.loop.time()
            return None
        self._accepted(entry, producer, arguments, queued=True)
        return entry.delivery

    async def send_batch(
        self, producer: Producer[Any, Any], topic: str, fillings: Sequence[bytes], **arguments: Any
    ) -> None:
        """`send_batch()` of recognizable records; waits until each has its outcome."""
        entered = [self._enter(topic, filling, arguments) for filling in fillings]
        entries = [entry for entry, _ in entered]
        sending = None
        try:
            sending = producer.send_batch(topic, [value for _, value in entered], **arguments)
            handle = await sending
            result = await handle
        except KafkaError as error:
            for entry in entries:
                entry.error = error
            return
        except asyncio.CancelledError:
            for entry in entries:
                entry.withdrawn = True
            if sending is not None and sending.delivery is not None:
                self._left.append((entries, sending.delivery))
            raise
        self._note_bulk(entries, result)

    async def look_at_what_was_left(self) -> None:
        """The outcomes of bulk calls whose callers were cancelled; waits until all have one."""
        while self._left:
            entries, handle = self._left.pop()
            self._note_bulk(entries, await handle)

    def _note_bulk(self, entries: Sequence[Entry], result: BatchResult) -> None:
        for index, entry in enumerate(entries):
            self._of_bulk(entry, result, index)

    def _of_bulk(self, entry: Entry, result: BatchResult, index: int) -> None:
        failure = result.errors.get(index)
        if failure is not None:
            entry.error = failure
        else:
            entry.place = (result.partitions[index], result.offsets[index])
        entry.resolved_at = self.loop.time()

    def _enter(self, topic: str, filling: bytes, arguments: Mapping[str, Any]) -> tuple[Entry, bytes]:
        value = value_of(len(self.entries), filling)
        headers: Headers = arguments.get("headers") or ()
        timestamp = arguments.get("timestamp")
        if timestamp is not None:
            self.timestamps.add(timestamp)
        digest = digest_of(arguments.get("key"), value, headers, timestamp)
        entry = Entry(len(self.entries), digest, topic, self.loop.time())
        self.entries.append(entry)
        return entry, value

    def _accepted(
        self,
        entry: Entry,
        producer: Producer[Any, Any],
        arguments: Mapping[str, Any],
        *,
        queued: bool = False,
    ) -> None:
        own = arguments.get("timeout")
        limit = producer.config.delivery_timeout_ms / 1000 if own is None else own
        since = self.loop.time() if own is None and not queued else entry.called_at
        if queued and own is None:
            # The record waits for its topic or for memory like any other, though its delivery exists already.
            limit += producer.config.max_block_ms / 1000
        entry.due_at = since + limit
        heapq.heappush(self._deadlines, (entry.due_at, entry.number, entry))
        self._watch()

    def _watch(self) -> None:
        """Wake up at the first deadline of a record without an outcome."""
        deadlines = self._deadlines
        while deadlines and not deadlines[0][2].pending:
            heapq.heappop(deadlines)
        if deadlines and deadlines[0][0] < self._watched_from:
            self._watched_from = deadlines[0][0]
            self.loop.call_at(self._watched_from, self._due, self._watched_from)

    def _due(self, moment: float) -> None:
        if moment != self._watched_from:
            return
        self._watched_from = math.inf
        deadlines = self._deadlines
        while deadlines and deadlines[0][0] <= moment:
            _, _, entry = heapq.heappop(deadlines)
            if entry.pending:
                in_a_moment(self.loop, self._overdue, entry)
        self._watch()

    def _overdue(self, entry: Entry) -> None:
        """A record without an outcome behind its deadline breaks I4."""
        if entry.pending:
            entry.resolved_at = math.inf

    # -- for the judge

    def history(self) -> list[Sent]:
        """The sent records, and their outcomes."""
        return [self._sent(entry) for entry in self.entries]

    def _sent(self, entry: Entry) -> Sent:
        times: dict[str, Any] = {"due_at": entry.due_at, "resolved_at": entry.resolved_at}
        if entry.place is not None:
            partition, offset = entry.place
            return Sent(entry.number, entry.digest, entry.topic, partition, Outcome.ACKED, offset, **times)
        if entry.delivery is not None:
            return told(entry.number, entry.digest, entry.delivery, **times)
        if entry.error is not None:
            return refused(entry.number, entry.digest, entry.topic, entry.error, **times)
        outcome = Outcome.UNKNOWN if entry.withdrawn else Outcome.PENDING
        return Sent(entry.number, entry.digest, entry.topic, None, outcome, error="its caller was cancelled")
