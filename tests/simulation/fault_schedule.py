"""The faults of a chaotic life: each is drawn from the seed, happens for a while, and is over."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import attrs

from aioproducer.testing import EmbeddedKafka
from tests.simulation.network import Network
from tests.simulation.wires import End
from tests.simulation.world import World

TOPIC: Final = "events"
RETRIABLE: Final = (2, 3, 5, 6, 7, 9, 13, 19, 20, 56, 74, 89, 100)
APPENDS_ANYWAY: Final = (7, 20, 13, 56)
FINAL: Final = (10, 17, 29, 32, 43, 44, 87, -1, 999)
APIS: Final = ("Produce", "Metadata", "InitProducerId", "ApiVersions")


@attrs.define
class Storm:
    """The faults of one life, told as they happen."""

    world: World
    told: list[str] = attrs.Factory(list)
    apis: tuple[str, ...] = APIS
    """The requests whose answers suffer."""
    topics: tuple[str, ...] = (TOPIC,)

    @property
    def kafka(self) -> EmbeddedKafka:
        """The cluster it hits."""
        return self.world.kafka

    @property
    def network(self) -> Network:
        """The network it hits."""
        return self.world.network

    def some_broker(self) -> int:
        """One of the brokers."""
        return self.world.rng.choice(self.kafka.brokers).id

    def some_topic(self) -> str:
        """One of the topics."""
        return self.topics[0] if len(self.topics) == 1 else self.world.rng.choice(self.topics)

    def some_partition(self, topic: str) -> int:
        """One of the partitions."""
        return self.world.rng.randrange(self.kafka.topics[topic])

    async def rage(self, faults: int, seconds: float, kinds: Sequence[Fault] = ()) -> None:
        """So many faults, spread over this time; some of them at once."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(faults):
                fault = self.world.rng.choice(kinds or FAULTS)
                tasks.create_task(self._later(fault, self.world.rng.uniform(0, seconds)))

    async def _later(self, fault: Fault, delay: float) -> None:
        await asyncio.sleep(delay)
        self.told.append(f"{self.world.now - 1000:.3f} {fault.__name__}")
        await fault(self)

    async def a_while(self, most: float = 8.0) -> None:
        """How long a fault lasts: most often shortly."""
        rng = self.world.rng
        await asyncio.sleep(rng.uniform(0, most) if rng.random() < 0.5 else rng.uniform(0, 0.3))


Fault = Callable[[Storm], Awaitable[None]]


# -- the network


async def hold_a_broker(storm: Storm) -> None:
    """A process is stopped (SIGSTOP): connections can be made, and nothing comes of it."""
    port = storm.world.port(storm.some_broker())
    storm.network.hold(port)
    await storm.a_while()
    storm.network.release(port)


async def hold_one_direction(storm: Storm) -> None:
    """Requests arrive and answers do not, or the other way round."""
    port = storm.world.port(storm.some_broker())
    requests = storm.world.rng.random() < 0.5
    storm.network.hold(port, to_broker=requests, to_client=not requests)
    await storm.a_while()
    storm.network.release(port)


async def isolate_a_broker(storm: Storm) -> None:
    """A cable is pulled."""
    port = storm.world.port(storm.some_broker())
    storm.network.isolate(port)
    await storm.a_while()
    storm.network.release(port)


async def isolate_all(storm: Storm) -> None:
    """All of them."""
    for broker in storm.kafka.brokers:
        storm.network.isolate(broker.port)
    await storm.a_while(25.0)
    for broker in storm.kafka.brokers:
        storm.network.release(broker.port)


async def fail_connecting(storm: Storm) -> None:
    """No route, no descriptors left, no buffers."""
    port = storm.world.port(storm.some_broker())
    errors = (errno.EMFILE, errno.ENETUNREACH, errno.ETIMEDOUT, errno.ENOBUFS, errno.EPIPE)
    storm.network.fail_connecting(port, storm.world.rng.choice(errors))
    storm.network.reset(port)
    await storm.a_while()
    storm.network.release(port)


async def cut_somewhere(storm: Storm) -> None:
    """A connection ends at any byte of either direction."""
    rng = storm.world.rng
    after = rng.randrange(1, 4000) if rng.random() < 0.7 else rng.randrange(1, 60)
    end = rng.choice((End.RST, End.FIN))
    port = storm.world.port(storm.some_broker())
    storm.network.cut(port, after, to_broker=rng.random() < 0.5, end=end)


async def reset_all_connections(storm: Storm) -> None:
    """A firewall forgets everything."""
    for broker in storm.kafka.brokers:
        storm.network.reset(broker.port)


async def peers_vanish(storm: Storm) -> None:
    """Half-open connections: neither FIN nor RST, and nobody there."""
    storm.network.vanish(storm.world.port(storm.some_broker()))


async def trickle(storm: Storm) -> None:
    """A few bytes at a time."""
    storm.network.conditions.trickle = True
    await storm.a_while(1.0)
    storm.network.conditions.trickle = False


async def slow_network(storm: Storm) -> None:
    """Every byte takes its time."""
    slow = storm.world.rng.uniform(0.01, 3.0)
    storm.network.conditions.slowed.append(slow)
    await storm.a_while()
    storm.network.conditions.slowed.remove(slow)


# -- answers


async def retriable_errors(storm: Storm) -> None:
    """Errors that pass; some of them after the append."""
    topic = storm.some_topic()
    rng = storm.world.rng
    code = rng.choice(RETRIABLE)
    times = rng.randrange(1, 30)
    partition = storm.some_partition(topic) if rng.random() < 0.7 else None
    append = rng.random() < 0.6 if code in APPENDS_ANYWAY else None
    storm.kafka.faults.error(code, append=append, times=times, partition=partition, topic=topic)


async def final_errors(storm: Storm) -> None:
    """Errors that do not pass."""
    topic = storm.some_topic()
    rng = storm.world.rng
    storm.kafka.faults.error(
        rng.choice(FINAL), times=rng.randrange(1, 4), partition=storm.some_partition(topic), topic=topic,
        skip=rng.randrange(4),
    )  # fmt: skip


async def cut_answers(storm: Storm) -> None:
    """The connection ends in place of answers, before or after the append."""
    rng = storm.world.rng
    storm.kafka.faults.cut(
        before=rng.random() < 0.5,
        reset=rng.random() < 0.5,
        api=rng.choice(storm.apis),
        times=rng.randrange(1, 8),
    )


async def lost_answers(storm: Storm) -> None:
    """The broker does what it is asked and says nothing."""
    rng = storm.world.rng
    storm.kafka.faults.drop_answer(api=rng.choice(storm.apis), times=rng.randrange(1, 4))


async def late_answers(storm: Storm) -> None:
    """Answers, or the handling itself, are late: perhaps too late."""
    rng = storm.world.rng
    storm.kafka.faults.delay(
        rng.uniform(0.1, 6.0),
        before=rng.random() < 0.5,
        api=rng.choice(storm.apis),
        times=rng.randrange(1, 5),
    )


async def throttled(storm: Storm) -> None:
    """A quota."""
    rng = storm.world.rng
    storm.kafka.faults.throttle(rng.randrange(1, 3000), times=rng.randrange(1, 5), broker=storm.some_broker())


async def nonsense(storm: Storm) -> None:
    """Answers that are none."""
    rng, faults = storm.world.rng, storm.kafka.faults
    where = {"api": rng.choice(storm.apis), "times": rng.randrange(1, 3)}
    match rng.randrange(5):
        case 0:
            faults.wrong_correlation_id(**where)  # type: ignore[arg-type]
        case 1:
            faults.garbage(**where)  # type: ignore[arg-type]
        case 2:
            faults.wrong_length(rng.choice((-1, 0, 2**31 - 1)), **where)  # type: ignore[arg-type]
        case 3:
            faults.answer_twice(**where)  # type: ignore[arg-type]
        case 4:
            flips = random_flips(rng.getrandbits(32))
            faults.rewrite(flips, **where)  # type: ignore[arg-type]


def random_flips(seed: int) -> Callable[[bytes], bytes]:
    """Change the lengths and ids of an answer, which no checksum protects."""

    def flip(frame: bytes) -> bytes:
        altered = bytearray(frame)
        altered[4 + seed % 4] ^= 1 << (seed >> 8) % 8
        return bytes(altered)

    return flip


# -- the cluster


async def broker_dies(storm: Storm) -> None:
    """A broker is killed, and comes back."""
    broker = storm.some_broker()
    if sum(one.up for one in storm.kafka.brokers) == 1:
        return
    await storm.kafka.faults.stop_broker(broker, reset=storm.world.rng.random() < 0.5)
    await storm.a_while()
    await storm.kafka.faults.start_broker(broker)


async def broker_moves(storm: Storm) -> None:
    """A broker comes back at another address."""
    broker = storm.some_broker()
    await storm.kafka.faults.stop_broker(broker)
    await storm.a_while(2.0)
    await storm.kafka.faults.start_broker(broker, port=0)


async def leaders_move(storm: Storm) -> None:
    """Leaders move, again and again."""
    topic = storm.some_topic()
    for _ in range(storm.world.rng.randrange(1, 12)):
        up = [broker.id for broker in storm.kafka.brokers if broker.up]
        if up:
            storm.kafka.faults.move_leader(topic, storm.some_partition(topic), storm.world.rng.choice(up))
        await asyncio.sleep(storm.world.rng.uniform(0.0, 0.2))


async def leaderless(storm: Storm) -> None:
    """A partition has no leader for a while."""
    topic = storm.some_topic()
    partition = storm.some_partition(topic)
    storm.kafka.faults.move_leader(topic, partition, -1)
    await storm.a_while()
    up = [broker.id for broker in storm.kafka.brokers if broker.up] or [1]
    storm.kafka.faults.move_leader(topic, partition, storm.world.rng.choice(up))


async def hidden_topic(storm: Storm) -> None:
    """One broker, or all, leave the topic out of their metadata."""
    topic = storm.some_topic()
    broker = storm.some_broker() if storm.world.rng.random() < 0.5 else None
    storm.kafka.faults.hide_topic(topic, broker=broker)
    await storm.a_while()
    storm.kafka.faults.show_topic(topic, broker=broker)


async def too_few_in_sync(storm: Storm) -> None:
    """Fewer replicas are in sync than the topic asks for."""
    topic = storm.some_topic()
    partition = storm.some_partition(topic)
    leader = storm.kafka.leader_of(topic, partition)
    storm.kafka.faults.shrink_isr(topic, partition, leader)
    await storm.a_while()
    storm.kafka.faults.shrink_isr(topic, partition, 1, 2, 3)


async def more_partitions(storm: Storm) -> None:
    """The topic grows."""
    topic = storm.some_topic()
    storm.kafka.add_partitions(topic, storm.kafka.topics[topic] + 1)


# -- the program


async def loop_stalls(storm: Storm) -> None:
    """Somebody's code holds the loop up."""
    storm.world.loop.call_soon(storm.world.loop.stall, storm.world.rng.uniform(0.05, 5.0))


async def wall_clock_jumps(storm: Storm) -> None:
    """The wall clock is set."""
    storm.world.loop.set_wall(storm.world.rng.choice((-86_400_000, 3_000_000, -3_600_000)))


FAULTS: Final[tuple[Fault, ...]] = (
    hold_a_broker, hold_one_direction, isolate_a_broker, isolate_all, fail_connecting, cut_somewhere, cut_somewhere,
    cut_somewhere, reset_all_connections, peers_vanish, trickle, slow_network, retriable_errors, retriable_errors,
    retriable_errors, final_errors, cut_answers, cut_answers, lost_answers, late_answers, throttled, nonsense,
    broker_dies, broker_dies, broker_moves, leaders_move, leaders_move, leaderless, hidden_topic, too_few_in_sync,
    more_partitions, loop_stalls, wall_clock_jumps,
)  # fmt: skip
