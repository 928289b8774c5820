"""The ledger: every record that a simulation sends, numbered in the order of the calls, and what was told of it."""

from __future__ import annotations

import asyncio
import heapq
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from aioproducer import Delivery, KafkaError, Outcome, Producer
from aioproducer._core import peek
from aioproducer.records import BatchResult
from tests.judge.history import Headers, Sent, digest_of, refused, told, value_of
from tests.simulation.loop import SimulatedLoop

MOMENT: Final = 0.02
"""Seconds that an outcome may come after its deadline: a few turns of the loop."""


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
    withdrawn: bool = False
    """Its caller was cancelled: before it was accepted, or in the turn after."""

    @property
    def pending(self) -> bool:
        """Has it no outcome yet?"""
        if self.delivery is not None:
            # Without being seen to look.
            return peek(self.delivery)[0] is Outcome.PENDING
        return self.error is None and self.place is None and not self.withdrawn


class Ledger:
    """Sends through producers, and remembers."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self.loop = loop
        self.entries: list[Entry] = []
        # Those that records were given by their senders.
        self.timestamps: set[int] = set()
        # Who has a deadline, by its moment; only for the first there is a timer.
        self._deadlines: list[tuple[float, int, Entry]] = []
        self._watched_from = math.inf

    # -- sending

    async def send(
        self, producer: Producer[Any, Any], topic: str, filling: bytes = b"", **arguments: Any
    ) -> Delivery | None:
        """`send()` of a record that can be recognized; None where it was refused."""
        entry, value = self._enter(topic, filling, arguments)
        try:
            entry.delivery = await producer.send(topic, value, **arguments)
        except KafkaError as error:
            entry.error = error
            entry.resolved_at = self.loop.time()
            return None
        except asyncio.CancelledError:
            entry.withdrawn = True
            raise
        self._accepted(entry, producer, arguments)
        return entry.delivery

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
        """`send_batch()` of records that can be recognized; waits until each has its outcome."""
        entered = [self._enter(topic, filling, arguments) for filling in fillings]
        entries = [entry for entry, _ in entered]
        try:
            handle = await producer.send_batch(topic, [value for _, value in entered], **arguments)
            result = await handle
        except KafkaError as error:
            for entry in entries:
                entry.error = error
            return
        except asyncio.CancelledError:
            for entry in entries:
                entry.withdrawn = True
            raise
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
            # It waits for its topic or for memory like any other, though its delivery is there already.
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
            # A loop that was held up gets a moment for what has arrived meanwhile.
            if entry.pending:
                self.loop.call_later(MOMENT, self._overdue, entry)
        self._watch()

    def _overdue(self, entry: Entry) -> None:
        if entry.pending:
            entry.resolved_at = math.inf

    # -- for the judge

    def history(self) -> list[Sent]:
        """What was sent, and what was told of it."""
        return [self._sent(entry) for entry in self.entries]

    def _sent(self, entry: Entry) -> Sent:
        times: dict[str, Any] = {"due_at": entry.due_at, "resolved_at": entry.resolved_at}
        if entry.place is not None:
            partition, offset = entry.place
            return Sent(entry.number, entry.digest, entry.topic, partition, Outcome.ACKED, offset, **times)
        if entry.delivery is not None:
            return told(entry.number, entry.digest, entry.delivery, **times)
        if entry.error is not None:
            return attrs.evolve(
                refused(entry.number, entry.digest, entry.topic, entry.error, **times),
                on_wire=entry.error.outcome is Outcome.UNKNOWN,
            )
        outcome = Outcome.UNKNOWN if entry.withdrawn else Outcome.PENDING
        return Sent(entry.number, entry.digest, entry.topic, None, outcome, error="its caller was cancelled")
