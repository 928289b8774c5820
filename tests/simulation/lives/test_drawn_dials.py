"""Lives whose dials meet everything at once for 15 s: addresses that hang, refuse or are slow, refusals, moves, new passwords.

Then each new connection is well, and attempts that hang go on hanging. No commit becomes UNKNOWN with the time limits of Java and
requests of a minute.
"""

from __future__ import annotations

import asyncio
import errno
import itertools
import random
from collections.abc import Callable
from typing import Any, Final

import attrs
import pytest

from aioproducer.errors import AuthenticationError
from aioproducer.testing import Fault
from tests.effort import DIALS, seeds
from tests.simulation.access import Access
from tests.simulation.refusing import TOPIC, advertise, clerk, patient_producer, send_to_each, transact
from tests.simulation.world import World, simulate

LASTS: Final = 15.0
BROKERS: Final = (1, 2, 3)
# The states of an address: the number of requests that reach the broker, which is silent about the rest; well more often.
SILENT_AFTER: Final = {"silent": 0, "silent after one": 1, "silent after two": 2}
STATES: Final = ("well", "well", "hole", "refuses", "slow", *SILENT_AFTER, "silent after one")
LIMITS: Final = {"request_timeout_ms": 60_000, "max_block_ms": 60_000, "delivery_timeout_ms": 120_000}


@attrs.define
class Strikes:
    """The faults of a life, drawn anew every few seconds."""

    world: World
    hosts: list[str]
    states: dict[tuple[str, int], str] = attrs.Factory(dict)
    faults: list[Fault] = attrs.Factory(list)

    def __attrs_post_init__(self) -> None:
        connect = self.world.network.connect

        async def struck(factory: Callable[[], Any], host: str, port: int) -> Any:
            state = self.states.get((host, port), "well")
            if state == "hole":
                await asyncio.sleep(1_000.0)
            if state == "refuses":
                raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
            if state == "slow":
                await asyncio.sleep(self.world.rng.uniform(0.0, 4.0))
            transport, connection = await connect(factory, host, port)
            if state in SILENT_AFTER:
                silence(transport, SILENT_AFTER[state])
            return transport, connection

        self.world.network.connect = struck  # type: ignore[method-assign]

    async def last(self, producer: Any) -> None:
        """Strike, for some seconds."""
        rng, until = self.world.rng, self.world.now + LASTS
        while self.world.now < until:
            self.strike(producer)
            await asyncio.sleep(min(rng.uniform(0.0, 6.0), until - self.world.now))
        self.states.clear()
        self._heal()

    def strike(self, producer: Any) -> None:
        """Draw the states of all addresses, brokers and places."""
        rng, faults = self.world.rng, self.world.kafka.faults
        self._heal()
        for broker in BROKERS:
            for host in self.hosts:
                self.states[host, self.world.port(broker)] = rng.choice(STATES)
            drawn = rng.random()
            if drawn < 0.15:
                takes = rng.choice((1.0, 4.0, 8.0, 12.0))
                self.faults.append(faults.delay(takes, api="SaslAuthenticate", broker=broker, times=None))
            elif drawn < 0.35:
                self.faults.append(faults.error(58, api="SaslAuthenticate", broker=broker, times=None))
            if rng.random() < 0.6:
                faults.drop_connections(broker)
        if rng.random() < 0.4:
            faults.move_coordinator("clerk", rng.choice(BROKERS))
        if rng.random() < 0.3:
            faults.move_leader(TOPIC, rng.randrange(3), rng.choice(BROKERS))
        if rng.random() < 0.2:
            producer.set_credentials(username="alice", password="first")

    def _heal(self) -> None:
        for fault in self.faults:
            fault.heal()
        self.faults.clear()


def silence(transport: Any, after: int) -> None:
    """So many writes of a connection reach the broker."""
    write, writelines, writes = transport.write, transport.writelines, itertools.count()

    def written(data: Any) -> None:
        if next(writes) < after:
            write(data)

    def lines_written(parts: Any) -> None:
        if next(writes) < after:
            writelines(parts)

    transport.write, transport.writelines = written, lines_written


def live(seed: int, *, is_transactional: bool) -> None:
    """Three uses, of which each ends within a minute, or tells that the password was refused."""
    drawn = random.Random(seed)

    async def play(world: World) -> None:
        hosts = [f"127.0.0.{number}" for number in range(11, 11 + drawn.choice((1, 1, 2, 3)))]
        world.network.alias.update(dict.fromkeys(hosts, "127.0.0.1"))
        world.network.names["zones"] = hosts
        advertise(world, dict.fromkeys(BROKERS, "zones"))
        servers = ",".join(f"zones:{world.port(broker)}" for broker in BROKERS)
        settings = LIMITS | {"bootstrap_servers": servers}
        producer = await clerk(world, **settings) if is_transactional else patient_producer(world, **settings)
        if not is_transactional:
            world.kafka.create_topic(TOPIC, 3)
            await producer.start()
        await use(world, producer, is_transactional=is_transactional)
        strikes = Strikes(world, hosts)
        striking = asyncio.create_task(strikes.last(producer))
        for _ in range(3):
            began = world.now
            try:
                await use(world, producer, is_transactional=is_transactional)
            except AuthenticationError:
                assert world.now < began + 60.0
        await striking
        await use(world, producer, is_transactional=is_transactional)

    access = Access(
        "PLAIN",
        session=drawn.choice((None, None, 5.0, 30.0)),
        token=3_000.0,
        slowness=drawn.choice((0.0, 0.0, 2.0)),
    )
    simulate(play, seed, access=access, history=100_000)


async def use(world: World, producer: Any, *, is_transactional: bool) -> None:
    """A transaction that is committed, or records that are acknowledged, within a minute."""
    began = world.now
    if is_transactional:
        await transact(producer)
    else:
        await asyncio.gather(*await send_to_each(world, producer, range(3)))
    assert world.now < began + 60.0


@pytest.mark.parametrize("seed", seeds(DIALS))
def test_records(seed: int) -> None:
    """Each one is acknowledged."""
    live(seed, is_transactional=False)


@pytest.mark.parametrize("seed", seeds(DIALS))
def test_transactions(seed: int) -> None:
    """Each one is committed."""
    live(seed, is_transactional=True)
