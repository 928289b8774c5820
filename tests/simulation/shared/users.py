"""The tasks of a shared producer: one that works in transactions, rivals that end them, and the faults around both."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any, Final

import attrs

from aioproducer import KafkaError, RecordError, StateError, Transaction, TransactionAbortedError
from tests.simulation.shared.told import Shared

SOURCE, GROUP = "source", "readers"
TIMEOUTS: Final = (0.01, 0.5, 5.0, 20.0)
ROUNDS: Final = 12
NO_BYTES: Final[Any] = 5
"""A value that no serializer accepts."""
ERRORS: Final[Mapping[str, tuple[str, ...]]] = {
    "Produce": (
        "NOT_LEADER_OR_FOLLOWER", "INVALID_TXN_STATE", "INVALID_PRODUCER_EPOCH", "CONCURRENT_TRANSACTIONS",
        "UNKNOWN_SERVER_ERROR", "TRANSACTION_ABORTABLE", "MESSAGE_TOO_LARGE", "OUT_OF_ORDER_SEQUENCE_NUMBER",
    ),
    "EndTxn": ("NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS", "CONCURRENT_TRANSACTIONS", "UNKNOWN_SERVER_ERROR"),
    "InitProducerId": ("NOT_COORDINATOR", "CONCURRENT_TRANSACTIONS", "COORDINATOR_NOT_AVAILABLE"),
    "AddPartitionsToTxn": (
        "NOT_COORDINATOR", "CONCURRENT_TRANSACTIONS", "UNKNOWN_TOPIC_OR_PARTITION", "TOPIC_AUTHORIZATION_FAILED",
    ),
    "AddOffsetsToTxn": ("NOT_COORDINATOR", "CONCURRENT_TRANSACTIONS", "GROUP_AUTHORIZATION_FAILED"),
    "TxnOffsetCommit": ("NOT_COORDINATOR", "UNKNOWN_TOPIC_OR_PARTITION", "ILLEGAL_GENERATION"),
    "FindCoordinator": ("COORDINATOR_NOT_AVAILABLE",),
    "DescribeTransactions": ("NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS"),
}  # fmt: skip


class ChangedMindError(Exception):
    """The program drops the transaction."""


@attrs.define(eq=False)
class Users:
    """The tasks, which draw all that they do from the world."""

    shared: Shared

    async def work(self) -> None:
        """Transactions one after the other, as blocks and by hand; some failures are mended by hand."""
        rng = self.shared.world.rng
        for _ in range(ROUNDS):
            await (self._block() if rng.random() < 0.6 else self._by_hand())
            if rng.random() < 0.5:
                for call in ("commit", "abort", "init"):
                    await self._call(call, rng.choice((0.01, 5.0)))
            await asyncio.sleep(rng.expovariate(4.0))

    async def rival(self) -> None:
        """Ends transactions, withdraws records and flushes, at any moment, until it is cancelled."""
        rng = self.shared.world.rng
        while True:
            await asyncio.sleep(rng.expovariate(5.0))
            call = rng.choices(("purge", "commit", "abort", "init", "flush"), (25, 20, 20, 20, 15))[0]
            await self._call(call, rng.choice((0.0005, 0.01, 0.3, 5.0)))

    async def settle(self) -> None:
        """Without faults everything ends, and the producer works."""
        for call in ("commit", "abort", "init"):
            await self._call(call, 60.0)
        async with self.shared.producer.transaction(timeout=60.0):
            number = self.shared.number
            await self.shared.send(number, self.shared.topics[0], 0)
        self.shared.committed.add(number)

    async def _call(self, call: str, timeout: float) -> None:
        shared, producer, number = self.shared, self.shared.producer, self.shared.number
        try:
            if call == "purge":
                producer.purge(shared.world.rng.choice((None, *shared.topics)))
            elif call == "commit":
                await producer.commit_transaction(timeout=timeout)
                shared.committed.add(number)
            elif call == "abort":
                await producer.abort_transaction(timeout=timeout)
                shared.aborted.add(number)
            elif call == "init":
                await producer.init_transactions(timeout=timeout)
            else:
                await producer.flush(timeout=60.0)
        except KafkaError as error:
            shared.note(call, number, error)
        else:
            shared.note(call, number)

    # -- transactions

    async def _block(self) -> None:
        shared, rng, number = self.shared, self.shared.world.rng, None
        try:
            async with shared.producer.transaction(timeout=rng.choice(TIMEOUTS)) as tx:
                number = shared.number
                await self._fill(number, tx)
                if rng.random() < 0.15:
                    raise ChangedMindError
        except ChangedMindError:
            shared.note("dropped block", number)
        except KafkaError as error:
            self._failed("block", number, error)
        else:
            shared.committed.add(number)
            shared.note("block", number)

    async def _by_hand(self) -> None:
        shared, rng, number = self.shared, self.shared.world.rng, None
        try:
            await shared.producer.begin_transaction(timeout=rng.choice(TIMEOUTS))
            number = shared.number
            await self._fill(number)
        except KafkaError as error:
            self._failed("records", number, error)
        if number == shared.number:
            await self._call("abort" if rng.random() < 0.3 else "commit", rng.choice(TIMEOUTS))

    def _failed(self, call: str, number: int | None, error: KafkaError) -> None:
        self.shared.note(call, number, error)
        if number is not None and isinstance(error, TransactionAbortedError):
            self.shared.aborted.add(number)

    async def _fill(self, number: int, tx: Transaction | None = None) -> None:
        shared, rng = self.shared, self.shared.world.rng
        for _ in range(rng.randrange(6)):
            if shared.number != number:
                # A rival has ended it, and the next one is open.
                return
            with contextlib.suppress(KafkaError) if rng.random() < 0.3 else contextlib.nullcontext():
                delivery = await shared.send(number, rng.choice(shared.topics), rng.randrange(2))
                if rng.random() < 0.15:
                    delivery.try_cancel()
            if rng.random() < 0.1:
                await self._fail_unnoticed()
            if rng.random() < 0.3:
                await asyncio.sleep(rng.expovariate(5.0))
        if tx is not None and rng.random() < 0.4:
            tx.send_offsets({(SOURCE, 0): number}, GROUP)
        elif shared.number == number and rng.random() < 0.2:
            timeout = rng.choice((0.01, 5.0))
            await shared.producer.send_offsets_to_transaction({(SOURCE, 0): number}, GROUP, timeout=timeout)

    async def _fail_unnoticed(self) -> None:
        """A part of the transaction fails, which the program ignores; its rivals have time to end the transaction."""
        with contextlib.suppress(RecordError, StateError, TransactionAbortedError):
            await self.shared.producer.send(self.shared.topics[0], NO_BYTES)
        await asyncio.sleep(self.shared.world.rng.expovariate(2.0))

    # -- faults

    async def disturb(self) -> None:
        """Answers that are lost, late or errors, late markers, and coordinators that move, until it is cancelled."""
        rng, faults = self.shared.world.rng, self.shared.world.kafka.faults
        while True:
            await asyncio.sleep(rng.expovariate(8.0))
            api = rng.choice(sorted(ERRORS))
            where: dict[str, Any] = {"api": api, "times": rng.choice((1, 1, 1, 2, 5, 9))}
            if api == "AddPartitionsToTxn" and rng.random() < 0.6:
                where["topic"] = rng.choice(self.shared.topics)
            kind = rng.choices(("cut", "delay", "markers", "error", "move", "heal"), (25, 10, 10, 40, 9, 6))[
                0
            ]
            self.shared.story.append(f"{self.shared.world.now:.3f} fault: {kind} {where}")
            if kind == "cut":
                faults.cut(before=rng.random() < 0.5, **where)
            elif kind == "delay":
                faults.delay(rng.uniform(0.01, 3.0), before=rng.random() < 0.5, **where)
            elif kind == "markers":
                faults.delay_markers(rng.uniform(0.01, 1.5))
            elif kind == "error":
                faults.error(rng.choice(ERRORS[api]), **where)
            elif kind == "move":
                faults.move_coordinator(rng.choice(("books", GROUP)), rng.randrange(1, 4))
            else:
                faults.heal()
