"""One simulation: a whole producer and a cluster of three in one process, in virtual time, replayed by one integer."""

from __future__ import annotations

import asyncio
import functools
import gc
import hashlib
import logging
import random
import re
import types
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final
from unittest import mock

import attrs

from aioproducer import Producer
from aioproducer.testing import EmbeddedKafka
from tests.effort import SEED_VARIABLE
from tests.judge.history import Found, found
from tests.judge.judge import Finding, Rules, judge
from tests.net.support import timers_of_the_library
from tests.simulation.access import Access
from tests.simulation.ledger import Ledger
from tests.simulation.network import Network, NetworkedLoop

QUICK: Final[dict[str, Any]] = {
    "delivery_timeout_ms": 20_000,
    "request_timeout_ms": 2_000,
    "max_block_ms": 5_000,
    "metadata_max_age_ms": 30_000,
    "socket_connection_setup_timeout_ms": 1_000,
    "socket_connection_setup_timeout_max_ms": 3_000,
}
"""Settings under which whole lives fit into a minute of virtual time."""

_derived_key: Final = functools.lru_cache(hashlib.pbkdf2_hmac)
"""The derivation of keys for SCRAM was a sixth of the time of all lives, always of the same few passwords and salts."""


@attrs.define(eq=False)
class World:
    """The parts of a scenario."""

    seed: int
    loop: NetworkedLoop
    kafka: EmbeddedKafka
    rng: random.Random
    ledger: Ledger
    log: list[logging.LogRecord]
    producers: list[Producer[Any, Any]] = attrs.Factory(list)
    rules: Rules = attrs.Factory(Rules)
    forgotten: set[str] = attrs.Factory(set)
    """Topics whose log is not read: they were deleted."""
    access: Access | None = None
    """How producers authenticate; None: the cluster has no security."""

    @property
    def network(self) -> Network:
        """The network between the producers and the brokers."""
        return self.loop.network

    def producer(self, **settings: Any) -> Producer[Any, Any]:
        """A producer for this cluster, to be started by the scenario; it is closed at the end."""
        servers = settings.pop("bootstrap_servers", self.kafka.bootstrap_servers)
        secured = {} if self.access is None else self.access.of_the_client(self.loop)
        made: Producer[Any, Any] = Producer(servers, **{**QUICK, **secured, **settings})
        self.producers.append(made)
        return made

    def port(self, broker: int) -> int:
        """The port of a broker."""
        return self.kafka.brokers[broker - 1].port

    @property
    def now(self) -> float:
        """The virtual time."""
        return self.loop.time()

    def read_back(self) -> Iterator[Found]:
        """The logs of all topics, by partition and offset."""
        for topic in self.kafka.topics.keys() - self.forgotten:
            for record in self.kafka.records(topic):
                # A record without a timestamp of its own has that of its acceptance, which the ledger does not know.
                own = record.timestamp if record.timestamp in self.ledger.timestamps else None
                yield found(
                    topic, record.partition, record.offset, record.key, record.value, record.headers, own
                )

    def lines(self, pattern: str = "", level: int = logging.DEBUG) -> list[str]:
        """The lines of the log from this level on in which the pattern is found."""
        lines = [record.getMessage() for record in self.log if record.levelno >= level]
        return [line for line in lines if re.search(pattern, line)]

    def warnings(self) -> list[str]:
        """The lines of the log from WARNING on."""
        return self.lines(level=logging.WARNING)


Play = Callable[[World], Awaitable[None]]


def simulate(
    play: Play, seed: int, *, brokers: int = 3, access: Access | None = None, **options: Any
) -> World:
    """Play a scenario to its end, close everything, and judge it; a broken promise is an AssertionError."""
    rng = random.Random(seed)
    loop = NetworkedLoop(random.Random(rng.random()))
    demanded = {} if access is None else access.of_the_cluster()
    kafka = EmbeddedKafka(brokers, clock=loop.time, wall_clock=loop.wall_ms, seed=seed, **demanded, **options)
    with _logged() as log:
        world = World(seed, loop, kafka, rng, Ledger(loop), log, access=access)
        with _surroundings(loop, random.Random(rng.random())):
            # The time of a collection depends on the earlier work of this process.
            gc.disable()
            try:
                loop.run_until_complete(_whole(world, play))
                _nothing_is_left(world)
            finally:
                _abandon(loop)
                gc.enable()
        findings = judge(world.ledger.history(), world.read_back(), world.rules)
    if findings:
        raise AssertionError(_verdict(world, findings))
    return world


async def _whole(world: World, play: Play) -> None:
    async with world.kafka:
        try:
            await play(world)
        finally:
            await _end(world)


async def _end(world: World) -> None:
    for broker in world.kafka.brokers:
        world.network.release(broker.port)
    world.kafka.faults.heal()
    for producer in world.producers:
        await producer.close()
    await asyncio.sleep(5.0)


def _nothing_is_left(world: World) -> None:
    """No task, timer or connection outlives its producer, and all memory is given back (I9)."""
    assert world.loop.troubles == [], world.loop.troubles
    left = [task for task in asyncio.all_tasks(world.loop) if task.get_name().startswith("aioproducer")]
    assert left == [], left
    assert timers_of_the_library(world.loop) == []
    open_links = [link for broker in world.kafka.brokers for link in world.network.links(broker.port)]
    assert [link for link in open_links if not link.client.gone] == []
    for producer in world.producers:
        engine = producer._engine
        if engine is not None:
            assert engine.accumulator.budget.used == 0, "memory was not given back"
            assert engine.fault_log.unfinished == [], "the story of a fault has no end in the log"


def _abandon(loop: NetworkedLoop) -> None:
    for task in asyncio.all_tasks(loop):
        task.cancel()
    loop.call_soon(loop.stop)
    loop.run_forever()
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()
    # Whole worlds: between simulations the collector has no time for them, and 10,000 of them would take 4 GB.
    gc.collect()


def _verdict(world: World, findings: list[Finding]) -> str:
    lines = [f"{len(findings)} broken promises; {SEED_VARIABLE}={world.seed} replays this"]
    return "\n".join([*lines, *map(str, findings[:10])])


@contextmanager
def _surroundings(loop: NetworkedLoop, rng: random.Random) -> Iterator[None]:
    """The surroundings of the producer: the clock, chance and threads."""

    async def run_sync(func: Callable[..., Any], *args: Any, **_options: Any) -> Any:
        return await loop.in_a_thread(func, *args)

    wall_clock = types.SimpleNamespace(time=lambda: loop.wall_ms() / 1000)
    chance = types.SimpleNamespace(Random=lambda: random.Random(rng.random()))
    with (
        mock.patch("aioproducer._calls.lifecycle.Clock", return_value=loop.clock),
        mock.patch("aioproducer._calls.lifecycle.random", chance),
        mock.patch("aioproducer._net.cluster.session.random", chance),
        mock.patch("aioproducer._net.securing.sources.time", wall_clock),
        mock.patch("anyio.to_thread.run_sync", run_sync),
        mock.patch("hashlib.pbkdf2_hmac", _derived_key),
        mock.patch("aioproducer._net.connecting.dialing.look_up", loop.network.look_up),
    ):
        yield


class _Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record)


@contextmanager
def _logged() -> Iterator[list[logging.LogRecord]]:
    logger = logging.getLogger("aioproducer")
    lines, level, propagates = _Lines(), logger.level, logger.propagate
    logger.addHandler(lines)
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    try:
        yield lines.lines
    finally:
        logger.removeHandler(lines)
        logger.setLevel(level)
        logger.propagate = propagates
