"""The TLS context of a producer, which follows its files: certificates are renewed while a producer runs."""

from __future__ import annotations

import asyncio
import math
import os
import ssl
from functools import partial
from typing import TYPE_CHECKING

from aioproducer._callers.own_thread import OneThread
from aioproducer._net.connecting.conversing import in_one_thread
from aioproducer._net.tls.context import make_context
from aioproducer.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from aioproducer._net.log import Log
    from aioproducer.security.tls.settings import TlsSettings

__all__ = ["ReloadedContext"]

LOOK_EVERY = 10.0
# What tells one content of a file from another.
Stamp = tuple[tuple[int, int, int] | None, ...]


class ReloadedContext:
    """Gives the context for each new connection. Open connections keep theirs.

    `settings` gives the settings with their secrets, each time that a context is made; `files` are all files that decide on it.

    Files that cannot be used, such as a key and a certificate of which only one is new yet, leave the present context in
    use. They are read again `LOOK_EVERY` seconds later.
    """

    def __init__(
        self,
        settings: Callable[[], Awaitable[TlsSettings]],
        files: tuple[str, ...],
        log: Log,
        clock: Callable[[], float],
    ) -> None:
        self._settings = settings
        self._files = files
        self._log = log
        self._clock = clock
        self._context: ssl.SSLContext | None = None
        self._stamp: Stamp = ()
        self._look_at = -math.inf
        self._problem = ""
        self._making = asyncio.Lock()
        self._thread = OneThread()

    async def current(self) -> ssl.SSLContext:
        """The context; ConfigurationError if there is none yet and it cannot be made."""
        if self._context is not None and self._making.locked():
            # A secret that hangs while the context is made again holds up no other connection.
            return self._context
        async with self._making:
            now = self._clock()
            if self._context is None or now >= self._look_at:
                # First: an attempt that is cancelled is not repeated at once.
                self._look_at = now + LOOK_EVERY
                self._context = await self._made(self._context)
            return self._context

    async def reload(self) -> None:
        """Make the context again, whether or not its files have changed; ConfigurationError leaves the present one in use."""
        async with self._making:
            self._look_at = self._clock() + LOOK_EVERY
            stamp = await in_one_thread(self._thread, partial(_stamp_of_all, self._files))
            self._context = await in_one_thread(self._thread, partial(make_context, await self._settings()))
            self._problem, self._stamp = "", stamp

    async def _made(self, present: ssl.SSLContext | None) -> ssl.SSLContext:
        # Before the files are read: a change while they are read is found the next time.
        stamp = await in_one_thread(self._thread, partial(_stamp_of_all, self._files))
        if present is not None and stamp == self._stamp:
            return present
        try:
            context = await in_one_thread(self._thread, partial(make_context, await self._settings()))
        except KafkaError as error:
            if present is None:
                raise
            self._warn(str(error))
            return present
        self._problem, self._stamp = "", stamp
        if present is not None:
            self._log.info("the TLS certificates were read again: new connections use them")
        return context

    def _warn(self, problem: str) -> None:
        level = self._log.debug if problem == self._problem else self._log.warning
        level(
            "the TLS certificates have changed and cannot be used, the former ones stay in use: %s", problem
        )
        self._problem = problem


def _stamp_of_all(files: tuple[str, ...]) -> Stamp:
    return tuple(map(_stamp_of, files))


def _stamp_of(path: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)  # noqa: PTH116  # it follows links, as Kubernetes swaps them
    except (OSError, ValueError):  # ValueError: a null byte in it
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
