"""confluent-kafka with linger 0, bridged to asyncio: a thread serves its callbacks, which resolve futures of the loop."""

from __future__ import annotations

import asyncio
import threading

import confluent_kafka
from confluent_kafka.cimpl import KafkaError, Message, Producer

from benchmarks.clients.pace import paced
from benchmarks.measure import Round, Work, work


def _resolve(
    future: asyncio.Future[tuple[int, int]], error: KafkaError | None, place: tuple[int, int]
) -> None:
    if error is not None:
        future.set_exception(SystemExit(f"not delivered: {error}"))
    else:
        future.set_result(place)


async def _program(one: Work) -> Round:
    producer = Producer(
        {
            "bootstrap.servers": one.bootstrap_servers,
            "acks": "all",
            "enable.idempotence": True,
            "linger.ms": 0,
        }
    )
    loop = asyncio.get_running_loop()
    closing = threading.Event()

    def serve() -> None:
        while not closing.is_set():
            producer.poll(0.1)

    def write(value: bytes) -> asyncio.Future[tuple[int, int]]:
        future: asyncio.Future[tuple[int, int]] = loop.create_future()

        def delivered(error: KafkaError | None, message: Message) -> None:
            place = (message.partition() or 0, message.offset() or 0)
            loop.call_soon_threadsafe(_resolve, future, error, place)

        producer.produce(one.topic, value, on_delivery=delivered)
        return future

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        return await paced(write, one, f"confluent-kafka {confluent_kafka.version()}")
    finally:
        closing.set()
        thread.join()


if __name__ == "__main__":
    asyncio.run(_program(work())).tell()
