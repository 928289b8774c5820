"""A finding: the status of one thing that was examined, in words, and the action that it asks for."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

__all__ = ["Finding", "Status", "counted", "duration", "listed"]

_MOST_LISTED = 10


class Status(enum.StrEnum):
    """The status of a check, from the best to the worst; `skip`: its ground failed, or nothing asks for it."""

    OK = "ok"
    SKIP = "skip"
    WARN = "warn"
    FAIL = "fail"


@attrs.frozen
class Finding:
    """The result of one check; `detail` has plain JSON types."""

    status: Status
    summary: str
    advice: str | None = None
    detail: Mapping[str, Any] = attrs.field(factory=dict)

    @classmethod
    def ok(cls, summary: str, **detail: Any) -> Finding:
        """Nothing is wrong."""
        return cls(Status.OK, summary, None, detail)

    @classmethod
    def skip(cls, summary: str) -> Finding:
        """It was not examined."""
        return cls(Status.SKIP, summary)

    @classmethod
    def warn(cls, summary: str, advice: str, **detail: Any) -> Finding:
        """It works, and may not for long."""
        return cls(Status.WARN, summary, advice, detail)

    @classmethod
    def fail(cls, summary: str, advice: str, **detail: Any) -> Finding:
        """A producer cannot work with it."""
        return cls(Status.FAIL, summary, advice, detail)


def listed(items: Sequence[object]) -> str:
    """`1, 2 and 3`; of a long list the beginning, and how many follow."""
    texts = [str(item) for item in items]
    if len(texts) > _MOST_LISTED:
        texts = [*texts[:_MOST_LISTED], f"{len(items) - _MOST_LISTED} more"]
    return " and ".join(filter(None, (", ".join(texts[:-1]), texts[-1]))) if texts else "none"


def counted(number: int, noun: str) -> str:
    """`1 broker`, `2 brokers`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def duration(seconds: float) -> str:
    """A duration in words: `0.4 ms`, `12 ms`, `3.4 s`, `5 min`."""
    if seconds < 0.0095:
        return f"{seconds * 1000:.1f} ms"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"
