"""Delivery of reports to the listeners, in the event loop and outside the reporting code."""

from __future__ import annotations

import inspect
from collections import deque
from typing import TYPE_CHECKING, Any

import attrs

from aioproducer._net.observing.failures import END_OF_THE_PROGRAM, Failures
from aioproducer.listeners import BatchReport

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable

    from aioproducer._net.log import Log
    from aioproducer.listeners import ConnectionReport

    Report = BatchReport | ConnectionReport


@attrs.define(eq=False)
class _Method:
    """One method of one listener."""

    # Some error reports show the variables of each frame.
    owner: object = attrs.field(repr=False)
    call: Callable[[Any], object] = attrs.field(repr=False)
    failures: Failures


class Listeners:
    """Calls each listener with each report, in the order of the reports."""

    def __init__(self, listeners: Iterable[object], loop: asyncio.AbstractEventLoop, log: Log) -> None:
        self._loop = loop
        self._log = log
        listeners = tuple(listeners)
        self._of_batches = _methods(listeners, "on_batch")
        self._of_connections = _methods(listeners, "on_connection")
        self._reports: deque[Report] = deque()
        self._is_scheduled = False

    @property
    def on_batch(self) -> Callable[[BatchReport], None] | None:
        """The receiver of reports of batches; None if no listener wants them."""
        return self._put if self._of_batches else None

    @property
    def on_connection(self) -> Callable[[ConnectionReport], None] | None:
        """The receiver of reports of connections; None if no listener wants them."""
        return self._put if self._of_connections else None

    def add(self, listener: object) -> None:
        """Call this listener with each later report of a batch."""
        self._of_batches += _methods((listener,), "on_batch")

    def remove(self, listener: object) -> None:
        """Call this listener no more."""
        self._of_batches = tuple(method for method in self._of_batches if method.owner is not listener)

    def _put(self, report: Report) -> None:
        # The machines are in the middle of an event: user code runs after it.
        # Scheduled first: without memory for it, the report is not there yet when it is repeated.
        if not self._is_scheduled:
            self.schedule()
        self._reports.append(report)

    def schedule(self) -> None:
        """Deliver all pending reports in the next turn of the loop."""
        if not self._is_scheduled and not self._loop.is_closed():
            # First: without memory for it, the next report schedules the delivery.
            self._loop.call_soon(self._deliver)
            self._is_scheduled = True

    def _deliver(self) -> None:
        self._is_scheduled = False
        try:
            # A listener may send, and a batch may end within its call: the loop gets a turn before that report.
            for _ in range(len(self._reports)):
                self._deliver_next()
        finally:
            if self._reports:
                self.schedule()

    def deliver(self) -> None:
        """Call the listeners with all undelivered reports."""
        while self._reports:
            self._deliver_next()

    def _deliver_next(self) -> None:
        report = self._reports.popleft()
        for method in self._of_batches if isinstance(report, BatchReport) else self._of_connections:
            try:
                made = method.call(report)
                if made is not None and inspect.iscoroutine(made):
                    made.close()  # prevents the warning about a coroutine that was never awaited
                    raise TypeError(
                        "a listener cannot be a coroutine function: it is called where nothing may wait"
                    )
            except END_OF_THE_PROGRAM:
                raise
            except BaseException as error:  # noqa: BLE001  # logged, at a limited rate
                method.failures.note(error, self._log, self._loop.time(), "report")


def _methods(listeners: Iterable[object], name: str) -> tuple[_Method, ...]:
    found = ((listener, getattr(listener, name, None)) for listener in listeners)
    return tuple(
        _Method(owner, call, Failures(f"{name}() of {type(owner).__qualname__}"))
        for owner, call in found
        if callable(call)
    )
