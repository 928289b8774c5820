"""aiokafka with the settings that all clients have here."""

from __future__ import annotations

import aiokafka

from benchmarks.measure import BATCH_SIZE, LINGER_MS, Work


def aiokafka_producer(one: Work) -> aiokafka.AIOKafkaProducer:
    """A producer of aiokafka, to be started."""
    return aiokafka.AIOKafkaProducer(
        bootstrap_servers=one.bootstrap_servers,
        acks="all",
        enable_idempotence=True,
        linger_ms=LINGER_MS,
        max_batch_size=BATCH_SIZE,
    )
