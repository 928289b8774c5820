"""confluent-kafka in a shape of production: its synchronous producer, with a delivery callback for every record."""

from __future__ import annotations

import time

from confluent_kafka.cimpl import KafkaError, Message, Producer

from benchmarks.clients.confluent_common import confluent_producer, confluent_version
from benchmarks.clients.shape import Places, round_of, ticks
from benchmarks.measure import Round, Stopwatch, Work, work


def _send_all(producer: Producer, one: Work, count: int) -> Places:
    places = Places(one)

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            raise SystemExit(f"not delivered: {error}")
        places.add(message.topic(), message.partition(), message.offset())  # type: ignore[arg-type]

    produce, poll, (value,) = producer.produce, producer.poll, one.values(1)
    for tick in ticks(one, count):
        if one.rate:
            time.sleep(tick.pause)
        for topic, key in tick.records:
            while True:
                try:
                    produce(topic, value, key, on_delivery=delivered)
                    break
                except BufferError:
                    poll(0.01)
        poll(0)
    producer.flush()
    return places


def _run(one: Work) -> Round:
    # As Kafka's own clients, for the same partitions.
    producer = confluent_producer(one, partitioner="murmur2_random")
    _send_all(producer, one, one.warm_up).check(one.warm_up)
    with Stopwatch() as watch:
        places = _send_all(producer, one, one.records)
    places.check(one.records)
    return round_of(watch, one, confluent_version())


if __name__ == "__main__":
    _run(work()).tell()
