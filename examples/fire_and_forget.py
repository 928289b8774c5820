"""Send without waiting for anything to be written; callbacks hear about each record, the end about all of them.

Run it against a Kafka on this machine: python examples/fire_and_forget.py
(`aioproducer broker` in another terminal is one; KAFKA=host:port names another.)
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys

from aioproducer import Delivery, Producer

KAFKA = os.environ.get("KAFKA", "localhost:9092")


def tell(delivery: Delivery) -> None:
    """Called in the event loop as soon as it is known what became of the record: be quick, and do not block."""
    error = delivery.exception()
    if error is None:
        offset = delivery.result().offset
        if offset % 250 == 0:
            print(f"{delivery.topic}-{delivery.partition}: {offset} is written")
    else:
        print(f"lost ({delivery.outcome.value}): {error}", file=sys.stderr)


async def main() -> bool:
    """Send 1,000 clicks with a callback each and 1,000 views without; say whether all of them were written."""
    # A record with a callback counts as awaited and would not linger: these callbacks are in no hurry.
    async with Producer(KAFKA, linger_ms=20, linger_awaited=True) as producer:
        for number in range(1000):
            # Only what cannot even be accepted raises here: too large, no room, no such topic.
            delivery = await producer.send("clicks", b"click %d" % number)
            delivery.add_done_callback(tell)
        for number in range(1000):
            # The delivery is dropped. If it fails, the logger `aioproducer` says so, once and not per record.
            await producer.send("views", b"view %d" % number)

        # Everything accepted so far is sent and has its outcome; all callbacks have run.
        report = await producer.flush()
        print(f"{report.acked} written, {report.not_written} not written, {report.unknown} unknown")
        for error in report.first_errors:
            print(f"for example: {error}", file=sys.stderr)
        return not (report.not_written or report.unknown)


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    sys.exit(0 if asyncio.run(main()) else 1)
