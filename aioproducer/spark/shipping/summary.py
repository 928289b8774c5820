"""The one line that the driver logs of a write."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from typing import Final

from aioproducer.spark.shipping.shipment import Written

__all__ = ["tell"]

# Left out where they are zero.
BESIDES: Final[Mapping[str, str]] = {
    "batches": "{:,} batches",
    "fence_seconds": "fence {:.3f} s",
    "commit_seconds": "commit {:.3f} s",
    "longest_delivery": "longest delivery {:.3f} s",
    "aborted_attempts": "{:,} attempts aborted",
    "retried": "{:,} records sent again",
    "dead_letters": "{:,} dead letters",
    "skipped": "{:,} rows were already written",
}

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
    facts += [words.format(number) for name, words in BESIDES.items() if (number := getattr(written, name))]
    return ", ".join(facts)
