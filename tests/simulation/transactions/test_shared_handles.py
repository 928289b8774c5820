"""Handles that several processes end, again and again, beside successors and faults: each result of each call holds."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import Any, Final

import attrs
import pytest

from aioproducer import Coordinators, KafkaError, Outcome, Producer, TransactionHandle
from tests.effort import HANDLES, seeds
from tests.simulation.world import World, simulate

TOPIC: Final = "t"
NAME: Final = "books"
LIMIT: Final = 3.0
ROUNDS: Final = 5
PAUSES: Final = (0.0, 0.001, 0.3, LIMIT - 0.1, LIMIT + 0.2)
ERRORS: Final = {
    "EndTxn": (
        "NOT_COORDINATOR",
        "COORDINATOR_LOAD_IN_PROGRESS",
        "CONCURRENT_TRANSACTIONS",
        "UNKNOWN_SERVER_ERROR",
        "REQUEST_TIMED_OUT",
    ),
    "DescribeTransactions": ("NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS", "UNKNOWN_SERVER_ERROR"),
    "InitProducerId": ("NOT_COORDINATOR", "CONCURRENT_TRANSACTIONS"),
    "FindCoordinator": ("COORDINATOR_NOT_AVAILABLE",),
}


class ChangedMindError(Exception):
    """The program drops the transaction."""


@attrs.define(eq=False)
class Desk:
    """The producers of one transactional id, and the results of the calls for each handle."""

    world: World
    values: defaultdict[str, list[bytes]] = attrs.Factory(lambda: defaultdict(list))
    results: list[tuple[str, str, KafkaError | None]] = attrs.Factory(list)
    story: list[str] = attrs.Factory(list)

    async def producer(self) -> Producer[Any, Any]:
        """A producer that takes the id over."""
        settings = {"transactional_id": NAME, "transaction_timeout_ms": int(1000 * LIMIT), "linger_ms": 0}
        producer = self.world.producer(**settings, request_timeout_ms=500)
        await producer.start()
        await producer.init_transactions(timeout=60)
        return producer

    async def send(self, producer: Producer[Any, Any], transaction: str) -> None:
        """Send one or two records in this transaction."""
        for number in range(self.world.rng.choice((1, 2))):
            value = f"{transaction}.{number}".encode()
            self.values[transaction].append(value)
            await (await producer.send(TOPIC, value, partition=number))

    async def play_round(self, number: int) -> None:
        """Detach a transaction, end it by several calls at once, and repeat the call afterwards."""
        rng = self.world.rng
        self.world.kafka.faults.heal()
        producer = await self.producer()
        async with producer.transaction() as tx:
            await self.send(producer, f"handle {number}")
            handle = await tx.detach()
        call = rng.choice(("commit", "abort"))
        self._disturb()
        tasks = [self._end(number, handle, call) for _ in range(rng.choice((1, 1, 2, 3)))]
        if rng.random() < 0.6:
            tasks.append(self._succeed(number))
        await asyncio.gather(*tasks)
        for _ in range(rng.choice((0, 1, 2))):
            await self._end(number, handle, call)

    def _disturb(self) -> None:
        rng, faults = self.world.rng, self.world.kafka.faults
        for _ in range(rng.randrange(5)):
            api = rng.choice(sorted(ERRORS))
            where: dict[str, Any] = {
                "api": api,
                "skip": rng.choice((0, 0, 1, 2)),
                "times": rng.choice((1, 2, 4)),
            }
            match rng.randrange(5):
                case 0 | 1:
                    faults.cut(before=rng.random() < 0.3, **where)
                case 2:
                    faults.delay(rng.uniform(0.01, 1.5), before=rng.random() < 0.5, **where)
                case 3:
                    faults.error(rng.choice(ERRORS[api]), **where)
                case 4:
                    faults.delay_markers(rng.uniform(0.01, 1.0))
            self.story.append(f"{self.world.now:.3f} a fault of {where}")

    async def _end(self, number: int, handle: TransactionHandle, call: str) -> None:
        rng, error = self.world.rng, None
        await asyncio.sleep(rng.choice(PAUSES))
        try:
            async with Coordinators(self.world.kafka.bootstrap_servers, request_timeout_ms=500) as session:
                await getattr(session, call)(handle, timeout=rng.choice((0.05, 0.5, 5.0)))
        except KafkaError as failure:
            error = failure
        self._note(f"handle {number}", call, error)

    async def _succeed(self, number: int) -> None:
        """Another producer takes the id over, and begins a transaction."""
        rng, error = self.world.rng, None
        await asyncio.sleep(rng.choice(PAUSES))
        try:
            producer = await self.producer()
            async with producer.transaction(timeout=60):
                await self.send(producer, f"successor {number}")
                if rng.random() < 0.4:
                    raise ChangedMindError
        except ChangedMindError:
            return
        except KafkaError as failure:
            error = failure
        self._note(f"successor {number}", "commit", error)

    def _note(self, transaction: str, call: str, error: KafkaError | None) -> None:
        self.results.append((transaction, call, error))
        self.story.append(f"{self.world.now:.3f} {call} of {transaction}: {error or 'done'}")

    def findings(self) -> list[str]:
        """Each result that the log contradicts."""
        seen = [record.value for record in self.world.kafka.records(TOPIC)]
        found = []
        for transaction, call, error in self.results:
            visible = [value in seen for value in self.values[transaction]]
            denied = error is not None and (
                error.outcome is Outcome.NOT_WRITTEN
                if call == "commit"
                else "was committed" not in str(error)
            )
            if any(visible) is not all(visible):
                found.append(f"{transaction} is visible in part")
            if error is None and any(visible) is not (call == "commit"):
                found.append(f"{call} of {transaction} succeeded: visible is {visible}")
            if call == "commit" and denied and any(visible):
                found.append(f"commit of {transaction} was denied, and it is visible: {error!r}")
            if call == "abort" and error is not None and not denied and not any(visible):
                found.append(f"{transaction} was reported as committed, and is not visible")
        return found


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("seed", seeds(HANDLES))
def test_each_result_of_a_handle_holds(seed: int, version: int) -> None:
    """Lost and late answers, moved coordinators, the time limit, and other producers of the id in between."""
    findings: list[str] = []

    async def play(world: World) -> None:
        world.forgotten.add(TOPIC)
        world.kafka.create_topic(TOPIC, 2)
        desk = Desk(world)
        for number in range(ROUNDS):
            await desk.play_round(number)
        world.kafka.faults.heal()
        await asyncio.sleep(2 * LIMIT)
        found = desk.findings()
        findings.extend([*found, *desk.story] if found else ())

    simulate(play, seed, transaction_version=version)
    assert not findings, "\n".join([f"AIOPRODUCER_SEED={seed}", *findings])
