"""Cutting pieces of bytes into lines, with bounded memory."""

from __future__ import annotations

from collections.abc import Iterator

OVERLONG = None


class Splitter:
    """Returns each line without its delimiter, and OVERLONG for a line that exceeds the limit."""

    def __init__(self, delimiter: bytes, limit: int) -> None:
        self._delimiter = delimiter
        self._limit = limit
        self._rest = b""
        self._dropping = False

    def lines(self, piece: bytes) -> Iterator[bytes | None]:
        """The lines that end in this piece."""
        *lines, rest = (self._rest + piece).split(self._delimiter)
        for line in lines:
            yield OVERLONG if self._dropping or len(line) > self._limit else line
            self._dropping = False
        self._keep(rest)

    def _keep(self, rest: bytes) -> None:
        begun = len(self._delimiter) - 1  # this many bytes of the rest may be the beginning of a delimiter
        if self._dropping or len(rest) > self._limit + begun:
            self._dropping = True
            rest = rest[max(len(rest) - begun, 0) :]
        self._rest = rest

    def last(self) -> Iterator[bytes | None]:
        """The text behind the last delimiter, if there is any."""
        if self._dropping or len(self._rest) > self._limit:
            yield OVERLONG
        elif self._rest:
            yield self._rest
