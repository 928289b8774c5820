"""confluent-kafka: transactions one after the other, with a delivery callback for every record."""

from __future__ import annotations

import time
import uuid

import confluent_kafka
from confluent_kafka.cimpl import KafkaError, Message, Producer

from benchmarks.measure import BATCH_SIZE, Offsets, Round, Stopwatch, Transacted, Work, no_offsets, work

# As in confluent_send: a poll for each record costs a fifth of its rate or more.
_POLL_EVERY = 500


def _send(producer: Producer, one: Work) -> Offsets:
    offsets = no_offsets()

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            raise SystemExit(f"not delivered: {error}")
        offsets[message.partition()].append(message.offset())  # type: ignore[index,arg-type]

    produce, poll, topic = producer.produce, producer.poll, one.topic
    for number, value in enumerate(one.values(one.per_transaction), 1):
        while True:
            try:
                produce(topic, value, on_delivery=delivered)
                break
            except BufferError:
                poll(0.01)
        if number % _POLL_EVERY == 0:
            poll(0)
    return offsets


def _transact(producer: Producer, one: Work, count: int) -> Transacted:
    done = Transacted()
    for _ in range(count // one.per_transaction):
        producer.begin_transaction()
        offsets = _send(producer, one)
        began = time.perf_counter()
        # Flushes, and serves the callbacks.
        producer.commit_transaction()
        done.committed(offsets, time.perf_counter() - began)
    return done


def _run(one: Work) -> Round:
    producer = Producer(
        {
            "bootstrap.servers": one.bootstrap_servers,
            "transactional.id": f"confluent-{uuid.uuid4()}",
            "linger.ms": one.linger_ms,
            "batch.size": BATCH_SIZE,
        }
    )
    producer.init_transactions()
    _transact(producer, one, one.warm_up).check(one.warm_up)
    with Stopwatch() as watch:
        done = _transact(producer, one, one.records)
    done.check(one.records)
    library, binding = confluent_kafka.libversion()[0], confluent_kafka.version()
    version = f"confluent-kafka {binding} (librdkafka {library})"
    return watch.round(one.records, version, **done.figures(watch.seconds))


if __name__ == "__main__":
    _run(work()).tell()
