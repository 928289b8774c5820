"""An embedded Kafka of three brokers in a process of its own, with faults on command.

    python -m tests.soak.brokers TOPICS

Commands come as lines of JSON, and each is answered by a line when it is done: `{"do": "fault", ...}` makes one fault,
lets it last and heals it; `{"do": "trim", ...}` takes away what was judged. The first line says where the brokers are.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from typing import Any, Final, cast

import attrs

from aioproducer.testing import EmbeddedKafka
from tests.simulation import fault_schedule
from tests.simulation.fault_schedule import Fault, Storm
from tests.simulation.world import World

MIN_IN_SYNC: Final = 2


@attrs.frozen
class Place:
    """What those faults of the simulation need that happen to brokers, and not to its network or its loop."""

    kafka: EmbeddedKafka
    rng: random.Random


class Weather(Storm):
    """The storm of the simulation over real sockets."""

    def __init__(self, kafka: EmbeddedKafka, rng: random.Random, longest: float) -> None:
        super().__init__(cast("World", Place(kafka, rng)))
        self.longest = longest

    async def a_while(self, most: float = 8.0) -> None:
        """How long a fault lasts."""
        await asyncio.sleep(self.world.rng.uniform(0.1, 1.0) * min(most, self.longest))


# -- faults that the simulation makes in its network


async def connections_are_reset(storm: Storm) -> None:
    """A firewall forgets everything, several times."""
    for _ in range(storm.world.rng.randrange(1, 6)):
        for broker in storm.kafka.brokers:
            storm.kafka.faults.drop_connections(broker.id, reset=storm.world.rng.random() < 0.5)
        await storm.a_while(0.5)


async def broker_is_silent(storm: Storm) -> None:
    """A broker reads what it is sent, and nothing comes of it."""
    with storm.kafka.faults.silence(broker=storm.some_broker()):
        await storm.a_while()


async def broker_reads_nothing(storm: Storm) -> None:
    """The window to a broker closes."""
    with storm.kafka.faults.stop_reading(broker=storm.some_broker()):
        await storm.a_while()


async def requests_are_cut(storm: Storm) -> None:
    """Connections end inside a request, or inside an answer."""
    rng, faults = storm.world.rng, storm.kafka.faults
    for _ in range(rng.randrange(1, 6)):
        faults.cut_request(rng.randrange(1, 2000), api="Produce")
        faults.cut_answer(rng.randrange(1, 60), api="Produce")


async def all_brokers_die(storm: Storm) -> None:
    """Nobody is there, for a while."""
    for broker in storm.kafka.brokers:
        await storm.kafka.faults.stop_broker(broker.id)
    await storm.a_while()
    for broker in storm.kafka.brokers:
        await storm.kafka.faults.start_broker(broker.id)


FAULTS: Final[tuple[Fault, ...]] = (
    connections_are_reset,
    broker_is_silent,
    broker_reads_nothing,
    requests_are_cut,
    all_brokers_die,
    fault_schedule.retriable_errors,
    fault_schedule.final_errors,
    fault_schedule.cut_answers,
    fault_schedule.lost_answers,
    fault_schedule.late_answers,
    fault_schedule.throttled,
    fault_schedule.nonsense,
    fault_schedule.broker_dies,
    fault_schedule.broker_moves,
    fault_schedule.leaders_move,
    fault_schedule.leaderless,
    fault_schedule.hidden_topic,
    fault_schedule.too_few_in_sync,
)


async def strike(kafka: EmbeddedKafka, number: int, seed: int, longest: float) -> str:
    """One fault from its beginning to its end; its name."""
    fault = FAULTS[number % len(FAULTS)]
    storm = Weather(kafka, random.Random(seed), longest)
    await fault(storm)
    if not storm.kafka.faults._rules:
        return fault.__name__
    # A rule waits for the requests that it is for.
    await storm.a_while()
    kafka.faults.heal()
    return fault.__name__


def trim(kafka: EmbeddedKafka, offsets: dict[str, dict[str, int]]) -> None:
    """Let retention take what was judged."""
    for topic, partitions in offsets.items():
        for partition, offset in partitions.items():
            kafka.faults.delete_records(topic, int(partition), offset)


async def obey(kafka: EmbeddedKafka, command: dict[str, Any]) -> dict[str, Any]:
    """Do what a line says."""
    if command["do"] == "trim":
        trim(kafka, command["offsets"])
        return {}
    name = await strike(kafka, command["number"], command["seed"], command["longest"])
    return {"fault": name, "servers": kafka.bootstrap_servers}


async def main(topics: dict[str, int]) -> None:
    """Serve until nobody holds the other end of our input."""
    async with EmbeddedKafka(3, history=10) as kafka:
        for name, partitions in topics.items():
            kafka.create_topic(name, partitions, min_insync_replicas=MIN_IN_SYNC)
        print(json.dumps({"servers": kafka.bootstrap_servers, "faults": len(FAULTS)}), flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            print(json.dumps(await obey(kafka, json.loads(line))), flush=True)


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
