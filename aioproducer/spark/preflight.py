"""The driver's checks before any task starts: Kafka answers, and the topics can be written."""

from __future__ import annotations

import contextlib

from aioproducer import (
    AuthorizationError,
    BrokerError,
    ConfigurationError,
    KafkaError,
    MetadataTimeoutError,
    ProducerConfig,
    check_topics,
)
from aioproducer.ledgers import Ledger
from aioproducer.spark.exactly_once.ledger import ledger_topic
from aioproducer.spark.exactly_once.markers import take_id, transactional_name
from aioproducer.spark.options import SinkOptions, settings_of
from aioproducer.spark.shipping.worker import this_worker

__all__ = ["check_kafka", "check_kafka_once"]

# Long enough for a cluster that has just lost a broker; a misspelled name must not delay a job for a minute.
ANSWER_TIMEOUT = 15.0


def check_kafka(options: SinkOptions, name: str | None = None, *, is_stream: bool = False) -> None:
    """Raise an error that would fail every task; `name` is the base of the tasks' transactional ids, if it is known."""
    this_worker().run(_check(options, name, is_stream=is_stream))


def check_kafka_once(options: SinkOptions, name: str | None = None) -> None:
    """The same for streams, whose sinks are made anew for every epoch, in two processes: the check runs once."""
    if (options, name) not in _checked:
        check_kafka(options, name, is_stream=True)
        _checked.add((options, name))


_checked: set[tuple[SinkOptions, str | None]] = set()


async def _check(options: SinkOptions, name: str | None, *, is_stream: bool) -> None:
    await _check_topics(options)
    if options.ledger_topic is not None and (is_stream or options.write_id is not None):
        await _require_ledger(options.ledger_topic, options.producer)
    if options.is_exactly_once and name is not None:
        # An id of the driver alone; an id of a task would fence that task.
        await take_id(f"{transactional_name(name)}-driver", options.producer)


async def _check_topics(options: SinkOptions) -> None:
    topics = [options.topic, options.dead_letters]
    marks = options.marker_topic if options.is_exactly_once else None
    try:
        await _ask([topic for topic in topics if topic is not None], options.producer)
        if marks is not None and marks not in topics:
            # Offsets can be committed for a topic without the permission to write it.
            with contextlib.suppress(AuthorizationError):
                await _ask([marks], options.producer)
    except (MetadataTimeoutError, AuthorizationError, BrokerError) as error:
        if error.topic is None:
            raise
        raise ConfigurationError(_told(error), cause=error) from error


async def _require_ledger(name: str, config: ProducerConfig) -> None:
    try:
        async with Ledger(config, ledger_topic(name)) as ledger:
            await ledger.require()
    except (ConfigurationError, AuthorizationError) as error:
        raise ConfigurationError(
            f"exactly-once keeps its marks in the topic {name!r} (option ledger.topic): {error}. With ledger.topic=none brokers "
            "forget marks after offsets.retention.minutes",
            cause=error,
        ) from error


async def _ask(topics: list[str], config: ProducerConfig) -> None:
    timeout = min(ANSWER_TIMEOUT, config.max_block_ms / 1000)
    await check_topics(topics, config.bootstrap_servers, timeout=timeout, **settings_of(config))


def _told(error: KafkaError) -> str:
    if isinstance(error, AuthorizationError):
        return f"the principal may not write topic {error.topic!r}: grant it WRITE and DESCRIBE there"
    return f"topic {error.topic!r} does not exist: create it first"
