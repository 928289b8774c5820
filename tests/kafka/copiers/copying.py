"""Copiers at work: a topic that is filled, processes that copy it in transactions, and who watches what they commit."""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Self

import attrs

from aioproducer import Producer
from tests.kafka.copiers.copier import FENCED, Order, transformed
from tests.kafka.copiers.watcher import Watcher
from tests.kafka.transactions.committed import offsets
from tools.kafka_cluster import KafkaCluster
from tools.kafka_node import KafkaNode, _dies_with_its_parent

LIMIT: Final = 90.0
"""Seconds within which whatever is waited for must have happened."""
PARTITIONS: Final = 6
_ROOT: Final = Path(__file__).parents[3]


def value_of(partition: int, number: int) -> bytes:
    """What a record of the source is, known by its place."""
    return b"%d of %d, " % (number, partition) + b"to be copied " * (number % 8)


@attrs.define(eq=False)
class Process:
    """One copier, and what it has told."""

    order: Order
    process: asyncio.subprocess.Process
    told: Counter[str] = attrs.field(factory=Counter, init=False)
    """How many transactions it has begun, committed, ..."""
    recoveries: list[str] = attrs.field(factory=list, init=False)
    listening: asyncio.Task[None] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.listening = asyncio.create_task(self._listen())

    @classmethod
    async def start(cls, order: Order) -> Self:
        """A new process, which dies with this one."""
        command = [
            *_dies_with_its_parent(),
            sys.executable,
            "-m",
            "tests.kafka.copiers.copier",
            order.write(),
        ]
        process = await asyncio.create_subprocess_exec(
            *command, cwd=_ROOT, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
        )
        return cls(order, process)

    async def _listen(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            step, _, details = line.decode().strip().partition(" ")
            self.told[step] += 1
            if step == "recovering":
                self.recoveries.append(details)

    @property
    def running(self) -> bool:
        """Whether it is there (it may be paused)."""
        return self.process.returncode is None

    def pause(self) -> None:
        """SIGSTOP."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT, and the word that it may be waiting for."""
        assert self.process.stdin is not None
        self.process.stdin.write(b"go on\n")
        self.process.send_signal(signal.SIGCONT)

    async def ended(self) -> int:
        """Its exit code, when all that it has told is known."""
        async with asyncio.timeout(LIMIT):
            await self.listening
            return await self.process.wait()

    async def kill(self) -> None:
        """SIGKILL."""
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        await self.ended()


@attrs.define(eq=False)
class Copying:
    """`async with Copying(...) as copying:` fills a source in portions, has it copied, and lets the test make faults."""

    kafka: KafkaCluster
    name: str
    seed: int
    count: int
    copiers: int = 2
    rng: random.Random = attrs.field(init=False)
    processes: list[Process] = attrs.field(factory=list, init=False)
    gone: list[Process] = attrs.field(factory=list, init=False)
    counts: Counter[str] = attrs.field(factory=Counter, init=False)
    watcher: Watcher = attrs.field(init=False)
    producer: Producer[Any, Any] = attrs.field(init=False)
    _filled: int = attrs.field(default=0, init=False)
    _stack: contextlib.AsyncExitStack = attrs.field(factory=contextlib.AsyncExitStack, init=False)

    def __attrs_post_init__(self) -> None:
        self.rng = random.Random(f"{self.seed}-{self.name}")

    async def __aenter__(self) -> Self:
        for topic in (self.source, self.sink):
            await asyncio.to_thread(self.kafka.create_topic, topic, PARTITIONS)
        self.producer = await self._stack.enter_async_context(Producer(self.servers))
        self.watcher = self._stack.enter_context(
            Watcher(
                self.servers,
                self.sink,
                PARTITIONS,
                lambda place, number: transformed(value_of(place, number)),
            )
        )
        return self

    async def __aexit__(self, *error: object) -> None:
        for node in self.kafka.nodes:
            if not node.running:
                node.start()
        for process in self.processes:
            await process.kill()
        await self._stack.aclose()

    @property
    def servers(self) -> str:
        return self.kafka.bootstrap_servers

    @property
    def source(self) -> str:
        return f"{self.name}-source"

    @property
    def sink(self) -> str:
        return f"{self.name}-sink"

    @property
    def group(self) -> str:
        return f"{self.name}-copiers"

    # -- at work

    async def fill(self, count: int) -> None:
        """So many more records into the source, evenly, each of them acknowledged."""
        numbers = range(self._filled, self._filled + count)
        sent = [
            await self.producer.send(
                self.source,
                value_of(number % PARTITIONS, number // PARTITIONS),
                partition=number % PARTITIONS,
            )
            for number in numbers
        ]
        self._filled += count
        for delivery in sent:
            await delivery

    def order(self, index: int, **options: Any) -> Order:
        """What the copier with this number has to do: it has its own name, and its share of the partitions."""
        ends = {place: len(range(place, self.count, PARTITIONS)) for place in range(PARTITIONS)}
        mine = {place: end for place, end in ends.items() if place % self.copiers == index}
        name, seed = f"{self.name}-{index}", self.rng.randrange(2**31)
        return Order(self.servers, name, self.source, self.sink, mine, seed, group=self.group, **options)

    async def start(self, index: int, **options: Any) -> Process:
        """Start the copier with this number, in place of the one before."""
        process = await Process.start(self.order(index, **options))
        if index < len(self.processes):
            self.gone.append(self.processes[index])
            self.processes[index] = process
        else:
            self.processes.append(process)
        return process

    async def until(self, condition: Callable[[], object], what: str) -> None:
        """Let them work until it is so: other processes tell nothing that could be waited for."""
        deadline = time.monotonic() + LIMIT
        while not condition():
            self._nobody_failed()
            assert time.monotonic() < deadline, f"{what}: not within {LIMIT:g} s, {self.situation()}"
            await asyncio.sleep(0.005)

    async def until_seen(self, total: int) -> None:
        """Wait until so many records were seen."""
        await self.until(lambda: self.watcher.total >= total, f"{total} records")

    def _nobody_failed(self) -> None:
        codes = [process.process.returncode for process in self.processes]
        assert set(codes) <= {None, 0}, f"copiers ended with {codes}"

    def situation(self) -> str:
        """What is known, for who reads of a failure."""
        told = [
            (process.process.returncode, dict(process.told), process.recoveries) for process in self.processes
        ]
        return f"filled {self._filled}, seen {self.watcher.seen}, copiers {told}, faults {dict(self.counts)}"

    # -- faults

    async def kill_copier(self, index: int) -> None:
        """SIGKILL, and another takes its place."""
        await self.processes[index].kill()
        self.counts["copiers killed"] += 1
        await self.start(index)

    async def kill_broker(self, node: KafkaNode) -> None:
        """SIGKILL, once the cluster is whole, so that only one node is missing at a time; it comes back at once."""
        await asyncio.to_thread(self.kafka.wait_ready, LIMIT)
        node.kill()
        self.counts["brokers killed"] += 1
        node.start()

    async def stop_copier_for_its_successor(self, index: int) -> None:
        """SIGSTOP, then another takes over and commits, then SIGCONT: the zombie learns that it is one.

        It must have owned the id: one that is stopped while it starts would come later, and rightly take over.
        """
        zombie = self.processes[index]
        await self.until(lambda: zombie.told["ready"], "the copier that is to be stopped")
        zombie.pause()
        successor = await self.start(index)
        await self.until(lambda: successor.told["committed"], "the successor's first commit")
        zombie.resume()
        assert await zombie.ended() == FENCED
        self.counts["zombies"] += 1

    # -- the end

    async def finish(self) -> None:
        """All is copied, the copiers end by themselves, and the group's offsets are at the end."""
        await self.until_seen(self.count)
        assert [await process.ended() for process in self.processes] == [0] * self.copiers
        await self.offsets_agree()

    async def offsets_agree(self) -> None:
        """Offsets are never behind what was seen before, and what they cover is soon seen: they move with the data."""
        before = list(self.watcher.seen)
        committed = await offsets(self.servers, self.group, self.source, PARTITIONS)
        told = [committed.get(place, 0) for place in range(PARTITIONS)]
        assert all(offset >= seen for offset, seen in zip(told, before, strict=True)), (told, before)
        await self.until(
            lambda: all(seen >= offset for seen, offset in zip(self.watcher.seen, told, strict=True)),
            f"records up to offsets {told}",
        )
        self.counts["offsets compared"] += 1

    def told(self) -> Counter[str]:
        """What all copiers together have told."""
        return sum((process.told for process in [*self.processes, *self.gone]), Counter())

    def recoveries(self) -> list[str]:
        """What their transactions have failed with."""
        return [error for process in [*self.processes, *self.gone] for error in process.recoveries]
