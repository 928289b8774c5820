"""Sending in transactions, one after the other, each of the requested duration."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from aioproducer import KafkaError, Producer, ProducerFencedError


class Transactions:
    """Transactions as in Kafka's tool: the first failed one is the last."""

    def __init__(self, producer: Producer, seconds: float) -> None:
        self.committed = 0
        self.was_aborted = False
        self._failure: KafkaError | None = None
        self._is_open = False
        self._producer = producer
        self._seconds = seconds
        self._now = asyncio.get_running_loop().time
        self._commit: asyncio.Task[None] | None = None
        self._longest = self._in_commits = 0.0

    async def one(self, send_until: Callable[[float], Awaitable[object]]) -> bool:
        """Begin a transaction, send until its duration is over, and commit it; False if that failed."""
        if not await self._went_well(self._producer.begin_transaction()):
            return False
        self._is_open = True
        if await self._went_well(send_until(self._now() + self._seconds)):
            self._commit = asyncio.create_task(self._commit_it())
            # A commit cannot be withdrawn: an interrupted one is left to `leave`.
            await asyncio.shield(self._commit)
        return self._failure is None

    async def leave(self) -> None:
        """Wait for an interrupted commit, and abort an open transaction."""
        if self._commit is not None:
            await asyncio.wait([self._commit])
        if self._is_open:
            self.was_aborted = await self._went_well(self._producer.abort_transaction())

    async def _commit_it(self) -> None:
        began = self._now()
        if await self._went_well(self._producer.commit_transaction()):
            self._is_open = False
            self.committed += 1
            seconds = self._now() - began
            self._in_commits += seconds
            self._longest = max(self._longest, seconds)

    async def _went_well(self, step: Awaitable[object]) -> bool:
        try:
            await step
        except KafkaError as error:
            # Later failures are consequences of the first. Fencing shows by its effects before it is known as such.
            if self._failure is None or isinstance(error, ProducerFencedError):
                self._failure = error
            return False
        return True

    @property
    def problem(self) -> str | None:
        """The message about the failed transaction."""
        if self._failure is None:
            return None
        return f"transaction {self.committed + 1:,} failed: {self._failure}"

    def total(self) -> str:
        """The line about all transactions."""
        mean = self._in_commits / max(self.committed, 1) * 1000
        return (
            f"{self.committed} transactions committed, {mean:.2f} ms avg commit latency, "
            f"{self._longest * 1000:.2f} ms max commit latency."
        )
