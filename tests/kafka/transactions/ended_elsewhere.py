"""A program that ends the transactions of pickled handles, each twice, as another process does.

Its argument is the bootstrap servers; it reads handles from its standard input, by "commit" or "abort". It prints the
result of each call: "done", or the name of an error.
"""

from __future__ import annotations

import asyncio
import pickle
import sys

from aioproducer import KafkaError, TransactionHandle


async def main(servers: str, handles: dict[str, TransactionHandle]) -> None:
    """Make the same call twice: the second does no harm."""
    for end, handle in handles.items():
        for _ in range(2):
            try:
                await (handle.commit if end == "commit" else handle.abort)(servers)
                print("done")
            except KafkaError as error:
                print(type(error).__name__)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], pickle.load(sys.stdin.buffer)))
