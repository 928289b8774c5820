"""The options of an embedded cluster."""

from __future__ import annotations

from typing import Final

import attrs

MOST_PARTITIONS: Final = 100_000


@attrs.frozen(kw_only=True)
class Options:
    """The options of an embedded cluster."""

    auto_create_topics: bool = True
    """Create a missing topic on a metadata request, as `auto.create.topics.enable`."""
    default_partitions: int = 1
    replication_factor: int | None = None
    """The default of new topics; None: the number of brokers, at most 3."""
    transaction_version: int = 2
    """The finalized level of the feature `transaction.version`; `kafka.set_transaction_version` changes it."""
    transaction_max_timeout_ms: int = 900_000
    """The longest time limit that a transaction may have, as `transaction.max.timeout.ms`."""
    marker_delay: float = 0.0
    """Seconds between the end of a transaction and its markers in the logs; 0: they are there before the answer."""
    producer_expiration: float = 86_400.0
    """Seconds after which a partition forgets a producer, as `producer.id.expiration.ms`."""
    transactional_id_expiration: float = 604_800.0
    """Seconds after which the coordinators forget a transactional id that is not used, as `transactional.id.expiration.ms`."""
    offsets_retention: float = 604_800.0
    """Seconds after which a group without members forgets an offset, as `offsets.retention.minutes`."""
    validate_records: bool = False
    """Parse each produced batch and refuse what does not agree with its header (slow)."""
    max_request_bytes: int = 104_857_600
    """A longer request closes the connection, as `socket.request.max.bytes`."""
    telemetry: bool = False
    """Take metrics of clients, as a Kafka with a receiver of them; `kafka.subscribe_metrics` asks for them."""
    telemetry_max_bytes: int = 1_048_576
    """The longest push of metrics, as `telemetry.max.bytes`."""
    history: int = 10_000
    """How many requests `kafka.requests` keeps."""
    seed: int = 0
    """Of the topic ids."""


def check_whole(name: str, number: object, least: int, most: int) -> None:
    """Refuse values other than a whole number from `least` to `most`."""
    if type(number) is not int or not least <= number <= most:
        raise ValueError(f"{name}={number!r:.60}: must be a whole number from {least} to {most}")
