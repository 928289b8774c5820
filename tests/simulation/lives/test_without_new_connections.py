"""Drawn lives in which no new connection can be opened from a moment on: brokers that had a connection go on to be used."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import attrs
import pytest

from tests.effort import KEPT, seeds
from tests.simulation.access import Access
from tests.simulation.refusing import TOPIC, advertise, at_work, clerk, patient_producer, recover, transact
from tests.simulation.world import World, simulate

LASTS: Final = 150.0
"""Seconds of work."""
ELSEWHERE: Final = "127.0.0.9"
PATIENCE: Final = {"request_timeout_ms": 200_000, "metadata_recovery_rebootstrap_trigger_ms": 300_000}
"""No request is given up: that ends a connection."""
OFTEN: Final = ("rotation", "slow answer", "stale")
NEWS: Final = ("stale", "sent back", "unusable", "elsewhere", "back")
"""The events that metadata are asked after."""


@attrs.define
class Door:
    """The way to the brokers. Nothing that happens here ends a connection that is open."""

    world: World
    rng: random.Random
    producer: Any
    hosts: dict[int, str] = attrs.Factory(dict)
    slowness: float = 0.0
    is_shut: bool = False
    hangs: bool = False
    log: list[str] = attrs.Factory(list)

    def __attrs_post_init__(self) -> None:
        network = self.world.network
        network.alias[ELSEWHERE] = "127.0.0.1"
        connect = network.connect

        async def through_the_door(factory: Callable[[], Any], host: str, port: int) -> Any:
            if self.is_shut and self.hangs:
                await asyncio.sleep(3_600.0)
            if self.is_shut:
                raise ConnectionRefusedError(111, "Connection refused")
            await asyncio.sleep(self.rng.uniform(0.0, self.slowness))
            return await connect(factory, host, port)

        network.connect = through_the_door  # type: ignore[method-assign]

        advertise(self.world, self.hosts)

    def happen(self, apis: tuple[str, ...]) -> None:
        """One event, of those that end no connection."""
        broker = self.rng.choice(self.world.kafka.brokers).id
        events = self._events(broker, apis)
        name = self.rng.choice([*events, *OFTEN, "wrong password" if self.is_shut else "slow network"])
        self.log.append(f"{self.world.now:.2f} {name} {broker}")
        events.get(name, partial(self._change, name))()
        if name in NEWS:
            self.producer._engine.cluster.stale(None)

    def _events(self, broker: int, apis: tuple[str, ...]) -> dict[str, Callable[[], object]]:
        faults, rng = self.world.kafka.faults, self.rng
        sent_back = partial(faults.alter, lambda answer: answer._replace(error_code=129), api="Metadata")
        delay = partial(faults.delay, api=rng.choice(apis), broker=broker, before=rng.random() < 0.5)
        return {
            "rotation": self._rotate,
            "two rotations": self._rotate_twice,
            "slow answer": partial(delay, rng.choice((0.5, 3.0, 9.0))),
            "slow metadata": partial(faults.delay, rng.choice((0.5, 3.0)), api="Metadata"),
            "sent back": partial(sent_back, times=rng.choice((1, 3))),
            "unusable": partial(
                faults.error, "UNKNOWN_SERVER_ERROR", api="Metadata", times=rng.choice((1, 3))
            ),
            "elsewhere": partial(self.hosts.update, {broker: ELSEWHERE}),
            "back": self.hosts.clear,
            "stale": partial(self.log.append, "nothing new"),
        }

    def _change(self, name: str) -> None:
        if name == "wrong password":
            self.producer.set_credentials(password="wrong")
        else:
            self.slowness = self.rng.choice((0.0, 0.5, 4.0))

    def _rotate(self) -> None:
        self.producer.set_credentials(password="first")

    def _rotate_twice(self) -> None:
        self._rotate()
        self.world.loop.call_later(self.rng.choice((0.001, 0.01, 0.2, 1.0)), self._rotate)

    async def live(self, apis: tuple[str, ...]) -> None:
        """Some events, and no new connections then; further events until the work ends."""
        rng = self.rng
        end = self.world.now + LASTS
        for _ in range(rng.randrange(1, 8)):
            self.happen(apis)
            await asyncio.sleep(rng.choice((0.02, 0.5, 3.0)))
        self.is_shut, self.hangs = True, rng.random() < 0.5
        self.log.append(f"{self.world.now:.2f} shut")
        for _ in range(rng.randrange(2, 12)):
            self.happen(apis)
            await asyncio.sleep(rng.choice((0.02, 0.5, 3.0, 8.0)))
        await asyncio.sleep(max(0.0, end - self.world.now))

    async def open(self) -> None:
        """The network is well again, and the password is right."""
        self.is_shut, self.slowness = False, 0.0
        self.hosts.clear()
        await recover(self.world, self.producer)


def drawn(seed: int) -> tuple[random.Random, Access, int]:
    """The choices of a life, its access, and the number of its brokers."""
    rng = random.Random(f"without new connections {seed}")
    access = Access(rng.choice(("PLAIN", "SCRAM-SHA-256")), session=None, token=3_600.0, slowness=0.0)
    return rng, access, rng.choice((1, 3, 4))


@pytest.mark.parametrize("seed", seeds(KEPT))
def test_records_to_connected_brokers_are_acknowledged(seed: int) -> None:
    """Each broker that has a connection when the last one could be opened takes all later records."""
    rng, access, brokers = drawn(seed)

    async def play(world: World) -> None:
        producer = patient_producer(
            world,
            **PATIENCE,
            metadata_max_age_ms=rng.choice((2_000, 20_000, 300_000)),
            max_in_flight_requests_per_connection=rng.choice((1, 5)),
        )
        places = await at_work(world, producer, brokers)
        door = Door(world, rng, producer)
        living = asyncio.create_task(door.live(("Produce",)))
        sent: list[tuple[int, Any]] = []
        connected: set[int] = set(places)
        while not living.done():
            if not door.is_shut:
                links = producer._engine.senders
                connected = {broker for broker in places if links[broker].link is not None}
            for broker, partition in places.items():
                sent.append((broker, await world.ledger.send(producer, TOPIC, b"x", partition=partition)))
            await asyncio.sleep(rng.choice((0.05, 0.3, 1.0)))
        await living
        await asyncio.sleep(60.0)
        late = [broker for broker, delivery in sent if broker in connected and not delivery.done()]
        assert not late, "\n".join([f"AIOPRODUCER_SEED={seed}", str(late[:5]), *door.log])
        await door.open()
        await asyncio.gather(*(delivery for broker, delivery in sent if broker in connected))

    simulate(play, seed, access=access, brokers=brokers, history=100_000)


@pytest.mark.parametrize("seed", seeds(KEPT))
def test_transactions_over_connections_that_are_open_are_committed(seed: int) -> None:
    """Each in the time that the drawn delays take, and not in that until connections can be opened again."""
    rng, access, brokers = drawn(seed)

    async def play(world: World) -> None:
        world.kafka.set_transaction_version(rng.choice((1, 2)))
        producer = await clerk(world, **PATIENCE, metadata_max_age_ms=rng.choice((2_000, 300_000)))
        await transact(producer)
        door = Door(world, rng, producer)
        living = asyncio.create_task(door.live(("Produce", "EndTxn", "AddPartitionsToTxn")))
        while not living.done():
            began = world.now
            await transact(producer)
            lasted = world.now - began
            assert lasted < 60.0, "\n".join([f"AIOPRODUCER_SEED={seed}", f"{lasted} s", *door.log])
            await asyncio.sleep(rng.choice((0.05, 1.0, 5.0, 15.0)))
        await living
        await door.open()

    simulate(play, seed, access=access, brokers=brokers, history=100_000)
