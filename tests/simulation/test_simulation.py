"""The simulation itself: time is virtual, chance comes from the seed, and a connection is cut at the given byte."""

from __future__ import annotations

import asyncio
import hashlib
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from aioproducer import Outcome
from tests.simulation.chaos import live
from tests.simulation.days import idempotent
from tests.simulation.loop import SimulatedLoop, StuckError
from tests.simulation.world import World, simulate

ROOT = Path(__file__).resolve().parents[2]


def fingerprint(seed: int) -> str:
    """The outcomes of all records of a chaotic life, and every line of its log."""

    async def play(world: World) -> None:
        await live(world)

    world = simulate(play, seed)
    lines = [f"{record.levelno} {record.getMessage()}" for record in world.log]
    return hashlib.sha256(repr((world.ledger.history(), lines, world.now)).encode()).hexdigest()


def fingerprint_of_days(seed: int) -> str:
    """All requests to the brokers in a life of days, with two topics that come and go."""
    lived: list[idempotent.Life] = []

    async def play(world: World) -> None:
        await idempotent.live(world, lived)

    world = simulate(play, seed, **idempotent.options_of(seed))
    asked = [f"{request.broker} {request.summary}" for request in world.kafka.requests]
    return hashlib.sha256(repr((lived[0].scene.story, asked, world.now)).encode()).hexdigest()


@pytest.mark.parametrize(
    ("seed", "life"),
    [(3, fingerprint), (4, fingerprint), (7, fingerprint), (2278, fingerprint_of_days)],
)
def test_a_seed_replays_a_life_to_the_last_digit(seed: int, life: Callable[[int], str]) -> None:
    """The replay is the same in another process, whose string hashes differ."""
    name = life.__name__
    program = f"from tests.simulation.test_simulation import {name}; print({name}({seed}))"
    replays = {
        subprocess.run(
            [sys.executable, "-c", program],
            cwd=ROOT,
            env=os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for hash_seed in ("1", "2")
    }
    assert replays == {life(seed)}


def test_seeds_differ() -> None:
    """Another seed is another life."""
    assert fingerprint(1) != fingerprint(2)


def test_an_hour_takes_no_time() -> None:
    """Virtual time jumps; the program takes hardly any time of the processor."""
    began = time.process_time()

    async def play(world: World) -> None:
        before = world.now
        await asyncio.sleep(3600)
        assert 3600 <= world.now - before < 3600.1

    simulate(play, 0)
    assert time.process_time() - began < 5


def test_who_waits_for_ever_is_found() -> None:
    """A simulation in which no event can follow ends with an error instead of hanging."""
    loop = SimulatedLoop(random.Random(1))
    with pytest.raises(StuckError, match="nothing will ever happen"):
        loop.run_until_complete(loop.create_future())
    loop.close()


def test_tasks_that_are_ready_together_run_in_any_order() -> None:
    """The order in which tasks become ready is chance, so every order is tried."""

    def order(seed: int) -> str:
        ran: list[str] = []

        async def step(name: str) -> None:
            ran.append(name)

        async def main() -> None:
            await asyncio.gather(step("a"), step("b"), step("c"))

        loop = SimulatedLoop(random.Random(seed))
        loop.run_until_complete(main())
        loop.close()
        return "".join(ran)

    assert {order(seed) for seed in range(60)} == {"abc", "acb", "bac", "bca", "cab", "cba"}


def test_what_a_frozen_broker_was_sent_is_read_later() -> None:
    """A resumed process reads the bytes that were sent before, also those that the sender has given up."""

    async def play(world: World) -> None:
        world.kafka.create_topic("t", 1)
        producer = world.producer(request_timeout_ms=500, delivery_timeout_ms=1_000, linger_ms=0)
        await producer.start(wait_ready=5)
        await producer.partitions_for("t")
        await (await producer.send("t", b"first"))
        port = world.port(world.kafka.leader_of("t"))
        world.network.hold(port)
        delivery = await world.ledger.send(producer, "t")
        assert delivery is not None
        assert await delivery.wait(5) is Outcome.UNKNOWN
        assert len(world.kafka.records("t")) == 1
        world.network.release(port)
        await asyncio.sleep(1)
        assert len(world.kafka.records("t")) == 2
        world.forgotten.add("t")

    simulate(play, 5)


@pytest.mark.parametrize("seed", range(5))
def test_a_cut_is_made_at_its_byte(seed: int) -> None:
    """The next connection carries so many bytes and not one more; the one after it is whole."""

    async def play(world: World) -> None:
        world.kafka.create_topic("t", 1)
        producer = world.producer(linger_ms=0)
        await producer.start(wait_ready=5)
        await producer.partitions_for("t")
        port = world.port(world.kafka.leader_of("t"))
        world.network.reset(port)
        cut = world.network.cut(port, 100, to_broker=True)
        delivery = await world.ledger.send(producer, "t", bytes(500))
        assert delivery is not None
        assert await delivery.wait(10) is Outcome.ACKED
        assert cut.happened
        assert 100 in world.network.lengths(port)

    simulate(play, seed)
