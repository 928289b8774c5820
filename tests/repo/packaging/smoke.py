"""For an installed aioproducer, away from this tree: a program that sees that it is that one, and sends a record."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import aioproducer
from aioproducer import Producer
from aioproducer.testing import EmbeddedKafka


def installed_at() -> Path:
    """The folder of the package, which must belong to the environment that runs this."""
    folder = Path(aioproducer.__file__).resolve().parent
    assert folder.is_relative_to(Path(sys.prefix).resolve()), f"{folder} is not in {sys.prefix}"
    return folder


async def send_a_record() -> None:
    """One record through the embedded Kafka and back."""
    async with EmbeddedKafka() as kafka, Producer(kafka.bootstrap_servers) as producer:
        metadata = await producer.send_and_wait("orders", b"2 apples", key=b"alice")
        assert (metadata.topic, metadata.offset) == ("orders", 0), metadata
        assert [(record.key, record.value) for record in kafka.records("orders")] == [(b"alice", b"2 apples")]
        # Deadlines are set by the core's clock and looked at by the loop's.
        apart = producer._now() - asyncio.get_running_loop().time()
        assert abs(apart) < 1, f"the core's clock is {apart} s ahead of the event loop's"


if __name__ == "__main__":
    asyncio.run(send_a_record())
    print(installed_at())
