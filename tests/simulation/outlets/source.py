"""A source whose records go through a checkpoint, and what its position may be by the outcomes of the records."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import attrs

from aioproducer import CheckpointStoppedError, Delivery, KafkaError, Outcome, Producer
from aioproducer._core import peek
from aioproducer.outlets import Checkpoint
from tests.simulation.fault_schedule import TOPIC
from tests.simulation.ledger import Entry
from tests.simulation.world import World


@attrs.define
class Store:
    """Saves positions, at times slowly, at times not."""

    rng: random.Random
    saved: list[int] = attrs.Factory(list)
    is_busy: bool = False

    async def save(self, position: int) -> None:
        """Checks that no call is beside this one, and that none was newer."""
        assert not self.is_busy, "two saves at once"
        assert not self.saved or self.saved[-1] < position, "an older position behind a newer one"
        self.is_busy = True
        try:
            if self.rng.random() < 0.5:
                await asyncio.sleep(self.rng.uniform(0, 2.0))
            if self.rng.random() < 0.2:
                raise OSError("the store is full")
            self.saved.append(position)
        finally:
            self.is_busy = False


class Source:
    """Sends through one checkpoint in several tasks, and knows all records that are sent between two marks."""

    def __init__(self, world: World, producer: Producer[Any, Any], checkpoint: Checkpoint[int]) -> None:
        self.world, self.producer, self.checkpoint = world, producer, checkpoint
        # As a producer, for the ledger.
        self.config = producer.config
        self.rng = random.Random(world.rng.random())
        # The records, and the marks as (position, number of the records before), since the last rewind.
        self.records: list[Entry] = []
        self.marks: list[tuple[int, int]] = []
        self.made = 0
        self.base: int | None = None
        self.generation = 0
        self.rewinds = 0
        # Bulk calls that the position passed before the ledger had read them.
        self.believed: list[Entry] = []

    # -- for the ledger

    def send(self, *arguments: Any, **named: Any) -> Any:
        """See `Checkpoint.send`; a call that the checkpoint has stopped is no record."""
        return self._called(lambda: self.checkpoint.send(*arguments, **named))

    def send_nowait(self, *arguments: Any, **named: Any) -> Any:
        """The same."""
        try:
            return self._called(lambda: self.checkpoint.send_nowait(*arguments, **named))
        except CheckpointStoppedError:
            raise
        except KafkaError as error:
            if error.retriable:
                # It was not sent.
                self.records.remove(self.world.ledger.entries[-1])
            raise

    def send_batch(self, topic: str, values: list[bytes], **named: Any) -> Any:
        """The same."""
        return self._called(lambda: self.checkpoint.send_batch(topic, values, **named), len(values))

    def _called(self, call: Any, count: int = 1) -> Any:
        entries = self.world.ledger.entries[-count:]
        try:
            self.records += entries
            return call()
        except CheckpointStoppedError as error:
            del self.records[-count:]
            for entry in entries:
                entry.error = error
            raise

    # -- the life

    async def run(self, rounds: int) -> None:
        """Send and mark; after a failure, rewind and go on."""
        for _ in range(rounds):
            generation = self.generation
            try:
                await self._step()
                if generation == self.generation and self.rng.random() < 0.8:
                    self._mark()
            except CheckpointStoppedError:
                await self._rewind()
            self.check()
            if self.rng.random() < 0.3:
                await asyncio.sleep(self.rng.uniform(0, 0.5))
                self.check()

    async def _step(self) -> None:
        ledger, rng, me = self.world.ledger, self.rng, self.as_producer
        timeout = rng.choice((None, None, None, 0.3, 2.0))
        partition = rng.choice((None, 0, 1, 2))
        way = rng.randrange(12)
        if way == 0:
            await ledger.send_batch(me, TOPIC, [b""] * rng.randrange(1, 6), partition=partition)
        elif way in (1, 2):
            delivery = ledger.send_nowait(me, TOPIC, timeout=timeout)
            self._maybe_withdraw(delivery)
        elif way == 3:
            delivery = await ledger.send(self.producer, TOPIC, partition=partition, timeout=timeout)
            if delivery is not None:
                self.checkpoint.watch(delivery)
                # Other tasks have sent meanwhile: it is not the newest.
                self.records.append(next(one for one in ledger.entries if one.delivery is delivery))
        elif way == 4:
            await self._cancelled(ledger.send(me, TOPIC, timeout=timeout))
        elif way == 5:
            # A record of another source.
            self._maybe_withdraw(await ledger.send(self.producer, TOPIC))
        else:
            delivery = await ledger.send(me, TOPIC, partition=partition, timeout=timeout)
            self._maybe_withdraw(delivery)

    @property
    def as_producer(self) -> Any:
        """This object, for the ledger."""
        return self

    async def _cancelled(self, call: Any) -> None:
        task = asyncio.get_running_loop().create_task(call)
        await asyncio.sleep(self.rng.choice((0, 0, 0.1)))
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled() and task.exception() is not None:
            raise CheckpointStoppedError

    def _maybe_withdraw(self, delivery: Delivery | None) -> None:
        if delivery is not None and self.rng.random() < 0.03:
            delivery.try_cancel()

    def _mark(self) -> None:
        self.made += 1
        self.checkpoint.mark(self.made)
        self.marks.append((self.made, len(self.records)))

    async def _rewind(self) -> None:
        position = await self.checkpoint.rewind()
        self.check(position)
        if self.checkpoint._generation != self.generation:
            self.generation = self.checkpoint._generation
            self.base, self.records, self.marks = position, [], []
            self.rewinds += 1

    # -- the promise

    def expected(self) -> int | None:
        """The newest mark before which everything is acknowledged."""
        position, before = self.base, 0
        for mark, count in self.marks:
            if not all(map(is_acked, self.records[before:count])):
                break
            position, before = mark, count
        return position

    def check(self, position: int | None = None) -> None:
        """The position has passed no record without an acknowledgement."""
        position = self.checkpoint.position if position is None else position
        if position is None:
            assert self.base is None
            return
        expected = self.expected()
        if expected is not None and position <= expected:
            return
        counts = [count for mark, count in self.marks if mark == position]
        assert counts, (position, self.base)
        for entry in self.records[: counts[0]]:
            if entry.delivery is None and entry.error is None and entry.place is None:
                self.believed.append(entry)
            else:
                assert is_acked(entry), (position, entry)


def is_acked(entry: Entry) -> bool:
    """Is the record acknowledged?"""
    delivery = entry.delivery if entry.sending is None else entry.sending.delivery
    return entry.place is not None or (delivery is not None and peek(delivery)[0] is Outcome.ACKED)
