"""Reading a record from a line: the parts common to all formats, and plain lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import attrs

from aioproducer import Record

Headers = Sequence[tuple[str, bytes | None]]
RawRecord = Record[bytes, bytes]


class LineError(ValueError):
    """A line that cannot be read as a record, with the reason."""


class Format(Protocol):
    """A format of lines."""

    def record(self, line: bytes) -> RawRecord | None:
        """The record of the line, or None for a line to skip; raises `LineError` for an invalid line."""
        ...


@attrs.frozen
class Defaults:
    """The facts of every record from the command line."""

    topic: str | None = None
    partition: int | None = None
    headers: Headers = ()


@attrs.frozen
class Lines:
    """The line is the value, or the key and the value with a separator between."""

    defaults: Defaults
    key_separator: bytes | None = None
    null_marker: bytes | None = None
    skips_empty: bool = False

    def record(self, line: bytes) -> RawRecord | None:
        """The line as a record."""
        if self.skips_empty and not line:
            return None
        key, value = self._parts(line)
        assert self.defaults.topic is not None  # noqa: S101  # the command requires one for this format
        return Record(
            self.defaults.topic,
            self._unless_marked(value),
            key=self._unless_marked(key),
            partition=self.defaults.partition,
            headers=self.defaults.headers or None,
        )

    def _parts(self, line: bytes) -> tuple[bytes | None, bytes]:
        if self.key_separator is None:
            return None, line
        key, separator, value = line.partition(self.key_separator)
        if not separator:
            raise LineError(f"has no key separator {self.key_separator.decode(errors='replace')!r}")
        return key, value

    def _unless_marked(self, part: bytes | None) -> bytes | None:
        return None if part is not None and part == self.null_marker else part
