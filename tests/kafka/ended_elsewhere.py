"""A program that ends the transaction of a pickled handle, twice: what another process does with one.

Its arguments are the bootstrap servers, and "commit" or "abort"; the handle comes in by its standard input. It prints
what came of each call: "done", or the name of an error.
"""

from __future__ import annotations

import asyncio
import pickle
import sys

from aioproducer import KafkaError, TransactionHandle


async def main(servers: str, end: str, handle: TransactionHandle) -> None:
    """The same call twice: repeating it does no harm."""
    for _ in range(2):
        try:
            await (handle.commit if end == "commit" else handle.abort)(servers)
            print("done")
        except KafkaError as error:
            print(type(error).__name__)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], pickle.load(sys.stdin.buffer)))
