"""Registries whose answers a test writes down, in a loop with virtual time."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import httpx2

from aioproducer.registry import Registry
from tests.simulation.loop import SimulatedLoop

T = TypeVar("T")
Step = Callable[[httpx2.Request], httpx2.Response | Awaitable[httpx2.Response]]

ORDER = '{"type":"string"}'


def play(main: Callable[[], Coroutine[Any, Any, T]], seed: int = 1) -> T:
    """Run this in virtual time: no task is left."""

    async def checked() -> T:
        result = await main()
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return result

    loop = SimulatedLoop(random.Random(seed))
    try:
        result = loop.run_until_complete(checked())
        assert loop.troubles == []
        return result
    finally:
        loop.close()


async def passes(seconds: float) -> None:
    """Let virtual time pass."""
    await asyncio.sleep(seconds)  # no real time


def told(status: int = 200, content: Any = None, **headers: str) -> Step:
    """An answer of the registry."""

    def answer(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(
            status, json={"id": 1, "version": 1} if content is None else content, headers=headers
        )

    return answer


def refused(request: httpx2.Request) -> httpx2.Response:
    """The connection is refused."""
    raise httpx2.ConnectError("All connection attempts failed", request=request)


async def silence(request: httpx2.Request) -> httpx2.Response:
    """No answer comes."""
    await asyncio.get_running_loop().create_future()
    raise AssertionError


class Scripted(httpx2.AsyncBaseTransport):
    """Takes one step for each request; the last one for all that follow."""

    def __init__(self, *steps: Step) -> None:
        self.steps = list(steps)
        self.requests: list[httpx2.Request] = []
        self.times: list[float] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.times.append(asyncio.get_running_loop().time())
        self.requests.append(request)
        step = self.steps.pop(0) if len(self.steps) > 1 else self.steps[0]
        answer = step(request)
        return answer if isinstance(answer, httpx2.Response) else await answer

    @property
    def hosts(self) -> list[str]:
        """The servers that were asked."""
        return [request.url.host for request in self.requests]

    @property
    def pauses(self) -> list[float]:
        """The seconds between requests."""
        return [after - before for before, after in zip(self.times, self.times[1:], strict=False)]


def client_of(transport: Scripted, urls: str = "http://a:8081", **settings: Any) -> Registry:
    """A client of this registry."""
    return Registry(urls, client=httpx2.AsyncClient(transport=transport), **settings)


def bodies(transport: Scripted) -> list[Any]:
    """The contents of the requests."""
    return [json.loads(request.content) for request in transport.requests]
