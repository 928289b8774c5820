"""Running a coroutine to its end, and until Ctrl-C or SIGTERM."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, TypeVar

import click

from aioproducer import Producer

T = TypeVar("T")


def run_to_end(work: Coroutine[Any, Any, T]) -> T:
    """Run the coroutine; an unhandled Ctrl-C prints one line, as every failure."""
    try:
        return asyncio.run(work)
    except KeyboardInterrupt:
        raise click.ClickException("interrupted") from None


class Stop:
    """The state of stopping: requested by the first signal, forced by the second."""

    def __init__(self, notice: Callable[[], object]) -> None:
        self.asked = asyncio.Event()
        self.insisted = asyncio.Event()
        self._notice = notice
        self._work: asyncio.Task[object] | None = None

    def ask(self) -> None:
        """A signal has arrived."""
        if self.asked.is_set():
            self.insisted.set()
        else:
            self.asked.set()
            if self._work is not None:
                # Before the callbacks: later input is not accepted any more.
                self._work.cancel()
            self._notice()

    async def unless_asked(self, work: Coroutine[Any, Any, object]) -> None:
        """Do the work, and cancel it when a stop is requested; do nothing if it was requested before."""
        if self.asked.is_set():
            work.close()
        else:
            self._work = asyncio.create_task(work)
            await _until(self.asked, self._work)

    async def asked_or(self, work: asyncio.Task[Any]) -> None:
        """Wait until the work is done or a stop is requested; the work goes on."""
        asked = asyncio.create_task(self.asked.wait())
        await asyncio.wait([work, asked], return_when=asyncio.FIRST_COMPLETED)
        asked.cancel()

    async def pause(self, seconds: float | None) -> None:
        """Wait so long, or until a stop is requested; None has no end."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.asked.wait()

    async def unless_insisted(self, work: Coroutine[Any, Any, object]) -> None:
        """Do the work, and cancel it when a stop is forced."""
        await _until(self.insisted, asyncio.create_task(work))

    async def close(self, producer: Producer) -> None:
        """Close within the time limit of the producer, or at once when a stop is forced."""
        closing = asyncio.create_task(producer.close())
        await self.unless_insisted(asyncio.wait([closing]))
        if not closing.done():
            await producer.close(timeout=0)
        await closing


async def _until(event: asyncio.Event, task: asyncio.Task[Any]) -> None:
    """Wait until the task is done or the event is set."""
    happened = asyncio.create_task(event.wait())
    try:
        await asyncio.wait([task, happened], return_when=asyncio.FIRST_COMPLETED)
    finally:
        happened.cancel()
        task.cancel()
        await asyncio.wait([task, happened])
    if not task.cancelled():
        task.result()


@contextmanager
def heeding_signals(notice: Callable[[], object] = lambda: None) -> Iterator[Stop]:
    """Ctrl-C and SIGTERM request a stop in this context; an ignored signal stays ignored."""
    stop = Stop(notice)
    loop = asyncio.get_running_loop()
    heeded = [each for each in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(each) != signal.SIG_IGN]
    # Not the loop's own add_signal_handler(), which is missing on some platforms.
    before = {each: signal.signal(each, lambda *_: loop.call_soon_threadsafe(stop.ask)) for each in heeded}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@asynccontextmanager
async def every(seconds: float, act: Callable[[], object]) -> AsyncIterator[None]:
    """Repeat the call in this context."""

    async def again() -> None:
        while True:
            await asyncio.sleep(seconds)
            act()

    task = asyncio.create_task(again())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled():
            task.result()
