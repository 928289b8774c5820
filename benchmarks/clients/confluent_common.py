"""confluent-kafka with the settings that all clients have here."""

from __future__ import annotations

import confluent_kafka
from confluent_kafka.cimpl import Producer

from benchmarks.credentials import confluent_security
from benchmarks.measure import BATCH_SIZE, LINGER_MS, Work


def confluent_producer(one: Work, **settings: str) -> Producer:
    """A producer of confluent-kafka; `settings` have underscores for dots."""
    return Producer(
        {
            "bootstrap.servers": one.bootstrap_servers,
            "acks": "all",
            "enable.idempotence": True,
            "linger.ms": LINGER_MS,
            "batch.size": BATCH_SIZE,
            **confluent_security(one.authority),
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
    )


def confluent_version() -> str:
    """The versions of the binding and of the library."""
    return f"confluent-kafka {confluent_kafka.version()} (librdkafka {confluent_kafka.libversion()[0]})"
