"""confluent-kafka: its synchronous producer with a delivery callback for every record."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat

from confluent_kafka.cimpl import KafkaError, Message, Producer

from benchmarks.clients.confluent_common import confluent_producer, confluent_version
from benchmarks.measure import (
    Offsets,
    Round,
    Stopwatch,
    Work,
    check_offsets,
    no_offsets,
    work,
)

# A poll for each record, as in its examples, costs a fifth of its rate or more.
_POLL_EVERY = 500


def _send_all(producer: Producer, one: Work, count: int) -> Offsets:
    offsets = no_offsets()

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            raise SystemExit(f"not delivered: {error}")
        offsets[message.partition()].append(message.offset())  # type: ignore[index,arg-type]

    produce, poll, topic = producer.produce, producer.poll, one.topic
    keys: Iterator[bytes | None] = one.keys(count) if one.key_size else repeat(None, count)
    for number, (value, key) in enumerate(zip(one.values(count), keys, strict=True)):
        while True:
            try:
                produce(topic, value, key, on_delivery=delivered)
                break
            except BufferError:
                poll(0.01)
        if number % _POLL_EVERY == 0:
            poll(0)
    producer.flush()
    return offsets


def _run(one: Work) -> Round:
    producer = confluent_producer(one)
    check_offsets(_send_all(producer, one, one.warm_up), one.warm_up)
    with Stopwatch() as watch:
        offsets = _send_all(producer, one, one.records)
    check_offsets(offsets, one.records)
    return watch.round(one.records, confluent_version())


if __name__ == "__main__":
    _run(work()).tell()
