"""Exactly once, from end to end: copiers and brokers are killed while a foreign reader watches the committed records.

Stopped copiers resume after others have taken over, also in the middle of a transaction. Each input is seen once and in
order, also during the faults, and the offsets of the group move with it. 50,000 records in
`make test`; ten times as many with `AIOPRODUCER_EFFORT=proof`.
"""

from __future__ import annotations

import asyncio
import random
import re
import time
from typing import Final

import pytest

from tests.effort import PROOF, SEED_VARIABLE
from tests.kafka.copiers.copying import Copying
from tests.kafka.reading import messages
from tests.seeds import seed_of
from tools.kafka_cluster import KafkaCluster

RECORDS: Final = 500_000 if PROOF else 50_000
ROUNDS: Final = 20 if PROOF else 2
FAULTS_BETWEEN: Final = ("copier", "copier", "zombie")
"""The faults of a round after the kill of a broker, which gets its copies back before the next kill."""
_SEED: Final = seed_of(__name__)

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(3600 if PROOF else 300)]


async def test_each_input_once_and_in_order(
    transacting_nodes: KafkaCluster, request: pytest.FixtureRequest
) -> None:
    """After every kill each input is committed once, in order, together with its offset."""
    print(f"replay these faults with {SEED_VARIABLE}={_SEED}")
    began = time.monotonic()
    async with Copying(transacting_nodes, _name(request), _SEED, RECORDS) as copying:
        faults = _drawn(copying.rng)
        portion = RECORDS // (len(faults) + 2)
        await _late_transactions(copying, portion)
        for number, fault in enumerate(faults):
            await copying.until_seen(portion * (number + 1))
            await _make(fault, copying, portion)
            await copying.offsets_agree()
        await copying.fill(RECORDS - portion * (len(faults) + 1))
        await copying.finish()
        seconds = time.monotonic() - began
        written = await asyncio.to_thread(_count, copying)
        steps, recoveries = copying.steps(), copying.recoveries()
    assert written > RECORDS
    assert steps["aborted"] > RECORDS / 1000
    _report(request, f"{RECORDS} copied, {written} written in {seconds:.1f} s; {steps}; {copying.counts}")
    _report(request, f"what copiers had to recover from: {recoveries}")


async def _late_transactions(copying: Copying, portion: int) -> None:
    """Copiers are stopped as a transaction begins or ends, and resume after a takeover: they commit nothing."""
    await copying.fill(portion)
    zombies = [await copying.start(index, hold=hold) for index, hold in enumerate(("begun", "sent"))]
    await copying.until(lambda: all(one.steps["holding"] for one in zombies), "both in their transactions")
    for index in range(copying.copiers):
        await copying.stop_copier_for_its_successor(index)
    await copying.offsets_agree()
    assert [(one.steps["committed"], one.steps["fenced"]) for one in zombies] == [(0, 1)] * 2


def _drawn(rng: random.Random) -> list[str]:
    rounds = (["broker", *rng.sample(FAULTS_BETWEEN, len(FAULTS_BETWEEN))] for _ in range(ROUNDS))
    return [fault for faults in rounds for fault in faults]


async def _make(fault: str, copying: Copying, portion: int) -> None:
    """Fill in a portion more, and make a fault in the middle of its copying."""
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
    """The number of records in the sink, committed or not."""
    return sum(1 for _ in messages(copying.servers, copying.sink))


def _name(request: pytest.FixtureRequest) -> str:
    """The names of topics and groups: both versions share the cluster."""
    return re.sub(r"\W+", "-", request.node.name).strip("-")


def _report(request: pytest.FixtureRequest, text: str) -> None:
    capture = request.config.pluginmanager.get_plugin("capturemanager")
    assert capture is not None
    with capture.global_and_fixture_disabled():
        print(f"\n{request.node.name}: {text}")
