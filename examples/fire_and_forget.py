"""Send without waiting; callbacks get the outcome of each record, and the report at the end counts all of them.

Run it against a Kafka on this machine: python examples/fire_and_forget.py
(`aioproducer broker` in another terminal runs one; KAFKA=host:port selects another.)
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys

from aioproducer import Delivery, Producer

KAFKA = os.environ.get("KAFKA", "localhost:9092")


def report(delivery: Delivery) -> None:
    """Called in the event loop when the outcome of the record is known: it must be quick, and must not block."""
    error = delivery.exception()
    if error is None:
        offset = delivery.result().offset
        if offset % 250 == 0:
            print(f"{delivery.topic}-{delivery.partition}: {offset} is written")
    else:
        print(f"lost ({delivery.outcome.value}): {error}", file=sys.stderr)


async def main() -> bool:
    """Send 1,000 clicks with a callback each and 1,000 views without; returns whether all of them were written."""
    # By default a record with a callback counts as awaited and does not linger; these callbacks are not urgent.
    async with Producer(KAFKA, linger_ms=20, linger_awaited=True) as producer:
        for number in range(1000):
            # Raises only if the record is not accepted: it is too large, the memory is full, the topic does not exist.
            delivery = await producer.send("clicks", b"click %d" % number)
            delivery.add_done_callback(report)
        for number in range(1000):
            # The delivery is dropped. Failures are logged by the logger `aioproducer`, together and not per record.
            await producer.send("views", b"view %d" % number)

        # After this, every accepted record has its outcome, and all callbacks have run.
        total = await producer.flush()
        print(f"{total.acked} written, {total.not_written} not written, {total.unknown} unknown")
        for error in total.first_errors:
            print(f"for example: {error}", file=sys.stderr)
        return not (total.not_written or total.unknown)


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    sys.exit(0 if asyncio.run(main()) else 1)
