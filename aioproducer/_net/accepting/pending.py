"""The waiting half of a call: `Sending` observes it until the record is accepted or refused."""

from __future__ import annotations

import asyncio
import types
from typing import TYPE_CHECKING, Any

from aioproducer._net.log import Log, log
from aioproducer._net.timers.wakeup import wake
from aioproducer.errors import StateError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from aioproducer._core import BatchDelivery, Delivery


@types.coroutine
def _one_turn() -> Generator[None, None, None]:
    """Let the loop run once."""
    yield


class Pending:
    """One call that the fast path did not answer. It only observes: the producer drives the queues.

    Ten thousand of them may wait for memory, which is short then: it has slots, and a single coroutine to wait in.
    """

    __slots__ = (
        "__weakref__",
        "_log",
        "_loop",
        "_pace",
        "_told",
        "_waiter",
        "delivery",
        "error",
        "finished",
        "on_end",
        "on_withdraw",
    )

    def __init__(
        self, loop: asyncio.AbstractEventLoop | None, pace: Callable[[], bool], log: Log = log
    ) -> None:
        self._loop = loop
        self._log = log
        self._pace = pace
        self._waiter: asyncio.Future[None] | None = None
        self._told = False
        self.delivery: Delivery | BatchDelivery | None = None
        self.finished = False
        self.error: BaseException | None = None
        self.on_withdraw: Callable[[], None] | None = None
        # Called once with this object, when the call has ended: accepted, refused or withdrawn.
        self.on_end: Callable[[Pending], object] | None = None

    def accept(self, delivery: Delivery) -> None:
        """The record has its place."""
        self.delivery = delivery
        # A withdrawal may have come too late, in the middle of the append.
        self.error = None
        self.finish()

    def finish(self) -> None:
        """Every record is placed, or refused."""
        self.finished = True
        # The withdrawal refers back to this object: a cycle would keep the user's objects until a collection.
        self.on_withdraw = None
        if self._waiter is not None:
            wake(self._waiter)
        if self.on_end is not None:
            on_end, self.on_end = self.on_end, None
            on_end(self)

    def refuse(self, error: BaseException) -> None:
        """The record will not be accepted."""
        # The traceback holds the frame that holds this object: a cycle would delay the report of an unseen failure.
        self.error = error.with_traceback(None)
        self.finish()

    async def accepted(self) -> Any:  # a Delivery or a BatchDelivery, depending on the call
        """Wait until the record is accepted, or raise the refusal. Cancelled before that, the record is withdrawn."""
        if not self.finished:
            assert self._loop is not None  # noqa: S101  # without a loop the call was refused at once
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            except BaseException:
                self.withdraw()
                raise
        self._told = True
        if self.error is not None:
            raise self.error
        if self._pace():
            await _one_turn()
        return self.delivery

    def take_error(self) -> BaseException | None:
        """The refusal of a call that has ended; it counts as told."""
        self._told = True
        return self.error

    def withdraw(self) -> None:
        """The caller went away: records that are not accepted yet are withdrawn."""
        self._told = True
        if not self.finished and self.on_withdraw is not None:
            self.on_withdraw()
            # A coroutine that ended so is normally not awaited again; an await of it must not wait without end.
            if self.delivery is None and not self.finished:
                self.error = StateError("this send() was cancelled before its record was accepted")
            self.finish()

    def __del__(self) -> None:
        # The attribute is missing where memory ended during construction.
        if getattr(self, "error", None) is not None and not self._told:
            self._log.error("a record was not accepted, and its send() was not awaited: %s", self.error)
