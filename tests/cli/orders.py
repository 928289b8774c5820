"""Sending into the topic `orders`, and what came of it."""

from __future__ import annotations

import re
from pathlib import Path

from aioproducer.testing import EmbeddedKafka
from tests.cli.program import Ended, run

SUMMARY = re.compile(
    r"(?P<acked>[\d,]+) acked, (?P<not_written>[\d,]+) not written, (?P<unknown>[\d,]+) unknown "
    r"in [\d.]+ s \([\d,]+ records/s\)\n"
)


async def produce(kafka: EmbeddedKafka, *arguments: str | Path, stdin: bytes = b"") -> Ended:
    """Send into the topic `orders`."""
    return await run("produce", "-b", kafka.bootstrap_servers, "-t", "orders", *arguments, stdin=stdin)


def counts(done: Ended) -> tuple[int, int, int]:
    """How many were acknowledged, not written, and of unknown fate, as the summary tells."""
    told = SUMMARY.fullmatch(done.out)
    assert told, done
    acked, not_written, unknown = (int(number.replace(",", "")) for number in told.groups())
    return acked, not_written, unknown


def values(kafka: EmbeddedKafka, partition: int | None = None) -> list[bytes | None]:
    """The written values."""
    return [record.value for record in kafka.records("orders", partition)]
