"""The timer of overdue requests, where the process has no memory for it."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import attrs
import pytest

from aioproducer._net.timers.alarm import Alarm


@attrs.define
class Requests:
    """The requests of a connection: the deadline of the first, and the event of its being judged overdue."""

    deadline: float
    closed: bool = False
    reads: int = 0
    judged: asyncio.Event = attrs.Factory(asyncio.Event)

    def earliest_deadline(self) -> float:
        return math.inf if self.judged.is_set() else self.deadline

    def overdue(self, now: float) -> None:
        self.judged.set()


async def test_without_memory_for_the_next_timer_the_next_request_sets_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An alarm that counted as set, without a timer, made no request of the connection overdue any more."""
    loop = asyncio.get_running_loop()
    reported: list[Any] = []
    loop.set_exception_handler(lambda _, context: reported.append(context["exception"]))
    requests = Requests(loop.time() + 0.02)
    alarm = Alarm(loop, requests)
    alarm.expect(loop.time())
    call_at, failed = loop.call_at, asyncio.Event()

    def without_memory(*_: Any, **__: Any) -> asyncio.TimerHandle:
        monkeypatch.setattr(loop, "call_at", call_at)
        failed.set()
        raise MemoryError

    monkeypatch.setattr(loop, "call_at", without_memory)
    await failed.wait()
    # The next request has a later deadline.
    alarm.expect(requests.deadline + 0.01)
    await requests.judged.wait()
    assert [type(error) for error in reported] == [MemoryError]
