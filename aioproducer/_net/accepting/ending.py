"""The end of records: the wait until each has its outcome, and the report of the remaining ones when the producer ends."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from aioproducer._net.log import log_of
from aioproducer._net.observing.closing import counted, waits_for
from aioproducer._state.delivery.found import NOT_IDEMPOTENT, NOTHING_FOUND, Found
from aioproducer.errors import ConfigurationError
from aioproducer.records import CloseReport, Resolution

if TYPE_CHECKING:
    from aioproducer._callers.owners import Told
    from aioproducer._net.accepting.intake import Intake
    from aioproducer._net.runtime.engine import Engine
    from aioproducer._state.delivery.tally import Totals
    from aioproducer._state.queues.flush import Flush
    from aioproducer.config import ProducerConfig


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


def check_resolve(config: ProducerConfig, resolve: object) -> None:
    """Check the argument of `flush()`."""
    if not isinstance(resolve, bool):
        raise ConfigurationError(f"resolve must be True or False, not {type(resolve).__name__}")
    if resolve and not config.enable_idempotence:
        raise ConfigurationError(NOT_IDEMPOTENT)


async def searched(engine: Engine, flush: Flush, told: Told, timeout: float | None) -> Found:
    """Look for the records of unknown outcome that the report of a flush has, for at most so many seconds."""
    doubts = engine.tally.in_doubt(flush, told)
    if not doubts:
        return NOTHING_FOUND
    resolver = await engine.loaded_resolver()
    verdicts = await resolver.verdicts((doubt.batch for doubt in doubts), timeout)
    return Found(
        [failure for failure, _ in doubts],
        {failure.number: Resolution(*verdicts[batch]) for failure, batch in doubts},
    )


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
