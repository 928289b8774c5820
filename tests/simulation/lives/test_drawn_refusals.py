"""Lives in which wrong credentials are refused, or not answered, for ten seconds at hosts of several addresses, and the right ones follow.

Providers raise, hang, or give a former password first; sessions end meanwhile, another producer is refused beside this one, and
some producers are closed while their dials wait for their turn. The right credentials wait for nothing of that.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
from collections.abc import Awaitable, Callable
from typing import Any, Final

import pytest

from aioproducer.errors import AuthenticationError, KafkaError
from tests.effort import DIALS, seeds
from tests.simulation.access import Access, ProviderError
from tests.simulation.lives.test_drawn_dials import SILENT_AFTER, silence
from tests.simulation.refusing import advertise, clerk, patient_producer, transact
from tests.simulation.world import World, simulate

LASTS: Final = 10.0
BROKERS: Final = (1, 2, 3)
STATES: Final = ("well", "silent after one", "silent after two", "resets")
# What the provider of the right password does at its first call, and the seconds that this may cost.
PROVIDERS: Final = {"gives": 0.0, "is slow": 8.0, "raises": 2.5, "gives the former": 2.5}


class Hosts:
    """The addresses of the brokers, and the state of each one."""

    def __init__(self, world: World, hosts: list[str]) -> None:
        self.states: dict[tuple[str, int], str] = {}
        self._world = world
        self._hosts = hosts
        self._silenced: list[Any] = []
        self._connect = world.network.connect
        world.network.alias.update(dict.fromkeys(hosts, "127.0.0.1"))
        world.network.names["zones"] = hosts
        advertise(world, dict.fromkeys(BROKERS, "zones"))
        world.network.connect = self._connected  # type: ignore[method-assign]

    async def _connected(self, factory: Callable[[], Any], host: str, port: int) -> Any:
        state = self.states.get((host, port), "well")
        transport, connection = await self._connect(factory, host, port)
        if state in SILENT_AFTER:
            silence(transport, SILENT_AFTER[state])
            self._silenced.append(transport)
        if state == "resets":
            silence(transport, 1)
            self._silenced.append(transport)
            self._world.loop.call_later(self._world.rng.uniform(0.0, 2.0), transport.abort)
        return transport, connection

    def draw(self) -> None:
        """Another state for each address of each broker."""
        rng = self._world.rng
        for host, broker in itertools.product(self._hosts, BROKERS):
            self.states[host, self._world.port(broker)] = rng.choice(STATES)

    def heal(self, *, are_reset: bool) -> None:
        """New connections are well. Those that are silent stay so, or are reset."""
        self.states.clear()
        if are_reset:
            for transport in self._silenced:
                transport.abort()


def provider_of(kind: str) -> Callable[[], Awaitable[str]]:
    """A function that gives the right password, at last."""
    calls = itertools.count()

    async def provide() -> str:
        is_first = next(calls) == 0
        if kind == "is slow":
            await asyncio.sleep(0.8)
        if is_first and kind == "raises":
            raise ProviderError("not yet")
        return "first" if is_first and kind == "gives the former" else "second"

    return provide


async def hang() -> str:
    """A provider of passwords that never gives one."""
    await asyncio.sleep(3_600.0)
    return "never"


def give_wrong(rng: random.Random, producer: Any, number: int) -> None:
    """Wrong credentials of any kind."""
    wrong = f"wrong {number}"

    async def provide() -> str:
        await asyncio.sleep(rng.uniform(0.0, 0.3))
        if rng.random() < 0.3:
            raise ProviderError("not yet")
        return wrong

    producer.set_credentials(password=rng.choice((wrong, wrong, "wrong", provide, hang)))


async def trouble(world: World, hosts: Hosts, producers: list[Any]) -> None:
    """Ten seconds of it."""
    rng, faults, until = world.rng, world.kafka.faults, world.now + LASTS
    for number in itertools.count():
        hosts.draw()
        healed = []
        for broker in BROKERS:
            if rng.random() < 0.7 or number == 0:
                faults.drop_connections(broker)
            drawn = rng.random()
            if drawn < 0.15:
                healed.append(
                    faults.delay(rng.uniform(0.1, 4.0), api="SaslAuthenticate", broker=broker, times=None)
                )
            elif drawn < 0.25:
                # No refusal of the credentials: authorization, and a broker that does not know the mechanism.
                healed.append(
                    faults.error(rng.choice((31, 33)), api="SaslAuthenticate", broker=broker, times=None)
                )
        for producer in producers:
            if rng.random() < 0.6:
                give_wrong(rng, producer, number)
        await asyncio.sleep(min(rng.uniform(0.0, 4.0), until - world.now))
        for fault in healed:
            fault.heal()
        if world.now >= until:
            return


def live(seed: int, *, is_closed: bool = False) -> None:
    """A transaction, and a question about a topic, that wait for the right credentials."""
    drawn = random.Random(seed)
    access = Access(
        drawn.choice(("PLAIN", "SCRAM-SHA-256")),
        session=drawn.choice((None, 3.0, 10.0)),
        token=3_000.0,
        slowness=0.0,
    )

    async def play(world: World) -> None:
        kafka = world.kafka
        hosts = Hosts(world, [f"127.0.0.{number}" for number in range(11, 11 + drawn.choice((1, 2, 2, 3)))])
        kafka.create_topic("another", 1)
        settings = {
            "bootstrap_servers": f"zones:{world.port(1)}",
            "request_timeout_ms": 60_000,
            "sasl_password": "first",
        }
        producer = await clerk(world, **settings)
        other = patient_producer(world, **settings)
        await other.start()
        await transact(producer)
        kafka.users["alice"] = "second"
        sending = asyncio.create_task(transact(producer))
        await trouble(world, hosts, [producer, other])
        if is_closed:
            began = world.now
            await producer.close(timeout=0.5)
            assert world.now - began < 1.0
            with pytest.raises(KafkaError):
                await sending
        are_reset = drawn.random() < 0.5
        kind = drawn.choice([*PROVIDERS])
        hosts.heal(are_reset=are_reset)
        began = world.now
        used = other if is_closed else producer
        for each in (other,) if is_closed else (producer, other):
            each.set_credentials(password=provider_of(kind))
        with contextlib.suppress(AuthenticationError):  # the former one was the answer of this provider
            await used.partitions_for("another", timeout=60.0)
        assert len(await used.partitions_for("another", timeout=60.0)) == 1
        partitions = world.now - began
        if not is_closed:
            await sending
        took = world.now - began
        print(
            f"seed {seed}: {access.mechanism} {kind} {are_reset}: {partitions:.1f} s, transaction {took:.1f} s"
        )
        # Those that were dialed before and stay silent may be given the right ones as well.
        assert took < PROVIDERS[kind] + (1.5 if are_reset else 35.0)

    simulate(play, seed, access=access, history=100_000)


@pytest.mark.parametrize("seed", seeds(DIALS))
def test_the_right_credentials_wait_for_no_former_ones(seed: int) -> None:
    """The transaction goes on at once."""
    live(seed)


@pytest.mark.parametrize("seed", seeds(DIALS))
def test_a_producer_that_is_closed_while_its_dials_wait(seed: int) -> None:
    """It ends in time, and the right credentials of another one wait for nothing."""
    live(seed, is_closed=True)
