"""The faults of a chaotic life: each is drawn from the seed, lasts for a while, and ends."""

from __future__ import annotations

import asyncio
import contextlib
import errno
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import attrs

from aioproducer import StateError
from aioproducer.testing import EmbeddedKafka
from tests.simulation.access import APIS as SASL_APIS
from tests.simulation.access import USER
from tests.simulation.network import Network
from tests.simulation.wires import End
from tests.simulation.world import World

TOPIC: Final = "events"
RETRIABLE: Final = (2, 3, 5, 6, 7, 9, 13, 19, 20, 56, 74, 89, 100)
APPENDS_ANYWAY: Final = (7, 20, 13, 56)
FINAL: Final = (10, 17, 29, 32, 43, 44, 87, -1, 999)
APIS: Final = ("Produce", "Metadata", "InitProducerId", "ApiVersions")


@attrs.define
class FaultSchedule:
    """The faults of one life, noted as they happen."""

    world: World
    log: list[str] = attrs.Factory(list)
    apis: tuple[str, ...] = APIS
    """The APIs whose answers are disturbed."""
    topics: tuple[str, ...] = (TOPIC,)

    @property
    def kafka(self) -> EmbeddedKafka:
        """The cluster of the faults."""
        return self.world.kafka

    @property
    def network(self) -> Network:
        """The network of the faults."""
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

    async def run(self, faults: int, seconds: float, kinds: Sequence[Fault] = ()) -> None:
        """Make so many faults, spread over this time; some overlap."""
        kinds = kinds or FAULTS
        if self.world.access is not None:
            kinds = (*kinds, *ACCESS_FAULTS * (len(kinds) // 12))
        async with asyncio.TaskGroup() as tasks:
            for _ in range(faults):
                fault = self.world.rng.choice(kinds)
                tasks.create_task(self._later(fault, self.world.rng.uniform(0, seconds)))

    async def _later(self, fault: Fault, delay: float) -> None:
        await asyncio.sleep(delay)
        self.log.append(f"{self.world.now - 1000:.3f} {fault.__name__}")
        await fault(self)

    async def a_while(self, most: float = 8.0) -> None:
        """The length of a fault: mostly short."""
        rng = self.world.rng
        await asyncio.sleep(rng.uniform(0, most) if rng.random() < 0.5 else rng.uniform(0, 0.3))


Fault = Callable[[FaultSchedule], Awaitable[None]]


# -- the network


async def hold_a_broker(schedule: FaultSchedule) -> None:
    """A process is stopped (SIGSTOP): connections are accepted, and no request is answered."""
    port = schedule.world.port(schedule.some_broker())
    schedule.network.hold(port)
    await schedule.a_while()
    schedule.network.release(port)


async def hold_one_direction(schedule: FaultSchedule) -> None:
    """Requests arrive and answers do not, or the other way round."""
    port = schedule.world.port(schedule.some_broker())
    requests = schedule.world.rng.random() < 0.5
    schedule.network.hold(port, to_broker=requests, to_client=not requests)
    await schedule.a_while()
    schedule.network.release(port)


async def isolate_a_broker(schedule: FaultSchedule) -> None:
    """One broker is unplugged."""
    port = schedule.world.port(schedule.some_broker())
    schedule.network.isolate(port)
    await schedule.a_while()
    schedule.network.release(port)


async def isolate_all(schedule: FaultSchedule) -> None:
    """All brokers are unplugged."""
    for broker in schedule.kafka.brokers:
        schedule.network.isolate(broker.port)
    await schedule.a_while(25.0)
    for broker in schedule.kafka.brokers:
        schedule.network.release(broker.port)


async def fail_connecting(schedule: FaultSchedule) -> None:
    """Connecting fails: no route, no descriptors left, no buffers."""
    port = schedule.world.port(schedule.some_broker())
    errors = (errno.EMFILE, errno.ENETUNREACH, errno.ETIMEDOUT, errno.ENOBUFS, errno.EPIPE)
    schedule.network.fail_connecting(port, schedule.world.rng.choice(errors))
    schedule.network.reset(port)
    await schedule.a_while()
    schedule.network.release(port)


async def cut_somewhere(schedule: FaultSchedule) -> None:
    """A connection ends at any byte of either direction."""
    rng = schedule.world.rng
    after = rng.randrange(1, 4000) if rng.random() < 0.7 else rng.randrange(1, 60)
    end = rng.choice((End.RST, End.FIN))
    port = schedule.world.port(schedule.some_broker())
    schedule.network.cut(port, after, to_broker=rng.random() < 0.5, end=end)


async def reset_all_connections(schedule: FaultSchedule) -> None:
    """A firewall drops all connections."""
    for broker in schedule.kafka.brokers:
        schedule.network.reset(broker.port)


async def peers_vanish(schedule: FaultSchedule) -> None:
    """Half-open connections: neither FIN nor RST, and no peer."""
    schedule.network.vanish(schedule.world.port(schedule.some_broker()))


async def trickle(schedule: FaultSchedule) -> None:
    """Bytes arrive a few at a time."""
    schedule.network.conditions.trickle = True
    await schedule.a_while(1.0)
    schedule.network.conditions.trickle = False


async def slow_network(schedule: FaultSchedule) -> None:
    """Every byte arrives late."""
    slow = schedule.world.rng.uniform(0.01, 3.0)
    schedule.network.conditions.slowed.append(slow)
    await schedule.a_while()
    schedule.network.conditions.slowed.remove(slow)


# -- answers


async def retriable_errors(schedule: FaultSchedule) -> None:
    """Retriable errors; some of them after the append."""
    topic = schedule.some_topic()
    rng = schedule.world.rng
    code = rng.choice(RETRIABLE)
    times = rng.randrange(1, 30)
    partition = schedule.some_partition(topic) if rng.random() < 0.7 else None
    append = rng.random() < 0.6 if code in APPENDS_ANYWAY else None
    schedule.kafka.faults.error(code, append=append, times=times, partition=partition, topic=topic)


async def final_errors(schedule: FaultSchedule) -> None:
    """Final errors."""
    topic = schedule.some_topic()
    rng = schedule.world.rng
    schedule.kafka.faults.error(
        rng.choice(FINAL), times=rng.randrange(1, 4), partition=schedule.some_partition(topic), topic=topic,
        skip=rng.randrange(4),
    )  # fmt: skip


async def cut_answers(schedule: FaultSchedule) -> None:
    """The connection ends in place of answers, before or after the append."""
    rng = schedule.world.rng
    schedule.kafka.faults.cut(
        before=rng.random() < 0.5,
        reset=rng.random() < 0.5,
        api=rng.choice(schedule.apis),
        times=rng.randrange(1, 8),
    )


async def lost_answers(schedule: FaultSchedule) -> None:
    """The broker handles requests without an answer."""
    rng = schedule.world.rng
    schedule.kafka.faults.drop_answer(api=rng.choice(schedule.apis), times=rng.randrange(1, 4))


async def late_answers(schedule: FaultSchedule) -> None:
    """Answers, or the handling itself, are late: perhaps too late."""
    rng = schedule.world.rng
    schedule.kafka.faults.delay(
        rng.uniform(0.1, 6.0),
        before=rng.random() < 0.5,
        api=rng.choice(schedule.apis),
        times=rng.randrange(1, 5),
    )


async def throttled(schedule: FaultSchedule) -> None:
    """The broker applies a quota."""
    rng = schedule.world.rng
    schedule.kafka.faults.throttle(
        rng.randrange(1, 3000), times=rng.randrange(1, 5), broker=schedule.some_broker()
    )


async def nonsense(schedule: FaultSchedule) -> None:
    """Answers are malformed."""
    rng, faults = schedule.world.rng, schedule.kafka.faults
    where = {"api": rng.choice(schedule.apis), "times": rng.randrange(1, 3)}
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
    """Flip lengths and ids of an answer, which no checksum protects."""

    def flip(frame: bytes) -> bytes:
        altered = bytearray(frame)
        altered[4 + seed % 4] ^= 1 << (seed >> 8) % 8
        return bytes(altered)

    return flip


# -- the cluster


async def broker_dies(schedule: FaultSchedule) -> None:
    """A broker is killed, and restarted."""
    broker = schedule.some_broker()
    if sum(one.up for one in schedule.kafka.brokers) == 1:
        return
    await schedule.kafka.faults.stop_broker(broker, reset=schedule.world.rng.random() < 0.5)
    await schedule.a_while()
    await schedule.kafka.faults.start_broker(broker)


async def broker_moves(schedule: FaultSchedule) -> None:
    """A broker restarts at another address."""
    broker = schedule.some_broker()
    await schedule.kafka.faults.stop_broker(broker)
    await schedule.a_while(2.0)
    await schedule.kafka.faults.start_broker(broker, port=0)


async def leaders_move(schedule: FaultSchedule) -> None:
    """Leaders move repeatedly."""
    topic = schedule.some_topic()
    for _ in range(schedule.world.rng.randrange(1, 12)):
        up = [broker.id for broker in schedule.kafka.brokers if broker.up]
        if up:
            schedule.kafka.faults.move_leader(
                topic, schedule.some_partition(topic), schedule.world.rng.choice(up)
            )
        await asyncio.sleep(schedule.world.rng.uniform(0.0, 0.2))


async def leaderless(schedule: FaultSchedule) -> None:
    """A partition has no leader for a while."""
    topic = schedule.some_topic()
    partition = schedule.some_partition(topic)
    schedule.kafka.faults.move_leader(topic, partition, -1)
    await schedule.a_while()
    up = [broker.id for broker in schedule.kafka.brokers if broker.up] or [1]
    schedule.kafka.faults.move_leader(topic, partition, schedule.world.rng.choice(up))


async def hidden_topic(schedule: FaultSchedule) -> None:
    """One broker, or all, leave the topic out of their metadata."""
    topic = schedule.some_topic()
    broker = schedule.some_broker() if schedule.world.rng.random() < 0.5 else None
    schedule.kafka.faults.hide_topic(topic, broker=broker)
    await schedule.a_while()
    schedule.kafka.faults.show_topic(topic, broker=broker)


async def too_few_in_sync(schedule: FaultSchedule) -> None:
    """Fewer replicas are in sync than the topic requires."""
    topic = schedule.some_topic()
    partition = schedule.some_partition(topic)
    leader = schedule.kafka.leader_of(topic, partition)
    schedule.kafka.faults.shrink_isr(topic, partition, leader)
    await schedule.a_while()
    schedule.kafka.faults.shrink_isr(topic, partition, 1, 2, 3)


async def more_partitions(schedule: FaultSchedule) -> None:
    """The topic gets more partitions."""
    topic = schedule.some_topic()
    schedule.kafka.add_partitions(topic, schedule.kafka.topics[topic] + 1)


# -- the access; the cluster is a secured one


async def user_is_deleted(schedule: FaultSchedule) -> None:
    """The user does not exist for a while; tokens are not about it, and are refused by an error instead."""
    password = schedule.kafka.users.pop(USER, None)
    refusal = schedule.kafka.faults.error(58, api="SaslAuthenticate", times=None)
    if schedule.world.rng.random() < 0.5:
        for broker in schedule.kafka.brokers:
            schedule.network.reset(broker.port)
    await schedule.a_while()
    refusal.heal()
    if password is not None:
        schedule.kafka.users[USER] = password


async def password_changes(schedule: FaultSchedule) -> None:
    """The password is another one; the client learns it at once, or late."""
    access = schedule.world.access
    if access is None or USER not in schedule.kafka.users:
        return
    password = schedule.kafka.users[USER] = f"password {schedule.world.rng.randrange(4)}"
    if schedule.world.rng.random() < 0.5:
        await schedule.a_while()
    access.password = password


async def provider_fails(schedule: FaultSchedule) -> None:
    """The provider of passwords and tokens fails for a while, or does not return."""
    access = schedule.world.access
    if access is None:
        return
    name = schedule.world.rng.choice(("failing", "hanging"))
    setattr(access, name, True)
    await schedule.a_while()
    setattr(access, name, False)


async def credentials_are_set(schedule: FaultSchedule) -> None:
    """The program sets its credentials again, perhaps twice at once: the open connections are replaced."""
    world = schedule.world
    if world.access is None:
        return
    settings = world.access.of_the_client(world.loop)
    given = {"password": settings.get("sasl_password"), "token_provider": settings.get("sasl_token_provider")}
    for producer in world.producers:
        for _ in range(world.rng.choice((1, 1, 2))):
            with contextlib.suppress(StateError):  # it has ended
                producer.set_credentials(**given)


async def authentication_disturbed(schedule: FaultSchedule) -> None:
    """A step of an authentication is refused, lost, late, cut or nonsense."""
    rng, faults = schedule.world.rng, schedule.kafka.faults
    api, times = rng.choice(SASL_APIS), rng.randrange(1, 6)
    match rng.randrange(6):
        case 0:
            faults.error(rng.choice((34, 58, 33, -1)), api=api, times=times)
        case 1:
            faults.cut(before=rng.random() < 0.5, reset=rng.random() < 0.5, api=api, times=times)
        case 2:
            faults.drop_answer(api=api, times=times)
        case 3:
            faults.delay(rng.uniform(0.1, 6.0), before=rng.random() < 0.5, api=api, times=times)
        case 4:
            faults.rewrite(random_flips(rng.getrandbits(32)), api=api, times=times)
        case 5:
            faults.cut_answer(rng.randrange(1, 30), api=api, times=times)


# -- the program


async def loop_stalls(schedule: FaultSchedule) -> None:
    """Code of the program blocks the loop."""
    schedule.world.loop.call_soon(schedule.world.loop.stall, schedule.world.rng.uniform(0.05, 5.0))


async def wall_clock_jumps(schedule: FaultSchedule) -> None:
    """The wall clock is set."""
    schedule.world.loop.set_wall(schedule.world.rng.choice((-86_400_000, 3_000_000, -3_600_000)))


FAULTS: Final[tuple[Fault, ...]] = (
    hold_a_broker, hold_one_direction, isolate_a_broker, isolate_all, fail_connecting, cut_somewhere, cut_somewhere,
    cut_somewhere, reset_all_connections, peers_vanish, trickle, slow_network, retriable_errors, retriable_errors,
    retriable_errors, final_errors, cut_answers, cut_answers, lost_answers, late_answers, throttled, nonsense,
    broker_dies, broker_dies, broker_moves, leaders_move, leaders_move, leaderless, hidden_topic, too_few_in_sync,
    more_partitions, loop_stalls, wall_clock_jumps,
)  # fmt: skip
ACCESS_FAULTS: Final[tuple[Fault, ...]] = (
    user_is_deleted,
    password_changes,
    provider_fails,
    authentication_disturbed,
    credentials_are_set,
)
