"""Dead letters under faults: each record ends in exactly one of acknowledged, set aside, raised and unknown."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from aioproducer import KafkaError, Outcome
from aioproducer.outlets import DeadLetters, SentRecord
from tests.effort import DEAD_LETTERS, seeds
from tests.simulation.fault_schedule import TOPIC, FaultSchedule
from tests.simulation.world import World, simulate

DEAD = "dead"
OF_RECORDS = ("INVALID_RECORD", "INVALID_TIMESTAMP", "MESSAGE_TOO_LARGE")


@pytest.mark.parametrize("seed", seeds(DEAD_LETTERS))
def test_each_record_ends_in_one_way(seed: int) -> None:
    """The logs of both topics agree with the reported outcomes."""

    async def play(world: World) -> None:
        rng = world.rng
        world.forgotten |= {TOPIC, DEAD}
        world.kafka.create_topic(TOPIC, 3, max_message_bytes=3_000)
        world.kafka.create_topic(DEAD, 1)
        producer = world.producer(
            linger_ms=rng.choice((0, 5, 200)),
            batch_size=rng.choice((100, 1_000, 16_384)),
            buffer_memory=rng.choice((8_000, 1_000_000)),
            max_request_size=6_000,
            delivery_timeout_ms=rng.choice((3_000, 20_000)),
            value_serializer=rng.choice((None, lambda data: data)),
        )
        await producer.start()
        letters = DeadLetters(
            producer, DEAD, when=rng.choice((None, None, lambda error: not error.retriable))
        )
        sender = Sender(world, letters)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(FaultSchedule(world).run(rng.randrange(1, 4), 3.0))
            tasks.create_task(sender.run(0))
            tasks.create_task(sender.run(100))
        if rng.random() < 0.3:
            await producer.close(rng.choice((0, 0.1, 5)))
        for record in sender.sent.values():
            await record.wait()
        await asyncio.sleep(3)
        world.kafka.faults.heal()
        await check_all(world, sender.sent)
        assert sum(producer.stats().dead_letters.values()) == sum(
            record.dead_lettered for record in sender.sent.values()
        )

    simulate(play, seed)


class Sender:
    """Sends records of all sizes, and lets brokers refuse some."""

    def __init__(self, world: World, letters: DeadLetters) -> None:
        self.world, self.letters = world, letters
        self.sent: dict[bytes, SentRecord] = {}

    async def run(self, first: int) -> None:
        """Forty records."""
        rng = self.world.rng
        for number in range(first, first + 40):
            record = self._send(b"%d " % number)
            if rng.random() < 0.1:
                task = asyncio.ensure_future(record.wait())
                await asyncio.sleep(rng.choice((0, 0.1)))
                task.cancel()
            if rng.random() < 0.2:
                await record.placed()
            if rng.random() < 0.2:
                self.world.kafka.faults.error(rng.choice(OF_RECORDS), api="Produce")
                await asyncio.sleep(rng.uniform(0, 0.5))

    def _send(self, name: bytes) -> SentRecord:
        rng = self.world.rng
        filling = b"x" * rng.choice((0, 0, 0, 100, 3_500, 7_000))
        timeout = rng.choice((None, None, 0.3, 2.0))
        self.sent[name] = self.letters.send(TOPIC, name + filling, timeout=timeout)
        return self.sent[name]


async def check_all(world: World, sent: dict[bytes, SentRecord]) -> None:
    """Each record has one end, the one that it tells."""
    written, aside = names(world, TOPIC), names(world, DEAD)
    for name, record in sent.items():
        check(name, record, written[name], aside[name])
        if not record.dead_lettered and record.error is not None:
            with pytest.raises(KafkaError):
                await record
        else:
            assert (await record).topic == (DEAD if record.dead_lettered else TOPIC)


def names(world: World, topic: str) -> Counter[bytes]:
    """How often the records are in the log, by their names."""
    return Counter((record.value or b"").partition(b" ")[0] + b" " for record in world.kafka.records(topic))


def check(name: bytes, record: SentRecord, written: int, aside: int) -> None:
    """The logs agree with the outcome of this record."""
    facts = (name, record, record.error, written, aside)
    assert record.done(), facts
    if record.outcome is Outcome.ACKED:
        assert (written, aside, record.error) == (1, 0, None), facts
    elif record.outcome is Outcome.UNKNOWN:
        assert written <= 1, facts
        assert aside == 0, facts
        assert not record.dead_lettered, facts
    elif record.dead_lettered:
        assert (written, aside) == (0, 1), facts
    else:
        # The outcome of its letter may be unknown.
        assert written == 0, facts
        assert aside <= (record._letter is not None), facts
