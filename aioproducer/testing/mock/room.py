"""Calls of a `MockProducer` that wait for memory, in the order of the calls."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TypeVar

from aioproducer.errors import KafkaError

T = TypeVar("T")


class MockRoom:
    """The line for the memory. Only its first call is given what becomes free."""

    def __init__(self) -> None:
        self._line: deque[asyncio.Event] = deque()

    @property
    def is_waited_for(self) -> bool:
        """Whether a call waits for memory."""
        return bool(self._line)

    def freed(self) -> None:
        """Memory came back: the first call looks again."""
        if self._line:
            self._line[0].set()

    async def placed(self, place: Callable[[], T | None], patience: float) -> T | None:
        """What `place` gives when it finds room; None after so many seconds without any."""
        bell = asyncio.Event()
        self._line.append(bell)
        try:
            async with asyncio.timeout(patience):
                while self._line[0] is not bell or (made := place()) is None:
                    bell.clear()
                    await bell.wait()
                return made
        except TimeoutError as error:
            if isinstance(error, KafkaError):
                raise
            return None
        finally:
            self._line.remove(bell)
            self.freed()
