"""Dead letters inside transactions: a commit contains each record or its dead letter, an abort neither of them."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any, Final

import attrs
import pytest

from aioproducer import (
    BufferFullError,
    CommitOutcomeUnknownError,
    KafkaError,
    Outcome,
    Producer,
    Record,
    RecordError,
)
from aioproducer.outlets import DeadLetters, SentRecord
from tests.effort import DEAD_LETTERS, seeds
from tests.simulation.world import World, simulate

TOPIC: Final = "t"
DEAD: Final = "dead"
ROUNDS: Final = 6
FAULTS: Final = {
    "Produce": ("NOT_LEADER_OR_FOLLOWER", "INVALID_RECORD", "REQUEST_TIMED_OUT"),
    "EndTxn": ("NOT_COORDINATOR", "CONCURRENT_TRANSACTIONS"),
    "AddPartitionsToTxn": ("NOT_COORDINATOR", "CONCURRENT_TRANSACTIONS"),
    "Metadata": ("LEADER_NOT_AVAILABLE",),
}


class ChangedMindError(Exception):
    """The program drops the transaction."""


@attrs.define(eq=False)
class Writer:
    """Transactions of one producer, whose records can often never be written."""

    world: World
    sent: dict[bytes, SentRecord] = attrs.Factory(dict)
    withdrawn: set[bytes] = attrs.Factory(set)
    put: set[bytes] = attrs.Factory(set)
    """Records that the program set aside."""
    findings: list[str] = attrs.Factory(list)

    def producer(self) -> Producer[Any, Any]:
        """The producer, whose serializer refuses the values of some records, at once or later."""
        rng = self.world.rng
        slow = rng.random() < 0.6

        def serialized(data: tuple[bytes, bool]) -> bytes:
            value, is_wrong = data
            if is_wrong:
                raise RecordError("the record is wrong")
            return value

        async def serialized_later(data: tuple[bytes, bool]) -> bytes:
            await asyncio.sleep(rng.choice((0.0, 0.001, 0.1, 1.0)))
            return serialized(data)

        return self.world.producer(
            transactional_id="tx",
            linger_ms=rng.choice((0, 5, 200)),
            buffer_memory=rng.choice((20_000, 1_000_000)),
            max_request_size=6_000,
            value_serializer=serialized_later if slow else serialized,
        )

    def topic_of(self, record: Any) -> str:
        """The topic of a dead letter. The function fails at times."""
        del record
        if self.world.rng.random() < 0.1:
            raise LookupError("no route")
        return DEAD

    async def live(self) -> None:
        """Transactions one after the other."""
        rng = self.world.rng
        producer = self.producer()
        await producer.start()
        letters = DeadLetters(producer, rng.choice((DEAD, self.topic_of)))
        for number in range(ROUNDS):
            await self._round(producer, letters, number)
        self.world.kafka.faults.heal()

    async def _round(self, producer: Producer[Any, Any], letters: DeadLetters, number: int) -> None:
        rng, names = self.world.rng, []
        self._disturb()
        try:
            async with producer.transaction():
                for at in range(rng.randrange(1, 6)):
                    name = b"%d.%d " % (number, at)
                    names.append(name)
                    await (self._send(letters, name) if rng.random() < 0.8 else self._put(letters, name))
                if rng.random() < 0.15:
                    raise ChangedMindError
        except CommitOutcomeUnknownError:
            await producer.init_transactions(timeout=60)
            return
        except (KafkaError, ChangedMindError):
            await self._judge(number, names, committed=False)
        else:
            await self._judge(number, names, committed=True)

    async def _put(self, letters: DeadLetters, name: bytes) -> None:
        """Set a record aside, and go on after any exception; where there is no room, the record is dropped."""
        try:
            delivery = letters.put(Record(TOPIC, name), ValueError("no customer"))
        except BufferFullError:
            self.withdrawn.add(name)
        except (LookupError, KafkaError):
            self.put.add(name)
        else:
            self.put.add(name)
            await delivery.wait(self.world.rng.choice((0.0, 5.0)))

    async def _send(self, letters: DeadLetters, name: bytes) -> None:
        rng = self.world.rng
        filling = b"x" * rng.choice((0, 0, 0, 7_000))
        self.sent[name] = sent = letters.send(TOPIC, (name + filling, rng.random() < 0.3))
        match rng.randrange(6):
            case 0:
                await sent.placed()
            case 1:
                await sent.wait(rng.choice((0.01, 5.0)))
            case 2:
                sent.withdraw()
                self.withdrawn.add(name)

    def _disturb(self) -> None:
        rng, faults = self.world.rng, self.world.kafka.faults
        for _ in range(rng.choice((0, 0, 1, 2))):
            api = rng.choice(sorted(FAULTS))
            where: dict[str, Any] = {"api": api, "skip": rng.choice((0, 1)), "times": rng.choice((1, 2))}
            match rng.randrange(3):
                case 0:
                    faults.cut(before=rng.random() < 0.3, **where)
                case 1:
                    faults.delay(rng.uniform(0.01, 1.5), before=rng.random() < 0.5, **where)
                case 2:
                    faults.error(rng.choice(FAULTS[api]), **where)

    async def _judge(self, number: int, names: list[bytes], *, committed: bool) -> None:
        await asyncio.sleep(0.5)
        written, aside = self._names(TOPIC), self._names(DEAD)
        for name in names:
            sent = self.sent.get(name)
            if sent is None:
                expected = (0, int(committed and name in self.put))
                if (written[name], aside[name]) != expected:
                    facts = f"{written[name]} written, {aside[name]} set aside"
                    self.findings.append(f"{name!r} of {number}, {committed=}, was put: {facts}")
                continue
            if not sent.done():
                self.findings.append(f"{name!r} of transaction {number} has no end")
            expected = {
                Outcome.ACKED: (1, 0),
                Outcome.NOT_WRITTEN: (0, int(sent.dead_lettered)),
            }.get(sent.outcome if committed else Outcome.UNKNOWN, (0, 0))
            is_lost = committed and expected == (0, 0) and name not in self.withdrawn
            if (written[name], aside[name]) != expected or is_lost:
                facts = f"{sent}, {written[name]} written, {aside[name]} set aside: {sent.error!r}"
                self.findings.append(f"{name!r} of {number}, {committed=}: {facts}")

    def _names(self, topic: str) -> Counter[bytes]:
        values = [record.value or b"" for record in self.world.kafka.records(topic)]
        # The letter of a record without bytes has the `repr` of its value.
        return Counter(value.removeprefix(b"(b'").partition(b" ")[0] + b" " for value in values)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("seed", seeds(DEAD_LETTERS))
def test_a_commit_has_each_record_or_its_letter(seed: int, version: int) -> None:
    """Whenever a record is refused, also while its transaction is being committed."""
    writers: list[Writer] = []

    async def play(world: World) -> None:
        world.forgotten |= {TOPIC, DEAD}
        world.kafka.create_topic(TOPIC, 3, max_message_bytes=10_000)
        world.kafka.create_topic(DEAD, 1)
        writers.append(writer := Writer(world))
        await writer.live()

    simulate(play, seed, transaction_version=version)
    findings = writers[0].findings
    assert not findings, "\n".join([f"AIOPRODUCER_SEED={seed}", *findings])
