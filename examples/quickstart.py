"""Send two records and see where they were written: python examples/quickstart.py [host:port]."""

from __future__ import annotations

import asyncio
import sys

from aioproducer import Producer


async def main(bootstrap_servers: str) -> None:
    """Send one record in two steps, and one in a single call."""
    async with Producer(bootstrap_servers) as producer:
        # Accepted: the record has its place in the order. The next send can follow at once.
        delivery = await producer.send("orders", b"2 apples", key=b"alice")
        # Written: the metadata has its partition and offset.
        metadata = await delivery
        print(f"{metadata.topic}-{metadata.partition} at offset {metadata.offset}")
        # Both steps in one call.
        metadata = await producer.send_and_wait("orders", b"3 pears", key=b"alice")
        print(f"{metadata.topic}-{metadata.partition} at offset {metadata.offset}")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "localhost:9092"))
