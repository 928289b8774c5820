"""A group of programs that copies records exactly once, while it is rebalanced, interrupted, killed and disturbed."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, Final

import anyio
import attrs
import pytest

from aioproducer import (
    CommitOutcomeUnknownError,
    GroupMetadata,
    KafkaError,
    Producer,
    ProducerFencedError,
    TransactionTimeoutError,
)
from tests.effort import COPYING, seeds
from tests.simulation.world import World, simulate

SOURCE: Final = "source"
COPIES: Final = "copies"
GROUP: Final = "copiers"
PARTITIONS: Final = 3
RECORDS: Final = 24
SLOTS: Final = 2
"""Programs that work at the same time, each with a transactional id of its own."""
LASTS: Final = 4.0
CALM: Final = 90.0
STEPS: Final = 60
ERRORS: Final[dict[str, tuple[str, ...]]] = {
    "Produce": ("NOT_LEADER_OR_FOLLOWER", "INVALID_PRODUCER_EPOCH", "REQUEST_TIMED_OUT", "MESSAGE_TOO_LARGE"),
    "EndTxn": ("NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS", "CONCURRENT_TRANSACTIONS"),
    "InitProducerId": ("NOT_COORDINATOR", "CONCURRENT_TRANSACTIONS"),
    "AddPartitionsToTxn": ("NOT_COORDINATOR", "CONCURRENT_TRANSACTIONS"),
    "AddOffsetsToTxn": ("NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS"),
    "TxnOffsetCommit": ("NOT_COORDINATOR", "ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID", "REQUEST_TIMED_OUT"),
    "OffsetFetch": ("NOT_COORDINATOR", "UNSTABLE_OFFSET_COMMIT"),
}


class ChangedMindError(Exception):
    """The program drops the transaction."""


@attrs.define(eq=False)
class Group:
    """The consumer group: its members, and the partitions of each in the present generation."""

    world: World
    generation: int = 0
    members: list[str] = attrs.Factory(list)
    owners: dict[int, str] = attrs.Factory(dict)
    is_calm: bool = False
    programs: list[Program] = attrs.Factory(list)
    began_at: float = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.began_at = self.world.now

    @property
    def available(self) -> int:
        """The number of records in each partition of the source, which grows while there are faults."""
        if self.is_calm:
            return RECORDS
        return min(RECORDS, round(RECORDS * (self.world.now - self.began_at) / LASTS))

    def rebalance(self) -> None:
        """Another generation begins, of which the members learn later."""
        self.generation += 1
        rng = self.world.rng
        self.owners = {at: rng.choice(self.members) for at in range(PARTITIONS)} if self.members else {}
        self.world.kafka.set_group(GROUP, self.generation, self.members)

    async def run_slot(self, slot: int) -> None:
        """Programs with one transactional id, one after the other; some overlap with their successor."""
        rng, until, working = self.world.rng, self.world.now + LASTS, []
        while self.world.now < until:
            program = Program(self, f"{slot}.{len(self.programs)}", slot)
            self.programs.append(program)
            working.append(asyncio.create_task(program.run()))
            await asyncio.wait(working[-1:], timeout=rng.uniform(0.2, LASTS))
            if rng.random() < 0.5:
                await program.end(timeout=0)
        for program in self.programs:
            if program.slot == slot:
                program.is_over = True
        await asyncio.gather(*working)

    async def disturb(self) -> None:
        """Faults and rebalances, until it is cancelled."""
        rng, faults = self.world.rng, self.world.kafka.faults
        while True:
            await asyncio.sleep(rng.expovariate(4.0))
            api = rng.choice(sorted(ERRORS))
            where: Any = {"api": api, "times": rng.choice((1, 1, 2, 4))}
            match rng.randrange(7):
                case 0:
                    faults.cut(before=rng.random() < 0.5, **where)
                case 1:
                    faults.delay(rng.choice((0.01, 0.3, 1.9, 3.0)), before=rng.random() < 0.6, **where)
                case 2:
                    faults.delay_markers(rng.uniform(0.01, 1.5))
                case 3 | 4:
                    faults.error(rng.choice(ERRORS[api]), **where)
                case 5:
                    key = rng.choice((GROUP, "copier-0", "copier-1"))
                    faults.move_coordinator(key, rng.randrange(1, 4), loading=rng.choice((0.0, 0.5)))
                case 6:
                    self.rebalance()


@attrs.define(eq=False)
class Program:
    """One process of the group, which continues behind the stable committed offsets after each interruption."""

    group: Group
    name: str
    slot: int
    is_over: bool = False
    generation: int = -1
    positions: dict[int, int] = attrs.Factory(dict)
    producer: Producer[Any, Any] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        rng = self.group.world.rng
        self.producer = self.group.world.producer(
            transactional_id=f"copier-{self.slot}",
            linger_ms=rng.choice((0, 5)),
            transaction_timeout_ms=rng.choice((1_500, 60_000)),
            close_timeout_ms=5_000,
        )

    async def run(self) -> None:
        """Copy until it is over, fenced or killed."""
        group, rng = self.group, self.group.world.rng
        await self.producer.start()
        group.members.append(self.name)
        group.rebalance()
        while not self.is_over and self.producer.health().state == "running":
            try:
                await self._seek()
                await (self._interrupted() if rng.random() < 0.3 and not group.is_calm else self._copy())
            except ProducerFencedError:
                break
            except (KafkaError, ChangedMindError):
                await self._settle()
            await asyncio.sleep(rng.choice((0.0, 0.001, 0.1)))
        await self.end(timeout=None)

    async def end(self, timeout: float | None) -> None:
        """Leave the group, and close the producer."""
        self.is_over = True
        if self.name in self.group.members:
            self.group.members.remove(self.name)
            self.group.rebalance()
        await self.producer.close(timeout)

    async def _seek(self) -> None:
        """Read the positions of the assigned partitions, of a generation that may be over by then."""
        generation, owners = self.group.generation, self.group.owners
        mine = [at for at, owner in owners.items() if owner == self.name]
        found = await self.producer.committed_offsets(GROUP, [(SOURCE, at) for at in mine], timeout=20)
        self.positions = dict.fromkeys(mine, 0) | {place.partition: at.offset for place, at in found.items()}
        self.generation = generation

    async def _copy(self) -> None:
        rng = self.group.world.rng
        found = [
            (partition, number)
            for partition, first in self.positions.items()
            for number in range(first, min(self.group.available, first + rng.choice((1, 2, 4))))
        ]
        if not found:
            await asyncio.sleep(0.05)
        elif rng.random() < 0.5:
            async with self.producer.transaction(timeout=rng.choice((0.02, 5.0))):
                await self._fill(found)
        else:
            await self.producer.run_transaction(self._fill, found, timeout=5.0)

    async def _fill(self, found: list[tuple[int, int]]) -> None:
        rng, producer = self.group.world.rng, self.producer
        offsets = {(SOURCE, partition): number + 1 for partition, number in found}
        member = GroupMetadata(GROUP, self.generation, self.name)
        is_first = rng.random() < 0.5
        if is_first:
            await producer.send_offsets_to_transaction(offsets, member, timeout=rng.choice((0.05, 5.0)))
        for partition, number in found:
            await producer.send(COPIES, b"%d.%d" % (partition, number), partition=partition)
        if rng.random() < 0.1 and not self.group.is_calm:
            raise ChangedMindError
        if not is_first:
            await producer.send_offsets_to_transaction(offsets, member)

    async def _interrupted(self) -> None:
        """The copy ends after some steps, in one of the ways of asyncio and anyio."""
        rng = self.group.world.rng
        match rng.randrange(3):
            case 0:
                task = asyncio.create_task(self._copy())
                for _ in range(rng.randrange(STEPS)):
                    await asyncio.sleep(0)
                for _ in range(rng.choice((1, 1, 3))):
                    task.cancel()
                    await asyncio.sleep(0)
                await asyncio.wait([task])
                if not task.cancelled():
                    task.result()
            case 1:
                with anyio.move_on_after(rng.random() * 0.02):
                    await self._copy()
            case 2:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(rng.random() * 0.02):
                        await self._copy()
        await self._settle()

    async def _settle(self) -> None:
        """The next transaction may begin: the present one is ended, in any of the ways that are possible."""
        rng, producer = self.group.world.rng, self.producer
        for call in (producer.abort_transaction, producer.commit_transaction, producer.init_transactions):
            for _ in range(50):
                try:
                    await call(timeout=rng.choice((0.01, 2.0)))
                except (TransactionTimeoutError, CommitOutcomeUnknownError):
                    continue
                except KafkaError:
                    break
                return


async def _live(world: World) -> list[str]:
    world.forgotten.update((SOURCE, COPIES))
    for topic in (SOURCE, COPIES):
        world.kafka.create_topic(topic, PARTITIONS)
    group = Group(world)
    noise = asyncio.create_task(group.disturb())
    await asyncio.gather(*map(group.run_slot, range(SLOTS)))
    noise.cancel()
    world.kafka.faults.heal()
    group.is_calm = True
    last = Program(group, "last", 0)
    working = asyncio.create_task(last.run())
    offsets: list[int | None] = []
    until = world.now + CALM
    while offsets != [RECORDS] * PARTITIONS and world.now < until:
        await asyncio.sleep(0.2)
        offsets = [world.kafka.committed_offset(GROUP, SOURCE, at) for at in range(PARTITIONS)]
    last.is_over = True
    await working
    ids = [f"copier-{slot}" for slot in range(SLOTS)]
    cleaner = world.producer()
    await cleaner.start()
    await cleaner.fence(ids, timeout=60)
    copies = [[each.value for each in world.kafka.records(COPIES, at)] for at in range(PARTITIONS)]
    expected = [[b"%d.%d" % (at, number) for number in range(RECORDS)] for at in range(PARTITIONS)]
    return [f"{offsets}: {copies}"] if copies != expected else []


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("seed", seeds(COPYING))
def test_each_record_is_copied_once(seed: int, version: int) -> None:
    """A reader of committed records finds each one once and in order, whatever happened to the programs and the cluster."""
    findings: list[str] = []

    async def play(world: World) -> None:
        findings.extend(await _live(world))

    simulate(play, seed, transaction_version=version)
    assert not findings, "\n".join([f"AIOPRODUCER_SEED={seed}", *findings])
