"""Embedded servers in a loop of their own, while Spark blocks the thread of a test."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import TypeVar

T = TypeVar("T")


@contextmanager
def in_a_thread(server: AbstractAsyncContextManager[T, bool | None]) -> Iterator[T]:
    """The started server."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield asyncio.run_coroutine_threadsafe(server.__aenter__(), loop).result(30)
        asyncio.run_coroutine_threadsafe(server.__aexit__(None, None, None), loop).result(30)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
