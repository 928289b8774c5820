"""confluent-kafka: its synchronous producer with a delivery callback for every record."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat

import confluent_kafka
from confluent_kafka.cimpl import KafkaError, Message, Producer

from benchmarks.credentials import confluent_security
from benchmarks.measure import (
    BATCH_SIZE,
    LINGER_MS,
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
    producer = Producer(
        {
            "bootstrap.servers": one.bootstrap_servers,
            "acks": "all",
            "enable.idempotence": True,
            "linger.ms": LINGER_MS,
            "batch.size": BATCH_SIZE,
            **confluent_security(one.authority),
        }
    )
    check_offsets(_send_all(producer, one, one.warm_up), one.warm_up)
    with Stopwatch() as watch:
        offsets = _send_all(producer, one, one.records)
    check_offsets(offsets, one.records)
    library, binding = confluent_kafka.libversion()[0], confluent_kafka.version()
    return watch.round(one.records, f"confluent-kafka {binding} (librdkafka {library})")


if __name__ == "__main__":
    _run(work()).tell()
