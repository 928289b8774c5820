"""Faults of the embedded registry on demand."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self

import attrs

__all__ = ["RegistryFault", "RegistryFaults"]


@attrs.define(eq=False)
class RegistryFault:
    """A fault of the next `times` requests whose path begins with `path`; `hits` of them had it."""

    status: int | None
    delay: float
    cut: bool
    times: int | None
    path: str
    handled: bool
    retry_after: str | None
    body: bytes | None
    hits: int = 0
    _healed: asyncio.Event = attrs.field(factory=asyncio.Event)
    _reached: asyncio.Event = attrs.field(factory=asyncio.Event)

    @property
    def active(self) -> bool:
        """True while further requests will have it."""
        return not self._healed.is_set() and (self.times is None or self.hits < self.times)

    async def reached(self) -> None:
        """Wait until a request has it."""
        await self._reached.wait()

    def heal(self) -> None:
        """No further request has it, and those that it delays go on."""
        self._healed.set()

    def strike(self) -> None:
        """A request has it."""
        self.hits += 1
        self._reached.set()

    async def delayed(self) -> None:
        """Wait for the end of the delay."""
        try:
            async with asyncio.timeout(self.delay):
                await self._healed.wait()
        except TimeoutError:
            pass

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.heal()


class RegistryFaults:
    """The faults of an embedded registry."""

    def __init__(self) -> None:
        self._faults: list[RegistryFault] = []

    def add(
        self,
        *,
        status: int | None = None,
        delay: float = 0.0,
        cut: bool = False,
        times: int | None = None,
        path: str = "",
        handled: bool = False,
        retry_after: str | None = None,
        body: bytes | None = None,
    ) -> RegistryFault:
        """Answer the next `times` requests (None: all) with this `status`, after `delay` seconds, or `cut` the connection.

        `path`: only requests whose path begins so. `handled`: the request is handled before. `retry_after` is a header of
        the answer, `body` its content. `heal()` of the result ends the fault, also a delay: `math.inf` waits for that.
        """
        if not delay >= 0:
            raise ValueError(f"delay={delay!r:.60}: must be a number of seconds, 0 or more")
        if times is not None and (type(times) is not int or times < 1):
            raise ValueError(f"times={times!r:.60}: must be None or a whole number above 0")
        fault = RegistryFault(status, delay, cut, times, path, handled, retry_after, body)
        self._faults.append(fault)
        return fault

    def heal(self) -> None:
        """End all faults."""
        for fault in self._faults:
            fault.heal()
        self._faults.clear()

    def struck(self, path: str) -> RegistryFault | None:
        """The first fault that this request has, which counts it."""
        fault = next((each for each in self._faults if each.active and path.startswith(each.path)), None)
        if fault is not None:
            fault.strike()
        return fault
