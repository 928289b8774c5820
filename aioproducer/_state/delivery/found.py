"""The records of unknown outcome in the report of a flush, as the logs of their partitions show them."""

from __future__ import annotations

from collections import Counter
from copy import copy
from typing import TYPE_CHECKING, Final, NamedTuple

import attrs

from aioproducer.outcome import Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aioproducer._callers.owners import Told
    from aioproducer._state.queues.batches import QueuedBatch
    from aioproducer._state.queues.flush import Failure, Flush
    from aioproducer.errors import KafkaError
    from aioproducer.records import FlushReport, Resolution

NOT_IDEMPOTENT: Final = "records of unknown outcome are found by the numbers of an idempotent producer: set enable_idempotence=True"
NOT_KEPT: Final = (
    "the producer keeps the numbers of the newest batches of unknown outcome only, and lost more of them"
)


class Doubt(NamedTuple):
    """Records of unknown outcome: the batch has the numbers by which they may be found in the log."""

    failure: Failure
    batch: QueuedBatch


@attrs.frozen
class Found:
    """The resolutions of these failures of unknown outcome; `resolutions` are by their numbers."""

    failures: Sequence[Failure]
    resolutions: Mapping[int, Resolution]

    def applied_to(self, report: FlushReport, flush: Flush, told: Told) -> FlushReport:
        """The report, with the outcomes that were found in place of UNKNOWN."""
        found: Counter[Outcome] = Counter()
        reasons: Counter[str] = Counter()
        for failure in self.failures:
            resolution = self.resolutions[failure.number]
            records = flush.records_of(failure, told)
            found[resolution.outcome] += records
            if resolution.outcome is Outcome.UNKNOWN:
                reasons[resolution.reason] += records
        acked, not_written = found[Outcome.ACKED], found[Outcome.NOT_WRITTEN]
        reasons[NOT_KEPT] += report.unknown - found.total()
        return attrs.evolve(
            report,
            acked=report.acked + acked,
            not_written=report.not_written + not_written,
            unknown=report.unknown - acked - not_written,
            resolved_acked=acked,
            resolved_not_written=not_written,
            unknown_reasons={reason: records for reason, records in reasons.items() if records},
        )

    def error_of(self, failure: Failure) -> KafkaError | None:
        """The error of the failure in a report, with the outcome that was found; None if its records are in the log."""
        resolution = self.resolutions.get(failure.number)
        if resolution is not None and resolution.outcome is Outcome.ACKED:
            return None
        # A copy: the errors that batches refer to must not collect the frames of raises.
        error = copy(failure.error)
        if resolution is not None:
            error.outcome = resolution.outcome
        return error


NOTHING_FOUND: Final = Found((), {})
