"""Exactly once, from end to end: copiers and brokers are killed while a foreign reader watches what is committed.

Each input is seen once and in order, also while it happens, and the offsets of the group move with it. 50,000 records in
`make test`; ten times as many with `AIOPRODUCER_EFFORT=proof`.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from typing import Final

import pytest

from tests.effort import PROOF, SEED_VARIABLE
from tests.kafka.copying import Copying
from tests.kafka.reading import messages
from tools.kafka_cluster import KafkaCluster

RECORDS: Final = 500_000 if PROOF else 50_000
FAULTS: Final = {"copier": 4, "broker": 2, "zombie": 2}
_TIMES: Final = 10 if PROOF else 1
_SEED: Final = int(os.environ.get(SEED_VARIABLE) or random.SystemRandom().randrange(2**31))

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(3600 if PROOF else 300)]


async def test_each_input_once_and_in_order(
    transacting_cluster: KafkaCluster, request: pytest.FixtureRequest
) -> None:
    """Whatever is killed, each input is committed once, in order, together with its offset."""
    print(f"replay these faults with {SEED_VARIABLE}={_SEED}")
    began = time.monotonic()
    async with Copying(transacting_cluster, _name(request, "copied"), _SEED, RECORDS) as copying:
        for index in range(copying.copiers):
            await copying.start(index)
        faults = [fault for fault, times in FAULTS.items() for _ in range(times * _TIMES)]
        copying.rng.shuffle(faults)
        portion = RECORDS // (len(faults) + 1)
        for number, fault in enumerate(faults):
            await copying.until_seen(portion * number)
            await _make(fault, copying, portion)
            await copying.offsets_agree()
        await copying.fill(RECORDS - portion * len(faults))
        await copying.finish()
        seconds = time.monotonic() - began
        written = await asyncio.to_thread(_count, copying)
        told = copying.told()
    assert written > RECORDS
    assert told["aborted"] > RECORDS / 1000
    _report(request, f"{RECORDS} copied, {written} written in {seconds:.1f} s; {told}; {copying.counts}")


async def _make(fault: str, copying: Copying, portion: int) -> None:
    """A portion more to copy, and a fault in the middle of that."""
    index = copying.rng.randrange(copying.copiers)
    if fault == "zombie":
        filling = asyncio.create_task(copying.fill(portion))
        await copying.stop_copier_for_its_successor(index)
        await filling
        return
    seen = copying.watcher.total
    filling = asyncio.create_task(copying.fill(portion))
    await copying.until_seen(seen + copying.rng.randrange(portion))
    if fault == "copier":
        await copying.kill_copier(index)
    else:
        await copying.kill_broker(copying.rng.choice(copying.kafka.nodes))
    await filling


def _count(copying: Copying) -> int:
    """How many records the sink has, whatever became of their transactions."""
    return sum(1 for _ in messages(copying.servers, copying.sink))


@pytest.mark.parametrize("moment", ["begun", "sent"])
async def test_the_late_transaction_of_a_zombie(
    transacting_cluster: KafkaCluster, request: pytest.FixtureRequest, moment: str
) -> None:
    """Stopped in the middle of a transaction, it goes on when another has taken over: nothing of it is ever seen."""
    count = 6_000
    async with Copying(transacting_cluster, _name(request, moment), _SEED, count, copiers=1) as copying:
        await copying.fill(count // 2)
        zombie = await copying.start(0, hold=moment)
        await copying.until(lambda: zombie.told["holding"], "the middle of its transaction")
        await copying.stop_copier_for_its_successor(0)
        await copying.offsets_agree()
        await copying.fill(count // 2)
        await copying.finish()
    assert (zombie.told["committed"], zombie.told["fenced"]) == (0, 1)


def _name(request: pytest.FixtureRequest, what: str) -> str:
    """Each version has its own cluster, so that names may repeat."""
    return what


def _report(request: pytest.FixtureRequest, text: str) -> None:
    capture = request.config.pluginmanager.get_plugin("capturemanager")
    assert capture is not None
    with capture.global_and_fixture_disabled():
        print(f"\n{request.node.name}: {text}")
