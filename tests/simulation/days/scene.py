"""The scene of a life of days: its topics, its pauses, and the changes of the cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final
from unittest import mock

import attrs

from aioproducer import Producer
from aioproducer._net.runtime import timekeeper
from tests.simulation.access import USER
from tests.simulation.days.incarnations import Incarnations
from tests.simulation.days.past import Past
from tests.simulation.world import World

TOPICS: Final = ("orders", "payments")
DAY: Final = 86_400.0
HOUR: Final = 3_600.0
LATE_BELIEF: Final = 150.0
"""Seconds after which a producer knows the present state, after any answers from the past."""
MOST_PARTITIONS: Final = 4
MOST_REFRESHES: Final = 12
SELDOM: Final = 600.0
"""Seconds from one look for unused brokers to the next, in lives with long memories."""


@contextmanager
def seldom_looks(options: dict[str, Any]) -> Iterator[None]:
    """Where leaders remember a producer for a day, no connection is closed for being idle, and looks each half minute
    would take most of the time of a life.
    """
    lasting = options["producer_expiration"] >= DAY
    seconds = SELDOM if lasting else timekeeper.LOOK_FOR_IDLE_EVERY
    with mock.patch.object(timekeeper, "LOOK_FOR_IDLE_EVERY", seconds):
        yield


def slow_settings(world: World) -> dict[str, Any]:
    """Long intervals for periodic work, which would cost more than the rest of a long pause."""
    rng = world.rng
    if world.kafka._cluster.options.producer_expiration >= DAY:
        return {"metadata_max_age_ms": 20_000_000, "connections_max_idle_ms": -1}
    return {
        "metadata_max_age_ms": rng.choice((300_000, 3_000_000)),
        "connections_max_idle_ms": rng.choice((540_000, -1)),
    }


@attrs.define(eq=False)
class Scene:
    """One world, and the story of its events."""

    world: World
    settings: dict[str, Any]
    topics: Incarnations
    past: Past
    story: list[str] = attrs.Factory(list)
    broken: list[str] = attrs.Factory(list)
    """Broken promises."""
    asides: set[asyncio.Task[None]] = attrs.Factory(set)

    def note(self, what: str) -> None:
        """Note an event."""
        self.story.append(f"{self.world.now - 1000:.3f} {what}")

    # -- pauses

    def limits(self) -> tuple[float, ...]:
        """The times after which some state here is dropped, forgotten or read again."""
        milliseconds = (
            "metadata_max_idle_ms",
            "connections_max_idle_ms",
            "metadata_max_age_ms",
            "transaction_timeout_ms",
        )
        own = [self.settings[name] / 1000 for name in milliseconds if name in self.settings]
        cluster = self.world.kafka._cluster.options
        forgotten = [cluster.producer_expiration] * 2
        if "transactional_id" in self.settings and self.ids_expire:
            forgotten.append(cluster.transactional_id_expiration)
        most = min(self._longest_pause(), MOST_REFRESHES * self.settings["metadata_max_age_ms"] / 1000)
        return tuple(limit for limit in (*own, *forgotten) if 0 < limit <= most)

    @property
    def ids_expire(self) -> bool:
        """Do transactional ids expire within the life?"""
        return self.world.kafka._cluster.options.transactional_id_expiration < DAY

    def _longest_pause(self) -> float:
        """A producer checks for idle connections twice a minute: a day of that costs most of the time here."""
        return 2 * DAY if self.settings["connections_max_idle_ms"] < 0 else 6 * HOUR

    def pause(self) -> float:
        """A pause, mostly about as long as one of the limits: just below, just above."""
        rng = self.world.rng
        if rng.random() < 0.3:
            return rng.choice((0.0, 0.001, 0.1, 3.0))
        limit = rng.choice(self.limits())
        return max(0.0, limit * rng.choice((1.0, 1.0, 0.9, 1.1)) + rng.choice((-1.0, -0.01, 0.01, 1.0, 20.0)))

    # -- the cluster

    def partitions(self, topic: str) -> int:
        """The number of partitions of a topic, now or before its deletion."""
        return len(self.topics.of(topic)[-1].partitions)

    def place(self) -> tuple[str, int]:
        """The partition of a send: mostly one that has records."""
        rng = self.world.rng
        topic = rng.choice(TOPICS[: len({one for one in TOPICS if self.topics.of(one)})])
        return topic, min(rng.choice((0, 0, 0, 1, 3)), self.partitions(topic) - 1)

    async def remake(self) -> None:
        """Delete a topic and create it again, with more, fewer, or the same number of partitions."""
        rng = self.world.rng
        topic, _ = self.place()
        if topic not in self.world.kafka.topics:
            return
        before = self.partitions(topic)
        after = rng.choice((before, before, 1, rng.randrange(1, MOST_PARTITIONS + 1)))
        gap = rng.choice((0.0, 0.0, 0.01, 0.5, 10.0))
        self.note(f"{topic} is remade with {after} partitions in place of {before}, {gap} s later")
        self.past.remember()
        self.topics.delete(topic)
        if gap:
            self.past.remember()
            await asyncio.sleep(gap)
        self.topics.make(topic, after)

    async def grow(self) -> None:
        """Add a partition to a topic."""
        topic, _ = self.place()
        if topic in self.world.kafka.topics and self.partitions(topic) < MOST_PARTITIONS:
            self.past.remember()
            self.note(f"{topic} grows")
            self.world.kafka.add_partitions(topic, self.partitions(topic) + 1)

    async def lag_once(self) -> None:
        """One answer comes from the past."""
        self.note(self.past.answer_once(self._some_broker()))

    async def lag(self) -> None:
        """A broker, or all, answer from the past for a while."""
        rng = self.world.rng
        broker, seconds = self._some_broker(), rng.choice((0.3, 5.0, 59.0, 70.0))
        self.note(f"the metadata of broker {broker} is from the past for {seconds} s")
        await self.past.answer_for(broker, seconds)

    async def move(self) -> None:
        """Another broker becomes the leader of a partition."""
        topic, index = self.place()
        if topic in self.world.kafka.topics:
            self.past.remember()
            leader = self.world.rng.randrange(1, 4)
            self.note(f"broker {leader} leads {topic}-{index}")
            self.world.kafka.faults.move_leader(topic, index, leader)

    async def restart(self) -> None:
        """Stop a broker, and start it again."""
        broker = self.world.rng.randrange(1, 4)
        gap = self.world.rng.choice((0.0, 0.5, 4.0))
        if all(one.up for one in self.world.kafka.brokers):
            self.note(f"broker {broker} is down for {gap} s")
            self.past.remember()
            await self.world.kafka.faults.stop_broker(broker)
            await asyncio.sleep(gap)
            await self.world.kafka.faults.start_broker(broker)

    async def deny(self) -> None:
        """The user is deleted for a while, or the provider of its passwords and tokens fails."""
        rng, access, users = self.world.rng, self.world.access, self.world.kafka.users
        seconds, deleted = rng.choice((0.1, 1.0, 30.0)), rng.random() < 0.5
        if access is None or USER not in users or access.failing:
            return
        self.note(f"{'the user is deleted' if deleted else 'the provider fails'} for {seconds} s")
        if deleted:
            users.pop(USER)
            refusal = self.world.kafka.faults.error(58, api="SaslAuthenticate", times=None)
        access.failing = not deleted
        await asyncio.sleep(seconds)
        access.failing = False
        if deleted:
            refusal.heal()
            users[USER] = access.password

    def _some_broker(self) -> int | None:
        return self.world.rng.choice((None, None, 1, 2, 3))

    def deny_perhaps(self) -> None:
        """Where the cluster is a secured one, end the access now and then."""
        if self.world.access is not None and self.world.rng.random() < 0.4:
            self.aside(self.deny)

    def aside(self, change: Callable[[], Awaitable[None]]) -> None:
        """Run a change beside the life: at once, or in the middle of its next step."""

        async def run() -> None:
            await asyncio.sleep(self.world.rng.choice((0.0, 0.0, 0.002, 0.004, 0.02, 1.0)))
            await change()

        task = asyncio.get_running_loop().create_task(run())
        self.asides.add(task)

    async def settle(self) -> None:
        """Wait until everything beside the life has ended."""
        if self.asides:
            await asyncio.wait(self.asides)
        for task in self.asides:
            task.result()
        self.asides.clear()

    # -- faults

    def refuse(self, topic: str, partition: int) -> None:
        """The broker refuses a batch with a proof that it is not written."""
        rng = self.world.rng
        code = rng.choice((10, 19, 19, 19, 87))
        skip, times = rng.choice((0, 0, 0, 1)), rng.choice((1, 1, 1, 2))
        self.note(f"{code} for {times} batches of {topic}-{partition} after {skip}")
        self.world.kafka.faults.error(code, topic=topic, partition=partition, skip=skip, times=times)

    def lose_answers(self, topic: str, partition: int) -> None:
        """Requests are handled or not; no answer comes, or a late one."""
        rng = self.world.rng
        times = rng.choice((1, 1, 2, 3))
        faults = self.world.kafka.faults
        # An identity that is lost with the connections, after the former was forgotten, looks like a successor's.
        match rng.randrange(3 if self.ids_expire else 4):
            case 0:
                faults.drop_answer(topic=topic, partition=partition, times=times)
            case 1:
                faults.cut(topic=topic, partition=partition, times=times, before=rng.random() < 0.3)
            case 2:
                faults.delay(rng.choice((0.005, 0.02, 0.5)), topic=topic, partition=partition, times=times)
            case 3:
                self.aside(self._cut_off)
        self.note(f"{times} answers of {topic}-{partition} are lost, or late")

    async def _cut_off(self) -> None:
        """Requests are handled, and no later byte of the brokers arrives."""
        brokers = self.world.kafka.brokers
        for broker in brokers:
            self.world.network.hold(broker.port, to_broker=False)
        await asyncio.sleep(self.world.rng.choice((0.01, 0.1, 1.0)))
        for broker in brokers:
            self.world.network.reset(broker.port)
            self.world.network.release(broker.port)

    # -- forbidden states

    def look_at(self, producer: Producer[Any, Any]) -> None:
        """No engine may die."""
        state = producer.health().state
        if state in ("failed", "closed"):
            self.broken.append(f"the producer is {state}: {producer.health().last_error!r}")

    def calm(self) -> None:
        """End all faults."""
        self.world.kafka.faults.heal()
        for broker in self.world.kafka.brokers:
            self.world.network.release(broker.port)
