"""Copiers at work: a topic that is filled, processes that copy it in transactions, and a watcher of their commits."""

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
from tools.kafka_node import KafkaNode, dies_with_its_parent

LIMIT: Final = 90.0
"""The limit of each wait, in seconds."""
PARTITIONS: Final = 6
_ROOT: Final = Path(__file__).parents[3]


def value_of(partition: int, number: int) -> bytes:
    """The value of a record of the source, computed from its place."""
    return b"%d of %d, " % (number, partition) + b"to be copied " * (number % 8)


@attrs.define(eq=False)
class Process:
    """One copier, and the steps that it has reported."""

    order: Order
    process: asyncio.subprocess.Process
    steps: Counter[str] = attrs.field(factory=Counter, init=False)
    """The number of transactions that it has begun, committed, ..."""
    recoveries: list[str] = attrs.field(factory=list, init=False)
    listening: asyncio.Task[None] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.listening = asyncio.create_task(self._listen())

    @classmethod
    async def start(cls, order: Order) -> Self:
        """A new process, which dies with this one."""
        command = [
            *dies_with_its_parent(),
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
            self.steps[step] += 1
            if step == "recovering":
                self.recoveries.append(details)

    @property
    def running(self) -> bool:
        """Whether the process exists (it may be paused)."""
        return self.process.returncode is None

    def pause(self) -> None:
        """Send SIGSTOP."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Send SIGCONT, and the line that the copier may be waiting for."""
        assert self.process.stdin is not None
        self.process.stdin.write(b"go on\n")
        self.process.send_signal(signal.SIGCONT)

    async def ended(self) -> int:
        """The exit code, after all reported steps are read."""
        async with asyncio.timeout(LIMIT):
            await self.listening
            return await self.process.wait()

    async def kill(self) -> None:
        """Send SIGKILL."""
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        await self.ended()


@attrs.define(eq=False)
class Copying:
    """`async with Copying(...) as copying:` fills a source, starts copiers, and lets the test make faults."""

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
        """Send so many more records to the source, evenly, and wait for their acknowledgements."""
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
        """The order of the copier with this number: its own name, and its share of the partitions."""
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
        """Let the copiers work until the condition holds: it is polled, as other processes send no event."""
        deadline = time.monotonic() + LIMIT
        while not condition():
            self._check_exit_codes()
            assert time.monotonic() < deadline, f"{what}: not within {LIMIT:g} s, {self.situation()}"
            await asyncio.sleep(0.005)

    async def until_seen(self, total: int) -> None:
        """Wait until so many records are seen."""
        await self.until(lambda: self.watcher.total >= total, f"{total} records")

    def _check_exit_codes(self) -> None:
        codes = [process.process.returncode for process in self.processes]
        assert set(codes) <= {None, 0}, f"copiers ended with {codes}"

    def situation(self) -> str:
        """The known state, for the message of a failure."""
        copiers = [
            (process.process.returncode, dict(process.steps), process.recoveries)
            for process in self.processes
        ]
        return (
            f"filled {self._filled}, seen {self.watcher.seen}, copiers {copiers}, faults {dict(self.counts)}"
        )

    # -- faults

    async def kill_copier(self, index: int) -> None:
        """Send SIGKILL, and start another in its place."""
        await self.processes[index].kill()
        self.counts["copiers killed"] += 1
        await self.start(index)

    async def kill_broker(self, node: KafkaNode) -> None:
        """Kill the node once the cluster is whole, so that only one node is missing at a time; restart it at once."""
        await asyncio.to_thread(self.kafka.wait_ready, LIMIT)
        node.kill()
        self.counts["brokers killed"] += 1
        node.start()

    async def stop_copier_for_its_successor(self, index: int) -> None:
        """Stop a copier, let another take over and commit, then resume it: the resumed copier is fenced.

        The copier must have owned the id: one that is stopped during its start would come later, and rightly take over.
        """
        zombie = self.processes[index]
        await self.until(lambda: zombie.steps["ready"], "the copier that is to be stopped")
        zombie.pause()
        successor = await self.start(index)
        await self.until(lambda: successor.steps["committed"], "the successor's first commit")
        zombie.resume()
        assert await zombie.ended() == FENCED
        self.counts["zombies"] += 1

    # -- at the end

    async def finish(self) -> None:
        """Wait until all is copied, the copiers have ended by themselves, and the group's offsets are at the end."""
        await self.until_seen(self.count)
        assert [await process.ended() for process in self.processes] == [0] * self.copiers
        await self.offsets_agree()

    async def offsets_agree(self) -> None:
        """Committed offsets are never behind the records seen before, and the records before them are soon seen."""
        before = list(self.watcher.seen)
        committed = await offsets(self.servers, self.group, self.source, PARTITIONS)
        stored = [committed.get(place, 0) for place in range(PARTITIONS)]
        assert all(offset >= seen for offset, seen in zip(stored, before, strict=True)), (stored, before)
        await self.until(
            lambda: all(seen >= offset for seen, offset in zip(self.watcher.seen, stored, strict=True)),
            f"records up to offsets {stored}",
        )
        self.counts["offsets compared"] += 1

    def steps(self) -> Counter[str]:
        """The steps that all copiers together have reported."""
        return sum((process.steps for process in [*self.processes, *self.gone]), Counter())

    def recoveries(self) -> list[str]:
        """The errors with which transactions have failed."""
        return [error for process in [*self.processes, *self.gone] for error in process.recoveries]
