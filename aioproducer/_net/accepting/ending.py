"""The end of records: the wait until each has its outcome, and the report of the remaining ones when the producer ends."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from aioproducer._net.log import log_of
from aioproducer._net.observing.closing import counted, waits_for
from aioproducer.records import CloseReport

if TYPE_CHECKING:
    from aioproducer._net.accepting.intake import Intake
    from aioproducer._net.runtime.engine import Engine
    from aioproducer._state.delivery.tally import Totals
    from aioproducer._state.queues.flush import Flush


async def resolved(engine: Engine, intake: Intake, timeout: float | None = None) -> Flush:
    """Wait until every record that was accepted so far has its outcome, and its callbacks have run.

    Raises TimeoutError for a record that has none within so many seconds.
    """
    flush, done = engine.flushes.begin(intake.waiting_for_topics())
    try:
        # Not around the turn of the loop below, which is no wait for a record.
        async with asyncio.timeout(timeout):
            await done
    except BaseException:
        engine.flushes.leave(flush, intake.waiting_for_topics())
        raise
    # Callbacks that are already scheduled run first.
    await asyncio.sleep(0)
    return flush


def log_waits(engine: Engine, intake: Intake, until: float) -> None:
    """Log the records that close() waits for, and its time limit."""
    log_of(engine.config.client_id).info(
        "close() waits for %.1f s more at most: %s",
        until - engine.loop.time(),
        waits_for(engine, intake) or "all records have their outcome",
    )


def report_of_close(engine: Engine, intake: Intake, before: Totals, waited_for: str | None) -> CloseReport:
    """End the intake, and report the outcomes since `before`; lost records are logged."""
    intake.close()
    now = engine.tally.totals
    report = CloseReport(
        now.acked - before.acked,
        now.not_written - before.not_written,
        now.unknown - before.unknown,
        waited_for,
    )
    if report.not_written or report.unknown:
        log_of(engine.config.client_id).error(
            "records were lost when the producer was closed: %d not written, %d unknown%s",
            report.not_written,
            report.unknown,
            "" if waited_for is None else f" (close() ran out of time waiting for {waited_for})",
            extra={"records": report.not_written + report.unknown},
        )
    return report


def log_losses(engine: Engine, intake: Intake, what: str) -> bool:
    """Log how many records remain of a producer that was never closed; False if there are none."""
    left = engine.unresolved() + len(intake.queued)
    if left:
        log_of(engine.config.client_id).warning("%s: %s without an outcome", what, counted(left, "record"))
    return left > 0
