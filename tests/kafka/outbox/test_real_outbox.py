"""An outbox in a real PostgreSQL, relayed to a real Kafka of three nodes, while relays, nodes and the database are killed.

Writers commit transactions with rows of the outbox and, beside them, the same facts in a second table. At the end the log
has each of these facts, in the order of each writer; second copies have the id of the first. 20 seconds in `make test`,
three minutes with `AIOPRODUCER_EFFORT=proof`.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import sys
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import asyncpg
import attrs
import pytest

from aioproducer.outbox import ID_HEADER, PostgresStore
from tests.effort import PROOF
from tests.kafka.reading import ReadRecord, read_all
from tests.repo.source import ROOT
from tests.seeds import seed_of
from tools.kafka_cluster import KafkaCluster
from tools.postgres import Postgres

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(900)]

SECONDS: Final = 180.0 if PROOF else 20.0
WRITERS: Final = 8
RELAYS: Final = 2
LIMIT: Final = 120.0
FACTS: Final = "CREATE TABLE facts (writer integer, number integer, id bigint)"

Fact = tuple[int, int]
"""The number of a writer, and of its row."""


@attrs.define(eq=False)
class Writer:
    """One task of the application: its transactions follow each other."""

    number: int
    server: Postgres
    store: PostgresStore
    rng: random.Random
    rows: int = 0
    rolled_back: int = 0

    async def run(self) -> None:
        """Write until the test cancels it; the server may be killed at any time."""
        while True:
            try:
                connection = await asyncpg.connect(**self.server.address, timeout=5)
                try:
                    while True:
                        await self.transaction(connection)
                finally:
                    connection.terminate()
            except Exception:  # noqa: BLE001  # asyncpg has many kinds, also internal ones, for a server that is killed
                # As long as a server takes to start.
                await asyncio.sleep(0.1)

    async def transaction(self, connection: Any) -> None:
        """A few rows that belong together, one time in ten rolled back."""
        transaction = connection.transaction()
        await transaction.start()
        for _ in range(self.rng.randint(1, 20)):
            self.rows += 1
            value = b"%d %d" % (self.number, self.rows)
            row = await self.store.add(
                connection, "events", value, key=b"%d" % self.number, headers={"h": b"\xff"}
            )
            await connection.execute("INSERT INTO facts VALUES ($1, $2, $3)", self.number, self.rows, row)
        if self.rng.random() < 0.1:
            self.rolled_back += 1
            await transaction.rollback()
        else:
            await transaction.commit()
        # A rate that leaves time for relays on two processors.
        await asyncio.sleep(self.rng.uniform(0, 0.05))


@attrs.define(eq=False)
class Relays:
    """Processes that relay, and are killed."""

    kafka: KafkaCluster
    server: Postgres
    processes: list[asyncio.subprocess.Process] = attrs.Factory(list)

    async def start(self) -> None:
        """Start one more."""
        arguments = [
            "-m",
            "tests.kafka.outbox.relaying",
            self.kafka.bootstrap_servers,
            self.server.address["host"],
        ]
        process = await asyncio.create_subprocess_exec(
            sys.executable, *arguments, cwd=ROOT, stdout=asyncio.subprocess.PIPE
        )
        self.processes.append(process)
        assert process.stdout is not None
        assert await process.stdout.readline() == b"relaying\n"

    async def kill(self, process: asyncio.subprocess.Process) -> None:
        """SIGKILL for one of them."""
        self.processes.remove(process)
        process.kill()
        await process.wait()

    async def end(self) -> None:
        """SIGKILL for all."""
        for process in [*self.processes]:
            await self.kill(process)


@attrs.define(eq=False)
class Faults:
    """Kills, drawn from the seed."""

    relays: Relays
    rng: random.Random
    counts: Counter[str] = attrs.Factory(Counter)
    mending: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """One kill after the other; a node is killed when the former one is back."""
        end = asyncio.get_running_loop().time() + SECONDS
        kinds = (self.kill_a_node, self.kill_a_relay, self.kill_the_database, self.kill_a_relay)
        for kind in itertools.cycle(kinds):
            await self.a_moment()
            if asyncio.get_running_loop().time() > end:
                break
            if kind != self.kill_a_node or self.mending is None or self.mending.done():
                await kind()
                self.counts[kind.__name__] += 1
        if self.mending is not None:
            await self.mending

    async def a_moment(self) -> None:
        """The time of undisturbed work between two kills."""
        # Rows are relayed meanwhile: their number does not matter.
        await asyncio.sleep(self.rng.uniform(0.3, 2.0))

    async def kill_a_relay(self) -> None:
        """Its successor is another process, or the one that stands by."""
        await self.relays.kill(self.rng.choice(self.relays.processes))
        await self.relays.start()

    async def kill_a_node(self) -> None:
        """A broker, whose partitions get another leader."""
        node = self.rng.choice(self.relays.kafka.nodes)
        node.kill()
        await self.a_moment()
        node.start()
        self.mending = asyncio.ensure_future(asyncio.to_thread(self.relays.kafka.wait_ready, LIMIT))

    async def kill_the_database(self) -> None:
        """All of its sessions end, and the lock with them."""
        self.relays.server.kill()
        await self.a_moment()
        # By this thread: the server ends with the one that has started it.
        self.relays.server.start()


@asynccontextmanager
async def running(tasks: list[Any]) -> AsyncIterator[None]:
    """Run these in the background; none of them may fail."""
    started = [asyncio.ensure_future(each) for each in tasks]
    try:
        yield
    finally:
        for task in started:
            task.cancel()
        await asyncio.wait(started)
    for task in started:
        assert task.cancelled(), task.exception()


async def test_nothing_is_lost_while_all_parts_are_killed(
    faulty_nodes: KafkaCluster, postgres: Postgres
) -> None:
    """Each committed row is in the log, none that was rolled back; order per key; copies have the same id."""
    seed = seed_of(__name__)
    rng = random.Random(seed)
    await asyncio.to_thread(faulty_nodes.create_topic, "events", 6, min_insync_replicas=2)
    store = PostgresStore(None, channel="new_rows")
    connection = await asyncpg.connect(**postgres.address)
    await connection.execute("DROP TABLE IF EXISTS outbox; DROP TABLE IF EXISTS facts")
    await connection.execute(store.schema_sql())
    await connection.execute(FACTS)
    await connection.close()
    relays = Relays(faulty_nodes, postgres)
    faults = Faults(relays, rng)
    writers = [Writer(number, postgres, store, random.Random(rng.random())) for number in range(WRITERS)]
    try:
        await asyncio.gather(*(relays.start() for _ in range(RELAYS)))
        async with running([writer.run() for writer in writers]):
            await faults.run()
        written = await drained(postgres)
    finally:
        await relays.end()
    log = await asyncio.to_thread(read_all, faulty_nodes.bootstrap_servers, "events")
    copies = judge(written, log)
    rolled_back = sum(writer.rolled_back for writer in writers)
    print(
        f"seed {seed}: {dict(faults.counts)}, {len(written)} rows committed, {rolled_back} transactions rolled back, "
        f"{len(log)} records, {copies} of them copies"
    )
    assert len(written) > 100


async def drained(server: Postgres) -> dict[Fact, int]:
    """Wait until the outbox is empty; the rows that were committed, with their ids."""
    connection = await asyncpg.connect(**server.address)
    try:
        async with asyncio.timeout(LIMIT):
            while await connection.fetchval("SELECT count(*) FROM outbox"):  # noqa: ASYNC110  # it sends no event
                await asyncio.sleep(0.1)
        found = await connection.fetch("SELECT writer, number, id FROM facts")
        return {(writer, number): row for writer, number, row in found}
    finally:
        await connection.close()


def judge(written: dict[Fact, int], log: list[ReadRecord]) -> int:
    """Compare the table with the log; the number of second copies."""
    found: dict[Fact, set[int]] = defaultdict(set)
    firsts: dict[int, list[Fact]] = defaultdict(list)
    for record in log:
        writer, number = map(int, (record.value or b"").split())
        fact = (writer, number)
        assert record.key == b"%d" % writer
        if fact not in found:
            firsts[writer].append(fact)
        found[fact].add(int(dict(record.headers)[ID_HEADER] or b""))
    lost, invented = written.keys() - found.keys(), found.keys() - written.keys()
    assert not lost, f"{len(lost)} lost, such as {min(lost)}"
    assert not invented, f"{len(invented)} that were not committed, such as {min(invented)}"
    assert {fact: {row} for fact, row in written.items()} == found
    for writer, facts in firsts.items():
        assert facts == sorted(facts), f"writer {writer}"
    return len(log) - len(found)
