"""Peculiarities of a broker that do no harm: one DEBUG line for each connection."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aioproducer._net.log import Log

__all__ = ["Remarks"]


class Remarks:
    """The peculiarities that were seen over one connection."""

    __slots__ = ("_broker", "_log", "_made")

    def __init__(self, broker: str, log: Log) -> None:
        self._broker = broker
        self._log = log
        self._made: set[str] = set()

    def surplus(self, count: int) -> None:
        """An answer has so many bytes behind its last field: they are ignored."""
        self._make("it writes bytes behind the last field of its answers", f"({count})")

    def unasked_answer(self) -> None:
        """An answer to a request that wants none is ignored."""
        self._make("it answers requests that want no answer", "(acks=0)")

    def _make(self, text: str, detail: str) -> None:
        if text not in self._made:
            self._made.add(text)
            self._log.debug("broker %s: %s %s", self._broker, text, detail, extra={"broker": self._broker})
