"""Send any number of dicts from a generator, in bounded memory and with a progress bar.

Run it with the extra `cli` installed: python examples/stream_dicts.py 10000000
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Iterator

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from aioproducer import Producer, Record

KAFKA = os.environ.get("KAFKA", "localhost:9092")
COLUMNS = (
    TextColumn("done"),
    BarColumn(),
    MofNCompleteColumn(),
    TimeRemainingColumn(elapsed_when_finished=True),
)


def readings(count: int) -> Iterator[dict[str, str | int]]:
    """The dicts, one at a time."""
    for number in range(count):
        yield {"sensor": f"sensor-{number % 1000}", "number": number, "celsius": number % 40}


def records(count: int) -> Iterator[Record[bytes, bytes]]:
    """The records. send_all() takes the next one only when the buffer has room."""
    for reading in readings(count):
        # With `value_serializer=serializers.json()` the values can be dicts; bytes are faster.
        yield Record("readings", json.dumps(reading).encode(), key=str(reading["sensor"]).encode())


async def main(count: int) -> bool:
    """Send all records, and print their outcomes."""
    # At most 16 MB of records wait for Kafka; the others are not generated yet.
    async with Producer(KAFKA, compression_type="lz4", buffer_memory=16 << 20) as producer:
        with Progress(*COLUMNS) as progress:
            task = progress.add_task("readings", total=count)
            result = await producer.send_all(
                records(count), on_progress=lambda done: progress.update(task, completed=done)
            )
    print(f"{result.acked} written, {result.not_written} not written, {result.unknown} unknown")
    for index, error in list(result.errors.items())[:5]:
        print(f"record {index}: {error}", file=sys.stderr)
    return result.acked == count


if __name__ == "__main__":
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000
    sys.exit(0 if asyncio.run(main(wanted)) else 1)
