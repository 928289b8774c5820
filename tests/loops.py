"""Every kind of event loop, and a scene that is played on one of them and leaves nothing in it."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Coroutine
from typing import Any

import aiofastnet
import uvloop

from aioproducer import Producer
from aioproducer.testing import EmbeddedKafka
from tests.net.support import LIMIT, until

Loop = asyncio.AbstractEventLoop
Scene = Callable[[EmbeddedKafka, Producer[Any, Any]], Coroutine[Any, Any, None]]


def debugging() -> Loop:
    """asyncio's loop in debug mode."""
    loop = asyncio.new_event_loop()
    loop.set_debug(True)
    loop.slow_callback_duration = 5
    return loop


def eager() -> Loop:
    """asyncio's loop with tasks that begin at once (Python 3.12 and later)."""
    loop = asyncio.new_event_loop()
    factory: Any = getattr(asyncio, "eager_task_factory", None)
    loop.set_task_factory(factory)
    return loop


LOOPS: dict[str, Callable[[], Loop]] = {
    "asyncio": asyncio.new_event_loop,
    "debug": debugging,
    "uvloop": uvloop.new_event_loop,
}
if hasattr(asyncio, "eager_task_factory"):
    LOOPS["eager"] = eager


WITH_OTHER_TLS: dict[str, Callable[[], Loop]] = {
    **LOOPS,
    "aiofastnet": aiofastnet.loop_factory(),
    "aiofastnet on uvloop": aiofastnet.loop_factory(uvloop.new_event_loop),
}
"""Also a package that replaces the transports of a loop, and those of TLS with OpenSSL's own."""


def run_on(loop: str, main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a coroutine function on this loop: no task is left in it, and its exception handler was not called."""
    told: list[dict[str, Any]] = []

    async def checked() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
        async with asyncio.timeout(3 * LIMIT):
            await main()
        await until(lambda: asyncio.all_tasks() == {asyncio.current_task()})

    with asyncio.Runner(loop_factory=WITH_OTHER_TLS[loop]) as runner:
        runner.run(checked())
    gc.collect()
    assert told == []


def play_on(loop: str, scene: Scene, **settings: Any) -> None:
    """Play a scene with a producer that knows two topics."""

    async def main() -> None:
        async with EmbeddedKafka() as kafka:
            kafka.create_topic("one", 1)
            kafka.create_topic("four", 4)
            topics = ["one", "four"]
            async with Producer[Any, Any](kafka.bootstrap_servers, topics=topics, **settings) as producer:
                await producer.ready(LIMIT)
                await scene(kafka, producer)

    run_on(loop, main)
