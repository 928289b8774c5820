"""What the driver finds out before any task starts: Kafka answers, and what is to be written can be."""

from __future__ import annotations

from aioproducer import (
    AuthorizationError,
    BrokerError,
    ConfigurationError,
    KafkaError,
    MetadataTimeoutError,
    check_topics,
    fence,
)
from aioproducer.spark.markers import transactional_name
from aioproducer.spark.options import SinkOptions, settings_of
from aioproducer.spark.worker import this_worker

__all__ = ["check_kafka", "check_kafka_once"]

# Long enough for a cluster that has just lost a broker; a job that nobody watches must not wait a minute for a misspelt name.
PATIENCE = 15.0


def check_kafka(options: SinkOptions, name: str | None = None) -> None:
    """Raise what would make every task fail; `name` is what the tasks' transactional ids are made of, if it is known."""
    this_worker().run(_check(options, name))


def check_kafka_once(options: SinkOptions, name: str | None = None) -> None:
    """The same for streams, whose sinks are made anew for every epoch, in two processes: they hear later from their tasks."""
    if (options, name) not in _checked:
        check_kafka(options, name)
        _checked.add((options, name))


_checked: set[tuple[SinkOptions, str | None]] = set()


async def _check(options: SinkOptions, name: str | None) -> None:
    await _check_topics(options)
    if options.is_exactly_once and name is not None:
        # Nobody else has this one: it stands for those of the tasks, which must not be taken from them.
        config = options.producer
        await fence([f"{transactional_name(name)}-driver"], config.bootstrap_servers, **settings_of(config))


async def _check_topics(options: SinkOptions) -> None:
    # Not that of the marks: offsets can be committed where nothing may be written.
    topics = [options.topic, options.dead_letters]
    config = options.producer
    try:
        await check_topics(
            [topic for topic in topics if topic is not None],
            config.bootstrap_servers,
            timeout=min(PATIENCE, config.max_block_ms / 1000),
            **settings_of(config),
        )
    except (MetadataTimeoutError, AuthorizationError, BrokerError) as error:
        if error.topic is None:
            raise
        raise ConfigurationError(_told(error), cause=error) from error


def _told(error: KafkaError) -> str:
    if isinstance(error, AuthorizationError):
        return f"the principal may not write topic {error.topic!r}: grant it WRITE and DESCRIBE there"
    return f"topic {error.topic!r} does not exist: create it first"
