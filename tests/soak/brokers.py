"""An embedded Kafka of three brokers in a process of its own, with faults on command.

    python -m tests.soak.brokers TOPICS

Commands come as lines of JSON, and each is answered by a line when it is done: `{"do": "fault", ...}` makes one fault,
lets it last and heals it; `{"do": "trim", ...}` deletes judged records. The first line has the addresses of the brokers.
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
from tests.simulation.fault_schedule import Fault, FaultSchedule
from tests.simulation.world import World

MIN_IN_SYNC: Final = 2


@attrs.frozen
class Place:
    """The parts of a world that faults of brokers need; the simulation's network and loop are absent."""

    kafka: EmbeddedKafka
    rng: random.Random


class SocketFaults(FaultSchedule):
    """The schedule of the simulation over real sockets."""

    def __init__(self, kafka: EmbeddedKafka, rng: random.Random, longest: float) -> None:
        super().__init__(cast("World", Place(kafka, rng)))
        self.longest = longest

    async def a_while(self, most: float = 8.0) -> None:
        """The duration of a fault."""
        await asyncio.sleep(self.world.rng.uniform(0.1, 1.0) * min(most, self.longest))


# -- faults that the simulation makes in its network


async def connections_are_reset(schedule: FaultSchedule) -> None:
    """A firewall loses its connections, several times."""
    for _ in range(schedule.world.rng.randrange(1, 6)):
        for broker in schedule.kafka.brokers:
            schedule.kafka.faults.drop_connections(broker.id, reset=schedule.world.rng.random() < 0.5)
        await schedule.a_while(0.5)


async def broker_is_silent(schedule: FaultSchedule) -> None:
    """A broker reads requests, and does not process them."""
    with schedule.kafka.faults.silence(broker=schedule.some_broker()):
        await schedule.a_while()


async def broker_reads_nothing(schedule: FaultSchedule) -> None:
    """The receive window of a broker closes."""
    with schedule.kafka.faults.stop_reading(broker=schedule.some_broker()):
        await schedule.a_while()


async def requests_are_cut(schedule: FaultSchedule) -> None:
    """Connections end inside a request, or inside an answer."""
    rng, faults = schedule.world.rng, schedule.kafka.faults
    for _ in range(rng.randrange(1, 6)):
        faults.cut_request(rng.randrange(1, 2000), api="Produce")
        faults.cut_answer(rng.randrange(1, 60), api="Produce")


async def all_brokers_die(schedule: FaultSchedule) -> None:
    """All brokers are down for a while."""
    for broker in schedule.kafka.brokers:
        await schedule.kafka.faults.stop_broker(broker.id)
    await schedule.a_while()
    for broker in schedule.kafka.brokers:
        await schedule.kafka.faults.start_broker(broker.id)


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
    """One fault from its beginning to its end; returns its name."""
    fault = FAULTS[number % len(FAULTS)]
    schedule = SocketFaults(kafka, random.Random(seed), longest)
    await fault(schedule)
    if not schedule.kafka.faults._rules:
        return fault.__name__
    # A rule waits for its requests.
    await schedule.a_while()
    kafka.faults.heal()
    return fault.__name__


def trim(kafka: EmbeddedKafka, offsets: dict[str, dict[str, int]]) -> None:
    """Let retention delete judged records."""
    for topic, partitions in offsets.items():
        for partition, offset in partitions.items():
            kafka.faults.delete_records(topic, int(partition), offset)


async def obey(kafka: EmbeddedKafka, command: dict[str, Any]) -> dict[str, Any]:
    """Execute the command of a line."""
    if command["do"] == "trim":
        trim(kafka, command["offsets"])
        return {}
    name = await strike(kafka, command["number"], command["seed"], command["longest"])
    return {"fault": name, "servers": kafka.bootstrap_servers}


async def main(topics: dict[str, int]) -> None:
    """Serve until the other end of the input is closed."""
    async with EmbeddedKafka(3, history=10) as kafka:
        for name, partitions in topics.items():
            kafka.create_topic(name, partitions, min_insync_replicas=MIN_IN_SYNC)
        print(json.dumps({"servers": kafka.bootstrap_servers, "faults": len(FAULTS)}), flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            print(json.dumps(await obey(kafka, json.loads(line))), flush=True)


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
