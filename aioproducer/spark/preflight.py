"""What the driver finds out before any task starts: Kafka answers, and what is to be written can be."""

from __future__ import annotations

from typing import Any

from aioproducer import BrokerError, ConfigurationError, MetadataTimeoutError, Producer
from aioproducer.spark.options import SinkOptions
from aioproducer.spark.worker import this_worker

__all__ = ["check_kafka"]

# Long enough for a cluster that has just lost a broker; a job that nobody watches must not wait a minute for a misspelt name.
PATIENCE = 15.0
# Brokers that answer know their topics, but for one that was made in this moment.
PATIENCE_FOR_A_TOPIC_MS = 3_000


def check_kafka(options: SinkOptions) -> None:
    """Raise what would make every task fail."""
    this_worker().run(_check(options))


async def _check(options: SinkOptions) -> None:
    topics = [topic for topic in (options.topic, options.dead_letters) if topic is not None]
    config = options.producer.evolve(max_block_ms=PATIENCE_FOR_A_TOPIC_MS)
    producer: Producer[Any, Any] = Producer.from_config(config)
    try:
        await producer.start(wait_ready=PATIENCE)
        for topic in topics:
            await _check_topic(producer, topic)
    finally:
        await producer.close(timeout=0)


async def _check_topic(producer: Producer[Any, Any], topic: str) -> None:
    try:
        await producer.partitions_for(topic)
    except (MetadataTimeoutError, BrokerError) as error:
        raise ConfigurationError(
            f"topic {topic!r} cannot be written: create it first, or grant the principal WRITE on it",
            cause=error,
        ) from error
