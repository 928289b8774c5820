"""The reports of outcomes to interceptors and spans: noted when a batch is settled, made in the loop's next turn."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from aioproducer._core import peek

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from aioproducer._core import Delivery
    from aioproducer._net.accepting.contexts import RecordTrace
    from aioproducer.records import RecordMetadata

    Tell = Callable[[Delivery, RecordMetadata | None, BaseException | None, RecordTrace | None], object]


class Reports:
    """Makes all reports of one turn by one callback of the loop. A callback for each record would cost more than the rest."""

    def __init__(self, loop: asyncio.AbstractEventLoop, tell: Tell) -> None:
        self._loop = loop
        self._tell = tell
        self._settled: deque[tuple[Delivery, RecordTrace | None]] = deque()
        self._comes = False

    def note(self, delivery: Delivery, trace: RecordTrace | None = None) -> None:
        """The record has its outcome. Called while a batch is settled, so that it runs no code of the user."""
        # First: a flush that covers the record ends behind this callback.
        self._come()
        self._settled.append((delivery, trace))

    def _come(self) -> None:
        if not self._comes:
            self._loop.call_soon(self.make)
            self._comes = True

    def make(self) -> None:
        """Make all reports that are noted now."""
        # A report may settle other records, whose reports come in a turn of their own.
        self._comes = False
        try:
            for _ in range(len(self._settled)):
                if not self._settled:
                    # A report has closed the producer, which has made the others.
                    return
                delivery, trace = self._settled.popleft()
                # They only observe: their report does not make the failure seen by the sender.
                _, error = peek(delivery)
                self._tell(delivery, delivery.result() if error is None else None, error, trace)
        finally:
            # An interceptor has ended the program, or may end it: other records keep their reports.
            if self._settled:
                self._come()
