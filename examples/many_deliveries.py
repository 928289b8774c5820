"""Send many records and wait for all of them in four ways; each shows how to find the failed ones.

Run it against a Kafka on this machine: python examples/many_deliveries.py
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence

from aioproducer import Delivery, DeliveryError, KafkaError, Outcome, Producer

KAFKA = os.environ.get("KAFKA", "localhost:9092")
WORDS = [b"apples", b"pears", b"plums", b"grapes"]


async def accepted(producer: Producer, topic: str) -> Sequence[Delivery]:
    """Send the words without waiting for each, so that they share a request."""
    return [await producer.send(topic, word) for word in WORDS]


async def with_gather(producer: Producer) -> None:
    """`gather`: one result for each record, in order; with `return_exceptions` a result may be an error."""
    results = await asyncio.gather(*await accepted(producer, "gathered"), return_exceptions=True)
    for word, result in zip(WORDS, results, strict=True):
        print(
            f"gather: {word!r}", f"failed: {result}" if isinstance(result, BaseException) else result.offset
        )


async def with_task_group(producer: Producer) -> None:
    """A TaskGroup: all results, or an ExceptionGroup. The first failure ends the wait, but no accepted record."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(producer.send_and_wait("grouped", word)) for word in WORDS]
        print("task group:", [task.result().offset for task in tasks])
    except* KafkaError as failures:
        for error in failures.exceptions:
            print(f"task group: failed: {error}")


async def with_wait(producer: Producer) -> None:
    """`wait`: the results that are known after a time; pending records go on."""
    deliveries = await accepted(producer, "waited")
    # A delivery has the protocol of a future. asyncio.wait() accepts it, its type annotations do not.
    done, pending = await asyncio.wait(deliveries, timeout=5)  # type: ignore[type-var]
    failed = [delivery for delivery in done if delivery.outcome is not Outcome.ACKED]
    print(f"wait: {len(done) - len(failed)} written, {len(failed)} failed, {len(pending)} pending")


async def with_flush(producer: Producer) -> None:
    """`flush`: keep no deliveries, and read its report. To send `not_written` again is safe, `unknown` may be twice then."""
    await producer.flush()  # a report counts from the one before
    await accepted(producer, "flushed")
    try:
        (await producer.flush()).raise_for_errors()
        print("flush: all written")
    except DeliveryError as error:
        print(f"flush: {error.outcome.value}: {error}")


async def main() -> None:
    """Wait in four ways."""
    async with Producer(KAFKA) as producer:
        for way in (with_gather, with_task_group, with_wait, with_flush):
            await way(producer)


if __name__ == "__main__":
    asyncio.run(main())
