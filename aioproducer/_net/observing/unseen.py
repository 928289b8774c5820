"""Failures that the program did not read: logged together and rarely, never one line a record."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from aioproducer.errors import TransactionAbortedError

if TYPE_CHECKING:
    from aioproducer._core import Batch
    from aioproducer._net.log import Log


REPORT_EVERY = 1.0
# The partition of a record that waited for its topic.
UNKNOWN = -1


@attrs.define
class _Lost:
    """Records that were lost in one way: their number, their partitions, and one of their errors."""

    count: int = 0
    partitions: set[int] = attrs.Factory(set)
    example: BaseException | None = None


class UnseenFailures:
    """Collects failed batches with unread outcomes, and logs them once a second at most."""

    def __init__(self, log: Log) -> None:
        self._log = log
        # The core appends here when a delivery is dropped, a moment at which nothing else may happen.
        self.batches: list[Batch] = []
        self._report_at = 0.0

    def due(self) -> float | None:
        """When the next report is due."""
        return self._report_at if self.batches else None

    def report(self, now: float) -> None:
        """Log the collected failures, unless the last report was a moment ago."""
        if self.batches and now >= self._report_at:
            self._report_at = now + REPORT_EVERY
            self.report_all()

    def report_all(self) -> None:
        """Log the collected failures."""
        for (topic, kind), lost in self._collected().items():
            self._log.error(
                "%s for topic %s%s failed with %s, and the program never read %s delivery: %s",
                "1 record" if lost.count == 1 else f"{lost.count} records",
                topic,
                where(lost.partitions),
                kind,
                "its" if lost.count == 1 else "their",
                lost.example,
                extra={"topic": topic, "error": kind, "records": lost.count},
            )

    def _collected(self) -> dict[tuple[str, str], _Lost]:
        found: dict[tuple[str, str], _Lost] = {}
        batches, self.batches[:] = list(self.batches), []
        for batch in batches:
            count = batch.take_unseen()
            # A program that ends a transaction early expects that unsent records are dropped.
            if count and not isinstance(batch.error and batch.error.__cause__, TransactionAbortedError):
                error = batch.error or batch.lone_error()
                lost = found.setdefault((batch.topic, type(error).__name__), _Lost())
                lost.count += count
                lost.partitions.add(batch.partition)
                lost.example = error
        return found


def where(partitions: set[int]) -> str:
    """The partitions in words; a record that never got a partition adds nothing."""
    known = sorted(partitions - {UNKNOWN})
    if not known:
        return ""
    return f" (partition{'s' if len(known) > 1 else ''} {', '.join(map(str, known))})"
