"""The life of an idempotent producer over days: few records, long pauses, and a cluster that changes in between."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import attrs

from aioproducer import BufferFullError, Delivery, Outcome, Producer
from tests.judge.judge import judge
from tests.simulation.days.incarnations import Incarnations
from tests.simulation.days.past import Past
from tests.simulation.days.scene import DAY, HOUR, LATE_BELIEF, TOPICS, Scene, slow_settings
from tests.simulation.ledger import MOMENT, Ledger
from tests.simulation.world import World


def settings_of(world: World) -> dict[str, Any]:
    """The settings of a life, drawn from the seed."""
    rng = world.rng
    return {
        "linger_ms": rng.choice((0, 0, 5)),
        "batch_size": rng.choice((0, 0, 0, 400)),
        "buffer_memory": rng.choice((2_000, 100_000)),
        "max_request_size": 2_000,
        "delivery_timeout_ms": rng.choice((5_000, 20_000)),
        "max_block_ms": rng.choice((3_000, 20_000)),
        "metadata_max_idle_ms": rng.choice((5_000, 300_000, 5_000_000, 200_000_000)),
        **slow_settings(world),
    }


@attrs.define(eq=False)
class Life:
    """One producer, whose records are counted in a ledger of their own."""

    scene: Scene
    producer: Producer[Any, Any]
    ledger: Ledger
    calls: set[asyncio.Task[None]] = attrs.Factory(set)
    deliveries: list[Delivery] = attrs.Factory(list)

    @property
    def world(self) -> World:
        """The world of the producer."""
        return self.scene.world

    async def live(self) -> None:
        """Pause, change, send; and again."""
        rng = self.world.rng
        for _ in range(rng.randrange(3, 8)):
            await self._pause(self.scene.pause())
            for change in rng.choice(CHANGES):
                self.scene.aside(getattr(self.scene, change))
            self.scene.deny_perhaps()
            self._burst()
            if rng.random() < 0.3:
                await asyncio.sleep(rng.choice((0.0, 0.003, 0.03)))
                self._burst()
            if rng.random() < 0.6:
                await self.settled()
                await self.scene.settle()
            self.scene.look_at(self.producer)

    async def _pause(self, seconds: float) -> None:
        """No record is sent; or the topics stay in use, by records for one partition."""
        self.scene.note(f"a pause of {seconds:.3f} s")
        rng = self.world.rng
        interval = 0.9 * self.producer.config.metadata_max_idle_ms / 1000
        if seconds < interval or seconds / interval > 12 or rng.random() < 0.5:
            await asyncio.sleep(seconds)
            return
        end = self.world.now + seconds
        while self.world.now < end:
            self._send(TOPICS[0], self.scene.partitions(TOPICS[0]) - 1)
            await asyncio.sleep(min(interval, end - self.world.now))

    def _burst(self) -> None:
        """Send a few records, in as many batches as possible, under faults."""
        rng, scene = self.world.rng, self.scene
        topic, partition = scene.place()
        fault = rng.random()
        if fault < 0.4:
            scene.refuse(topic, partition)
        if 0.25 < fault < 0.6:
            scene.lose_answers(topic, partition)
        count = rng.choice((1, 2, 2, 3, 5))
        scene.note(f"{count} records for {topic}-{partition}")
        for _ in range(count):
            self._send(topic, partition)
        if rng.random() < 0.3:
            self._send(*scene.place())

    def _send(self, topic: str, partition: int) -> None:
        filling = bytes(self.world.rng.choice((0, 0, 300, 700)))
        self.calls.add(asyncio.get_running_loop().create_task(self._call(topic, partition, filling)))

    async def _call(self, topic: str, partition: int, filling: bytes) -> None:
        began, number = self.world.now, len(self.ledger.entries)
        delivery = await self.ledger.send(self.producer, topic, filling, partition=partition)
        lasted = self.world.now - began
        if lasted > self.producer.config.max_block_ms / 1000 + MOMENT:
            self.scene.broken.append(f"a call of send() lasted {lasted:.3f} s")
        if delivery is not None:
            self.deliveries.append(delivery)
        elif isinstance(self.ledger.entries[number].error, BufferFullError) and self._is_empty():
            self.scene.broken.append(f"record {number} had no room in an empty buffer")

    def _is_empty(self) -> bool:
        stats = self.producer.stats()
        return not stats.bytes_buffered and not stats.bytes_in_flight

    async def settled(self) -> None:
        """Every call has returned, and every record has its outcome."""
        if self.calls:
            await asyncio.wait(self.calls)
        for task in self.calls:
            task.result()
        self.calls.clear()
        for delivery in self.deliveries:
            await delivery.wait(None)
        self.deliveries.clear()

    async def end(self) -> None:
        """After the last fault every send succeeds again."""
        scene = self.scene
        await self.settled()
        await scene.settle()
        scene.calm()
        await asyncio.sleep(LATE_BELIEF)
        scene.note("calm")
        last = [
            (topic, index, await self.ledger.send(self.producer, topic, partition=index))
            for topic, count in self.world.kafka.topics.items()
            for index in range(count)
        ]
        for topic, index, delivery in last:
            if delivery is None or await delivery.wait(None) is not Outcome.ACKED:
                scene.broken.append(f"nothing gets into {topic}-{index}, though all is well")
        scene.look_at(self.producer)


CHANGES: Final = (
    (), (), (), ("remake",), ("remake",), ("lag_once",), ("lag_once", "remake"), ("remake", "lag"), ("lag",), ("grow",),
    ("move",), ("restart",), ("remake", "remake"),
)  # fmt: skip
"""The faults around the time of a burst, each at a random moment."""


async def live(world: World, lived: list[Life]) -> None:
    """One life, from the first topic to the quiet time at the end; it is put into `lived` when it begins."""
    rng = world.rng
    settings = settings_of(world)
    scene = Scene(world, settings, Incarnations(world.kafka), Past(world))
    world.forgotten.update(TOPICS)
    for topic in TOPICS[: rng.choice((1, 2))]:
        scene.topics.make(topic, rng.choice((1, 2, 4)))
    if rng.random() < 0.5:
        await scene.remake()
    producer = world.producer(**settings)
    await producer.start()
    life = Life(scene, producer, Ledger(world.loop))
    lived.append(life)
    await life.live()
    await life.end()


def options_of(seed: int) -> dict[str, Any]:
    """How long leaders remember a producer: a day, the default, or an hour."""
    return {"auto_create_topics": False, "producer_expiration": DAY if seed % 4 == 0 else HOUR}


def verdict(life: Life) -> list[str]:
    """Every broken promise."""
    topics = life.scene.topics
    findings = judge(topics.sent(life.ledger.history()), topics.found())
    return [*map(str, findings), *life.scene.broken]
