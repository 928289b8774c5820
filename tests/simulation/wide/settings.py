"""The draws of a wide life: its topics, and the settings of its producer."""

from __future__ import annotations

from typing import Any, Final

from aioproducer import Producer
from tests.judge.judge import Rules
from tests.simulation.wide.pieces import CountingInterceptor, key_serializer, partitioner, value_serializer
from tests.simulation.world import World

THREADS: Final = "threads"
"""The topic for calls from other threads, whose order is unknown."""
NAMES: Final = ("orders", "payments", "clicks")
SIZES: Final = (1_048_588, 1_048_588, 2_000, 500)
"""The values of `max.message.bytes`."""


def make_topics(world: World) -> tuple[str, ...]:
    """Some topics, each with its own partitions and limits; a topic that is left out is created on first use."""
    rng = world.rng
    names = (*NAMES[: rng.randrange(1, 4)], THREADS)
    for name in names:
        in_sync = rng.choice((1, 2))
        limit = rng.choice(SIZES)
        world.kafka.create_topic(
            name, rng.choice((1, 2, 3, 7)), min_insync_replicas=in_sync, max_message_bytes=limit
        )
    return names


def settings_of(
    world: World, topics: tuple[str, ...], interceptors: tuple[CountingInterceptor, ...]
) -> dict[str, Any]:
    """The settings of a life."""
    rng = world.rng
    settings: dict[str, Any] = {
        **_guarantees(world),
        "linger_ms": rng.choice((0, 0, 1, 20, 500)),
        "batch_size": rng.choice((0, 200, 1_000, 16_384, 131_072)),
        "buffer_memory": rng.choice((1_500, 5_000, 30_000, 30_000, 1_000_000)),
        "max_request_size": rng.choice((1_500, 10_000, 1_000_000)),
        "compression_type": rng.choice(("none", "none", "gzip", "lz4", "zstd", "snappy")),
        "delivery_timeout_ms": rng.choice((1_500, 3_000, 10_000, 60_000)),
        "request_timeout_ms": rng.choice((300, 1_000, 4_000)),
        "max_block_ms": rng.choice((0, 100, 1_000, 1_000, 10_000, 10_000, 10_000)),
        "retry_backoff_ms": rng.choice((0, 10, 100)),
        "linger_awaited": rng.random() < 0.3,
        "partitioner": partitioner(rng),
        "partitioner_ignore_keys": rng.random() < 0.1,
        "partitioner_adaptive_partitioning_enable": rng.random() < 0.5,
        "partitioner_availability_timeout_ms": rng.choice((0, 0, 500)),
        "key_serializer": key_serializer(rng),
        "value_serializer": value_serializer(rng),
        "interceptors": interceptors,
        "topics": topics if rng.random() < 0.5 else (),
    }
    if rng.random() < 0.2:
        settings["topic_buffer_limits"] = {rng.choice(topics): rng.choice((1_500, 4_000))}
    if rng.random() < 0.5:
        settings["close_timeout_ms"] = rng.choice((0, 200, 5_000))
    least = settings["linger_ms"] + settings["request_timeout_ms"]
    settings["delivery_timeout_ms"] = max(least, settings["delivery_timeout_ms"])
    return settings


def _guarantees(world: World) -> dict[str, Any]:
    rng = world.rng
    in_flight = rng.choice((1, 1, 2, 3, 5, 5))
    settings: dict[str, Any]
    if rng.random() < 0.4:
        settings = {"retries": rng.choice((1, 3, 2**31 - 1, 2**31 - 1)), "gapless": rng.random() < 0.15}
    else:
        settings = {
            "enable_idempotence": False,
            "acks": rng.choice((0, 1, 1, "all", "all")),
            "retries": rng.choice((0, 0, 1, 3, 2**31 - 1)),
        }
    return {**settings, "max_in_flight_requests_per_connection": in_flight}


def rules_of(producer: Producer[Any, Any]) -> Rules:
    """The promises under these settings, as far as a life tests them."""
    config = producer.config
    idempotent = config.enable_idempotence
    one_by_one = config.max_in_flight_requests_per_connection == 1 and config.acks != 0
    return Rules(
        duplicates=not idempotent and producer.stats().records_retried > 0,
        most_copies=config.retries + 1,
        disorder=not idempotent and not one_by_one,
        disorder_of_unknown=not idempotent,
        unordered=frozenset((THREADS,)),
        loss=config.acks == 0,
    )
