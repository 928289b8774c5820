"""A partitioner that chooses partitions, and an interceptor that sees every record and every outcome.

Run it against a Kafka on this machine: python examples/partitioner_and_interceptor.py
"""

from __future__ import annotations

import asyncio
import os
import zlib
from collections import Counter
from collections.abc import Sequence
from typing import Any

import attrs

from aioproducer import Producer, Record, RecordMetadata
from aioproducer.interceptors import Interceptor

KAFKA = os.environ.get("KAFKA", "localhost:9092")


def separate_regulars(
    topic: str, key: bytes | None, value: bytes | None, partitions: Sequence[int], available: Sequence[int]
) -> int | None:
    """A partitioner: regular customers have the first partition, the others share the rest."""
    if key is None or len(partitions) == 1:
        return None  # the default partitioner chooses
    if key.startswith(b"regular-"):
        return partitions[0]
    # Not hash(): it differs between processes, and a key must always have the same partition.
    return partitions[1 + zlib.crc32(key) % (len(partitions) - 1)]


class Journal(Interceptor):
    """An interceptor: adds the origin of records, and counts their outcomes."""

    def __init__(self, origin: str) -> None:
        self.origin = origin.encode()
        self.outcomes: Counter[str] = Counter()

    def on_send(self, record: Record[Any, Any], /) -> Record[Any, Any]:
        """The same record with another header; `record.headers` has the headers of the call, or None."""
        headers = {**dict(record.headers or ()), "origin": self.origin}
        return attrs.evolve(record, headers=headers)

    def on_acknowledgement(self, metadata: RecordMetadata | None, error: BaseException | None, /) -> None:
        """Called once for each record, in the event loop: it must not wait."""
        self.outcomes["written" if error is None else type(error).__name__] += 1

    def close(self) -> None:
        """Called after the producer has closed."""
        print("outcomes:", dict(self.outcomes))


async def main() -> None:
    """Send orders of both kinds of customers."""
    journal = Journal("shop-7")
    async with Producer(KAFKA, partitioner=separate_regulars, interceptors=[journal]) as producer:
        for customer in (b"regular-alice", b"bob", b"regular-carol", b"dave", b"bob"):
            metadata = await producer.send_and_wait("orders", b"2 apples", key=customer)
            print(f"{customer.decode()}: partition {metadata.partition}, offset {metadata.offset}")


if __name__ == "__main__":
    asyncio.run(main())
