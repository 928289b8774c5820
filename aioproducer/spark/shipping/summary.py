"""The one line that the driver logs of a write."""

from __future__ import annotations

import logging
import sys
from typing import Final

from aioproducer.spark.shipping.shipment import Written

__all__ = ["tell"]

log: Final = logging.getLogger("aioproducer.spark")


def tell(what: str, written: Written, tasks: int) -> None:
    """Log the written rows. Spark's processes have no logging configuration, so the lines go to stderr there."""
    if not log.hasHandlers():
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        log.addHandler(handler)
        log.setLevel(logging.INFO)
    log.info("%s %s", what, _described(written, tasks))


def _described(written: Written, tasks: int) -> str:
    rate = written.rows / written.seconds if written.seconds else 0.0
    facts = [
        f"{written.rows:,} rows ({written.bytes:,} bytes) to {len(written.places)} partitions by {tasks} tasks",
        f"slowest task {written.seconds:.3f} s",
        f"{rate:,.0f} rows/s",
    ]
    if written.batches:
        facts.append(f"{written.batches:,} batches")
    if written.fence_seconds:
        facts.append(f"fence {written.fence_seconds:.3f} s")
    if written.commit_seconds:
        facts.append(f"commit {written.commit_seconds:.3f} s")
    if written.longest_delivery:
        facts.append(f"longest delivery {written.longest_delivery:.3f} s")
    if written.aborted_attempts:
        facts.append(f"{written.aborted_attempts:,} attempts aborted")
    if written.retried:
        facts.append(f"{written.retried:,} records sent again")
    if written.dead_letters:
        facts.append(f"{written.dead_letters:,} dead letters")
    if written.skipped:
        facts.append(f"{written.skipped:,} rows were already written")
    return ", ".join(facts)
