"""One run: a patient and a hasty producer under load while nodes of a real Kafka fail; then the judge."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable
from typing import Any, Final, Self

import attrs

from aioproducer import Outcome
from aioproducer.errors import KafkaError
from tests.contract.client import WireClient
from tests.judge.history import Sent
from tests.judge.judge import Finding, Rules, judge
from tests.kafka.faults.load import PARTITIONS, Load, Plan
from tests.kafka.faults.report import Recovery, Report
from tests.kafka.reading import read_found
from tests.net.support import turns
from tools.kafka_cluster import KafkaCluster
from tools.kafka_node import KafkaNode

REQUEST_TIMEOUT: Final = 4.0
LIMIT: Final = 90.0
"""The limit of each wait of a run, in seconds."""
_SLACK: Final = 0.25
_RECORDS_PER_SECOND: Final = 4000.0
_MANY_REQUESTS: Final = 5
_RECOVERY: Final = 3.0
"""Seconds from healing to an ack of every partition, when no timeout is running (I11)."""
_COMMON: Final[dict[str, Any]] = {
    "request_timeout_ms": int(REQUEST_TIMEOUT * 1000),
    "batch_size": 16_384,
    "buffer_memory": 4_194_304,
}
PATIENT: Final[dict[str, Any]] = _COMMON | {"delivery_timeout_ms": 120_000, "max_block_ms": 120_000}
"""Outlives every fault here: each of its records must be acknowledged."""
HASTY: Final[dict[str, Any]] = _COMMON | {
    "delivery_timeout_ms": 10_000,
    "max_block_ms": 8_000,
    "compression_type": "lz4",
}
"""Its deadlines pass during the longer faults, which tests the truth of NOT_WRITTEN and UNKNOWN."""


@attrs.frozen
class Verdict:
    """A load, and the findings of the judge about it."""

    load: Load
    findings: list[Finding]

    @property
    def untimely(self) -> list[Sent]:
        """Records that ended as UNKNOWN long before their deadline."""
        early = _SLACK + self.load.lag.so_far.longest
        unknown = (record for record in self.load.history if record.outcome is Outcome.UNKNOWN)
        return [record for record in unknown if record.resolved_at < record.due_at - early]


@attrs.define(eq=False)
class Run:
    """`async with Run(...) as run:` sends, and lets the test make faults; at the end it heals the cluster and judges."""

    kafka: KafkaCluster
    name: str
    seed: int
    report: Report
    topic_settings: dict[str, str] = attrs.Factory(dict)
    roaming: bool = True
    min_in_sync: int = 2
    rng: random.Random = attrs.field(init=False)
    patient: Load = attrs.field(init=False)
    hasty: Load = attrs.field(init=False)
    verdicts: list[Verdict] = attrs.field(factory=list, init=False)
    recoveries: list[Recovery] = attrs.field(factory=list, init=False)

    def __attrs_post_init__(self) -> None:
        self.rng = random.Random(f"{self.seed}-{self.name}")

    @property
    def loads(self) -> tuple[Load, Load]:
        """Both loads."""
        return self.patient, self.hasty

    async def __aenter__(self) -> Self:
        print(f"{self.name}: replay this schedule with AIOPRODUCER_SEED={self.seed}")
        self.report.scenarios.append(self.name)
        self.patient = await self._load("patient", PATIENT)
        self.hasty = await self._load("hasty", HASTY)
        for load in self.loads:
            await load.start()
        await self.acked_everywhere()
        return self

    async def _load(self, name: str, settings: dict[str, Any]) -> Load:
        topic = f"{self.name}-{name}"
        configs = {"min_insync_replicas": self.min_in_sync}
        await asyncio.to_thread(self.kafka.create_topic, topic, PARTITIONS, **configs)
        plan = Plan(name, topic, self.seed, _RECORDS_PER_SECOND, self.roaming, settings)
        return Load(plan, self.kafka.bootstrap_servers)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: object
    ) -> None:
        self._restore()
        if error is not None:
            for load in self.loads:
                await load.abort()
            return
        await self.until_whole()
        # Both have ended before the topics are read: judging blocks the loop.
        await asyncio.gather(*(load.finish() for load in self.loads))
        for load in self.loads:
            log = await asyncio.to_thread(read_found, self.kafka.bootstrap_servers, load.plan.topic)
            findings = judge(load.history, log, Rules(slack=_SLACK))
            self.report.add(load, findings)
            self.verdicts.append(Verdict(load, findings))

    def _restore(self) -> None:
        for node in self.kafka.nodes:
            if node.paused:
                node.resume()
            if not node.running:
                node.start()

    # -- faults

    def kill(self, *node_ids: int) -> None:
        """Send SIGKILL to all of them at once."""
        for node in map(self.kafka.node, node_ids):
            self.report.requests_killed.append(self.in_flight(node))
            node.kill()
            self.report.counts["kills"] += 1

    async def kill_in_full_flight(self, node_id: int) -> None:
        """Send SIGKILL when five requests are on their way to this node."""
        node = self.kafka.node(node_id)
        self.flood(True)
        async with asyncio.timeout(LIMIT):
            while self.in_flight(node) < _MANY_REQUESTS:
                await turns(1)
        self.kill(node_id)
        self.flood(False)

    def restart(self, *node_ids: int) -> None:
        """Start nodes that were killed or stopped."""
        for node_id in node_ids:
            self.kafka.node(node_id).start()
            self.report.counts["restarts"] += 1

    async def stop(self, node_id: int) -> None:
        """Stop a node cleanly, as an operator does."""
        await asyncio.to_thread(self.kafka.node(node_id).stop, LIMIT)
        self.report.counts["clean stops"] += 1

    async def pause(self, seconds: float, *node_ids: int) -> None:
        """Send SIGSTOP, and SIGCONT after so long: the length is the fault itself."""
        for node_id in node_ids:
            self.kafka.node(node_id).pause()
            self.report.counts["pauses"] += 1
        # How long the nodes are paused.
        await asyncio.sleep(seconds)
        for node_id in node_ids:
            self.kafka.node(node_id).resume()

    async def move_leaders(self) -> int:
        """Give every partition of both topics a leader drawn from the seed; return the number of moved leaderships."""
        moved = 0
        for load in self.loads:
            leaders = {index: self.rng.choice(self._alive()).node_id for index in range(PARTITIONS)}
            moved += await asyncio.to_thread(self.kafka.move_leaders, load.plan.topic, leaders)
        self.report.counts["leader moves"] += moved
        return moved

    def flood(self, on: bool) -> None:
        """Switch sending without a pace on or off."""
        for load in self.loads:
            load.flood = on

    def in_flight(self, node: KafkaNode) -> int:
        """The requests in flight to a node, of the producer that has more of them."""
        return max(load.in_flight().get(str(node.node_id), 0) for load in self.loads)

    # -- waiting

    async def acked_everywhere(self) -> list[float]:
        """Wait until every partition of both topics has a new acknowledgement; return the times, by the loop's clock."""
        acks = [ack for load in self.loads for ack in load.next_acks(range(PARTITIONS))]
        async with asyncio.timeout(LIMIT):
            return list(await asyncio.gather(*acks))

    async def until(self, condition: Callable[[], object]) -> None:
        """Let the load go on until the condition holds."""
        async with asyncio.timeout(LIMIT):
            while not condition():
                await _a_moment()

    async def recovered(self, fault: str, allowed: float = 0.0) -> Recovery:
        """Wait until the cluster can accept records of all partitions again, and measure how soon producers notice."""
        await self.until_healthy()
        return await self.noticed(fault, allowed)

    async def noticed(self, fault: str, allowed: float = 0.0) -> Recovery:
        """Measure how soon each partition has an acknowledgement, from now, when the cluster accepts records again."""
        healed_at = asyncio.get_running_loop().time()
        acks = await self.acked_everywhere()
        after = [round(ack - healed_at, 3) for ack in acks]
        recovery = Recovery(self.name, fault, min(after), max(after), allowed)
        self.recoveries.append(recovery)
        self.report.recoveries.append(recovery)
        return recovery

    async def until_healthy(self) -> None:
        """Every partition has a live leader; all of its in-sync replicas live, and there are enough of them."""
        await self._until(lambda leader, in_sync, alive: {leader, *in_sync} <= alive)

    async def until_whole(self) -> None:
        """All nodes run, and all replicas are in sync."""
        await self._until(
            lambda leader, in_sync, alive: leader in alive and len(in_sync) == len(self.kafka.nodes)
        )

    async def _until(self, good: Any) -> None:
        async with asyncio.timeout(LIMIT):
            # A cluster sends no event: its state is polled.
            while not await self._holds(good):
                await _a_moment()

    async def _holds(self, good: Any) -> bool:
        alive = self._alive()
        try:
            answers = await asyncio.gather(*(self._partitions(node) for node in alive))
        except (OSError, EOFError, KafkaError):
            return False
        ids = {node.node_id for node in alive}
        return all(
            partition.error_code == 0
            and len(partition.isr_nodes) >= self.min_in_sync
            and good(partition.leader_id, partition.isr_nodes, ids)
            for partitions in answers
            for partition in partitions
        )

    async def _partitions(self, node: KafkaNode) -> list[Any]:
        """The answer of one node about both topics."""
        async with asyncio.timeout(5.0), WireClient(node.address) as client:
            topics = [await client.describe(load.plan.topic, 12) for load in self.loads]
        if any(len(topic.partitions) != PARTITIONS for topic in topics):
            raise EOFError(f"node {node.node_id} does not know the topics yet")
        return [partition for topic in topics for partition in topic.partitions]

    def _alive(self) -> list[KafkaNode]:
        return [node for node in self.kafka.nodes if node.running and not node.paused]

    # -- the verdict

    def check(self) -> None:
        """The promise holds: no record lost, doubled, reordered, late, unresolved or with a false outcome; acks came soon."""
        for verdict in self.verdicts:
            facts = f"{self.name}, seed {self.seed}, {verdict.load.plan.name}: {dict(verdict.load.outcomes)}"
            assert not verdict.findings, _listed(facts, verdict.findings)
            assert not verdict.untimely, _listed(f"{facts}: UNKNOWN before the deadline", verdict.untimely)
        lag = max(load.lag.so_far.longest for load in self.loads)
        slow = [one for one in self.recoveries if one.all_partitions > _RECOVERY + one.allowed + lag]
        assert not slow, _listed(f"{self.name}, seed {self.seed}: late acks after healing", slow)
        outcomes = set(self.patient.outcomes)
        assert outcomes == {Outcome.ACKED}, f"{self.name}, seed {self.seed}: {self.patient.outcomes}"

    def check_hasty_too(self) -> None:
        """No record failed, not even of the producer with the short deadlines."""
        errors = {record.error for record in self.hasty.history if record.error}
        assert set(self.hasty.outcomes) == {Outcome.ACKED}, (self.hasty.outcomes, list(errors)[:5])


async def _a_moment() -> None:
    # Records are sent meanwhile: their number does not matter.
    await asyncio.sleep(0.05)


def _listed(facts: str, found: Iterable[object]) -> str:
    listed = list(found)
    return "\n".join([f"{facts}, {len(listed)} found", *map(str, listed[:20])])
