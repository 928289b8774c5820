"""The common parts of the programs that measure aioproducer."""

from __future__ import annotations

import asyncio
import os
import platform
import time
from collections.abc import Callable, Coroutine, Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import attrs

from aioproducer import Delivery, Producer
from benchmarks.credentials import own_security
from benchmarks.measure import BATCH_SIZE, LINGER_MS, Offsets, Round, Work, no_offsets, work


def make_producer(one: Work, **settings: Any) -> Producer:
    """A producer with the settings that all clients have here."""
    common: dict[str, Any] = {
        "acks": "all",
        "enable_idempotence": True,
        "linger_ms": LINGER_MS,
        "batch_size": BATCH_SIZE,
        # The operating system's buffer, as in librdkafka and aiokafka; the default here is Kafka's 128 KiB.
        "send_buffer_bytes": -1,
    }
    security = own_security(one.authority)
    return Producer(one.bootstrap_servers, **{**common, **security, **settings, **one.settings})


def offsets_of(deliveries: Iterable[Delivery]) -> Offsets:
    """The offsets by partition; a record that failed raises."""
    offsets = no_offsets()
    for delivery in deliveries:
        metadata = delivery.result()
        offsets[metadata.partition].append(metadata.offset)
    return offsets


def run(program: Callable[[Work], Coroutine[Any, Any, Round]]) -> None:
    """Run the program of the command line, and print its result."""
    one = work()
    if one.uvloop:
        import uvloop  # noqa: PLC0415  # imported only where it is measured

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(program(one)).tell()
    else:
        asyncio.run(program(one)).tell()


def resident() -> int:
    """The bytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def own_version() -> str:
    """The name and version of this library, with the Python unless it is the usual one."""
    try:
        return f"aioproducer {version('aioproducer')}"
    except PackageNotFoundError:
        return f"aioproducer (source tree, Python {platform.python_version()})"


@attrs.define
class LoopWatch:
    """The longest work of the loop's thread without a poll, in seconds of processor time, not of the clock."""

    # One callback: a step of a task, or the handling of an answer.
    longest_step: float = 0.0
    # All ready callbacks of one turn: a thousand tasks that were woken together are a thousand steps.
    longest_turn: float = 0.0
    _turn_began: float = 0.0
    _running: bool = False
    _watches_steps: bool = False

    def start(self) -> None:
        """Measure every callback of the loop from now on; keeps the loop from sleeping."""
        self._running = True
        self._turn_began = time.thread_time()
        asyncio.get_running_loop().call_soon(self._turn)
        if not self._watches_steps:
            self._watches_steps = True
            self._watch_steps()

    def stop(self) -> None:
        """End the measurement."""
        self._running = False

    def _turn(self) -> None:
        now = time.thread_time()
        self.longest_turn = max(self.longest_turn, now - self._turn_began)
        self._turn_began = now
        if self._running:
            asyncio.get_running_loop().call_soon(self._turn)

    def _watch_steps(self) -> None:
        run_handle = asyncio.Handle._run  # noqa: SLF001  # every callback passes here

        def watched(handle: asyncio.Handle) -> None:
            began = time.thread_time()
            run_handle(handle)
            if self._running:
                self.longest_step = max(self.longest_step, time.thread_time() - began)

        asyncio.Handle._run = watched  # type: ignore[method-assign,assignment]  # noqa: SLF001  # as above
