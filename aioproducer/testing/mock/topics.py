"""The topics of a `MockProducer`, in the form in which the core appends to them and chooses partitions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aioproducer._callers.threads import require_loop
from aioproducer._core import Batch, MemoryShare, Partition, Topic


class MockPartition(Partition):
    """One partition. Every record gets a batch of its own, so that each can be completed alone."""

    __slots__ = ("__weakref__", "loop", "next_offset", "withdraw_batch")

    def __init__(
        self,
        topic: Topic,
        index: int,
        share: MemoryShare,
        loop: asyncio.AbstractEventLoop,
        withdraw_batch: Callable[[Batch], bool],
    ) -> None:
        super().__init__(topic, index, share)
        self.loop = loop
        self.withdraw_batch = withdraw_batch
        self.next_offset = 0

    def roll(self, now: float, awaited: bool) -> None:
        """Open a batch; called by the core before it appends."""
        self.open = Batch(
            self.topic.name,
            self.index,
            0,
            opened_at=self.loop.time(),
            loop=self.loop,
            owner=self,
            share=self.share,
        )

    def unroll(self) -> None:
        """Take back the batch that was just opened."""
        self.open = None

    def take(self) -> Batch:
        """The batch with the record that was just appended; the next one gets another."""
        batch = self.open
        assert batch is not None  # noqa: S101  # called after roll()
        self.open = None
        return batch

    def on_awaited(self, batch: Batch) -> None:
        """Somebody waits for the record: nothing here lingers."""

    def withdraw(self, batch: Batch, index: int) -> bool:
        """Take the record back; called by `Delivery.try_cancel`."""
        require_loop(self.loop)
        return self.withdraw_batch(batch)


class MockTopic(Topic):
    """One topic. Records without a key stay with a partition for two batches' worth of bytes, in order of number.

    The real producer moves on after one batch, to a partition by chance; a test is better off with the same each time.
    """

    __slots__ = ("following",)

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.following = 0

    def switch(self, now: float) -> None:
        """Choose the next partition for records without a key; called by the core."""
        self.sticky = self.partitions[self.following % len(self.partitions)]
        self.following = self.sticky.index + 1
        self.sticky_bytes = 0
