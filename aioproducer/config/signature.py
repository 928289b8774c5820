"""The settings as keyword arguments, for type checkers and editors: wider than the stored values.

`Producer(bootstrap_servers, *, key_serializer=…, value_serializer=…, **settings: Unpack[Settings])` has the same
names as `ProducerConfig`; a test keeps them equal to the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypedDict

from aioproducer.config.endpoints import BootstrapServers

__all__ = ["Changes", "ConnectionSettings", "Settings"]


class ConnectionSettings(TypedDict, total=False):
    """The settings of calls that send no record: connections, timeouts and backoffs."""

    client_id: str
    client_dns_lookup: Literal["use_all_dns_ips"]
    security_protocol: Literal["PLAINTEXT"]
    allow_plaintext_credentials: bool
    socket_connection_setup_timeout_ms: int
    socket_connection_setup_timeout_max_ms: int
    reconnect_backoff_ms: int
    reconnect_backoff_max_ms: int
    connections_max_idle_ms: int
    send_buffer_bytes: int
    receive_buffer_bytes: int
    request_timeout_ms: int
    max_block_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    transaction_timeout_ms: int


class Settings(ConnectionSettings, total=False):
    """Every setting except the servers and the serializers, which signatures name themselves."""

    acks: Literal["all", "-1", "0", "1", 0, 1, -1]
    enable_idempotence: bool
    max_in_flight_requests_per_connection: int
    delivery_timeout_ms: int
    close_timeout_ms: int
    retries: int
    gapless: bool
    transactional_id: str | None
    batch_size: int
    linger_ms: int
    linger_awaited: bool
    buffer_memory: int
    topic_buffer_limits: Mapping[str, int]
    max_request_size: int
    compression_type: Literal["none", "gzip", "snappy", "lz4", "zstd"]
    compression_level: int | None
    partitioner: Literal["default", "round_robin", "murmur3", "random"] | Callable[..., int | None]
    partitioner_ignore_keys: bool
    partitioner_adaptive_partitioning_enable: bool
    partitioner_availability_timeout_ms: int
    partitioner_rack_aware: bool
    client_rack: str | None
    interceptors: Iterable[Any]
    listeners: Iterable[Any]
    topics: Iterable[str]
    metadata_max_age_ms: int
    metadata_max_idle_ms: int
    metadata_recovery_strategy: Literal["rebootstrap", "none"]
    metadata_recovery_rebootstrap_trigger_ms: int


class Changes(Settings, total=False):
    """Every setting."""

    bootstrap_servers: BootstrapServers
    key_serializer: Any
    value_serializer: Any
