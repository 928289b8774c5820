"""Calls that wait for memory follow their partition when metadata name another leader."""

from __future__ import annotations

import asyncio

from aioproducer.testing import EmbeddedKafka
from tests.net.support import LIMIT, Make, all_acked, engine, numbers, until, warm

MEMORY = 10_000


async def test_a_waiting_call_gets_the_memory_of_its_next_leader(make: Make, pair: EmbeddedKafka) -> None:
    """A dead broker may hold half of the memory; a call that waits for it has room as soon as another broker leads."""
    producer = await warm(make(pair, buffer_memory=MEMORY, batch_size=2_000), "one", "two")
    await producer.send_and_wait("two", b"", partition=0)
    await producer.send_and_wait("two", b"", partition=1)
    old = pair.leader_of("one")
    silence = pair.faults.silence(broker=old, api="Produce")
    answers = pair.faults.delay(before=True, times=None, broker=3 - old, api="Produce")
    engine(producer).machines.share_memory({old})
    sends = [asyncio.ensure_future(producer.send("one", b"%0300d" % number)) for number in range(20)]
    await until(lambda: engine(producer).admission.calls.waiting)
    assert not all(send.done() for send in sends)
    pair.faults.move_leader("one", 0, 3 - old)
    engine(producer).cluster.stale("one")
    async with asyncio.timeout(LIMIT):
        deliveries = await asyncio.gather(*sends)
    assert engine(producer).accumulator.budget.used > MEMORY // 2
    silence.heal()
    answers.heal()
    pair.faults.drop_connections(old)
    assert await all_acked(deliveries)
    assert numbers(pair) == list(range(20))
