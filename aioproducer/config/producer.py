"""The configuration of a producer: the table of all its settings, as one frozen object."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final, Self, Unpack, cast

import attrs

from aioproducer._codecs import CODECS, LEVELS
from aioproducer.config.callables import Interceptors, Partitioner, Serializer
from aioproducer.config.conflicts import TRANSACTION_TIMEOUT_MS, complete, conflicts
from aioproducer.config.endpoints import BootstrapServers, Endpoint
from aioproducer.config.kinds import (
    LONG_MAX,
    Acks,
    Addresses,
    Choice,
    Flag,
    Integer,
    Name,
    Optional,
    Text,
    TopicLimits,
    Topics,
)
from aioproducer.config.names import client_id_problem, transactional_id_problem
from aioproducer.config.properties import read_properties
from aioproducer.config.refused import refusal, unknown
from aioproducer.config.signature import Changes, ConnectionSettings, Settings
from aioproducer.config.table import DERIVED, REQUIRED, Group, Setting, complaint, rows, setting
from aioproducer.errors import ConfigurationError, printable

__all__ = ["SETTINGS", "ProducerConfig", "require_config"]

INT_MS = Integer(0, unit="milliseconds")
LONG_MS = Integer(0, LONG_MAX, unit="milliseconds")
IDLE_MS = Integer(-1, LONG_MAX, unit="milliseconds")
SOCKET_BYTES = Integer(-1, unit="bytes")


@attrs.frozen(init=False, repr=False)
class ProducerConfig:
    """All settings of a producer, checked together.

    `ProducerConfig("localhost:9092", linger_ms=20)` takes Kafka's producer properties with dots turned into
    underscores. Whatever is wrong is told at once, in one `ConfigurationError` with a line and a fix for each
    problem. Settings that end in `_ms` are whole milliseconds (int; a float is refused, because 1.5 is more likely to
    mean seconds). Making one touches no event loop, network, file or thread; `from_properties` reads the file that
    it is given, and nothing else.

    docs/configuration.md is made from this table.
    """

    # ---- connecting
    bootstrap_servers: tuple[Endpoint, ...] = setting(
        REQUIRED,
        Addresses(),
        Group.CONNECTING,
        "Brokers to ask first; they tell about all others. IPv6 addresses stand in brackets.",
        kafka_default=REQUIRED,
    )
    client_id: str = setting(
        "aioproducer",
        Name("1 to 255 bytes, printable", client_id_problem),
        Group.CONNECTING,
        "The name under which brokers log, count and limit this client.",
        kafka_default="",
        differs="Kafka numbers its producers when none is given",
    )
    client_dns_lookup: str = setting(
        "use_all_dns_ips",
        Choice(
            ("use_all_dns_ips",),
            {
                "resolve_canonical_bootstrap_servers_only": (
                    "reverse lookups serve Kerberos, which is not built: use 'use_all_dns_ips'"
                )
            },
        ),
        Group.CONNECTING,
        "Every address that a name resolves to is tried in turn.",
        differs="reverse lookups (`resolve_canonical_bootstrap_servers_only`) are refused",
    )
    security_protocol: str = setting(
        "PLAINTEXT",
        Choice(
            ("PLAINTEXT",),
            dict.fromkeys(
                ("SSL", "SASL_PLAINTEXT", "SASL_SSL"),
                "TLS and SASL are not built yet in this version: only 'PLAINTEXT' works",
            ),
        ),
        Group.CONNECTING,
        "How to talk to brokers.",
        differs="TLS and SASL are not built yet",
    )
    allow_plaintext_credentials: bool = setting(
        False,
        Flag(),
        Group.CONNECTING,
        "Whether a password or token may travel unencrypted. Nothing sends one yet.",
        kafka_default=None,
        differs="Kafka allows it always",
    )
    socket_connection_setup_timeout_ms: int = setting(
        10_000,
        LONG_MS,
        Group.CONNECTING,
        "How long one attempt to connect may take; doubles after each failure.",
    )
    socket_connection_setup_timeout_max_ms: int = setting(
        DERIVED,
        LONG_MS,
        Group.CONNECTING,
        "The most that the time for one attempt grows to: 30000, or `socket_connection_setup_timeout_ms` if larger.",
        kafka_default=30_000,
    )
    reconnect_backoff_ms: int = setting(
        50,
        LONG_MS,
        Group.CONNECTING,
        "The pause before a broker is tried again; doubles after each failure, ±20 %.",
    )
    reconnect_backoff_max_ms: int = setting(
        DERIVED,
        LONG_MS,
        Group.CONNECTING,
        "The longest pause before a broker is tried again: 1000, or `reconnect_backoff_ms` if that is larger.",
        kafka_default=1_000,
        differs="Kafka stops doubling when only `reconnect.backoff.ms` is given",
    )
    connections_max_idle_ms: int = setting(
        540_000, IDLE_MS, Group.CONNECTING, "A connection without traffic for so long is closed; -1 keeps it."
    )
    send_buffer_bytes: int = setting(
        131_072,
        SOCKET_BYTES,
        Group.CONNECTING,
        "The socket's send buffer; -1 leaves it to the operating system.",
    )
    receive_buffer_bytes: int = setting(
        32_768,
        SOCKET_BYTES,
        Group.CONNECTING,
        "The socket's receive buffer; -1 leaves it to the operating system.",
    )

    # ---- delivery
    acks: int = setting(
        -1,
        Acks(),
        Group.DELIVERY,
        "Who must have a record before it counts as written: all in-sync replicas (`'all'`, kept as -1), the leader (1), "
        "or nobody (0: it counts once handed to the socket, and its offset stays unknown).",
        kafka_default="all",
    )
    enable_idempotence: bool = setting(
        True,
        Flag(),
        Group.DELIVERY,
        "Retries make neither duplicates nor disorder. Needs `acks='all'`, `retries` of 1 or more and at most 5 requests "
        "in flight.",
        differs="a conflict is always an error; Kafka drops the guarantee in silence unless it was asked for by name",
    )
    max_in_flight_requests_per_connection: int = setting(
        5,
        Integer(1),
        Group.DELIVERY,
        "Requests on their way to one broker. Without idempotence, only 1 keeps the order through retries.",
    )
    delivery_timeout_ms: int = setting(
        DERIVED,
        INT_MS,
        Group.DELIVERY,
        "How long an accepted record may take until its fate is known, all retries included: 120000, or `linger_ms` + "
        "`request_timeout_ms` if that is larger. If given, it must not be less than that sum.",
        kafka_default=120_000,
    )
    request_timeout_ms: int = setting(
        30_000,
        INT_MS,
        Group.DELIVERY,
        "How long to wait for one answer; then the connection is closed and replaced.",
    )
    max_block_ms: int = setting(
        60_000,
        LONG_MS,
        Group.DELIVERY,
        "How long a call may wait to be accepted: for serializers, metadata and memory together.",
        differs="serializers count",
    )
    close_timeout_ms: int = setting(
        DERIVED,
        LONG_MS,
        Group.DELIVERY,
        "How long `close()` may take: `delivery_timeout_ms` unless given. On Kubernetes, set it below the grace period.",
        kafka_default=None,
        differs="Kafka waits for ever",
    )
    retries: int = setting(
        2**31 - 1,
        Integer(0),
        Group.DELIVERY,
        "How often a failed request is sent again. Better left alone: `delivery_timeout_ms` is the limit to set.",
    )
    retry_backoff_ms: int = setting(
        100, LONG_MS, Group.DELIVERY, "The pause before a retry; doubles after each failure, ±20 %."
    )
    retry_backoff_max_ms: int = setting(
        DERIVED,
        LONG_MS,
        Group.DELIVERY,
        "The longest pause before a retry: 1000, or `retry_backoff_ms` if that is larger.",
        kafka_default=1_000,
        differs="Kafka lowers `retry.backoff.ms` to it instead",
    )
    gapless: bool = setting(
        False,
        Flag(),
        Group.DELIVERY,
        "After a record of a partition is lost, fail all that was sent behind it instead of writing it past the gap, until "
        "somebody has looked at the failure: for outbox relays.",
        kafka_default=None,
    )

    # ---- transactions
    transactional_id: str | None = setting(
        None,
        Optional(Name("1 to 32767 bytes, printable", transactional_id_problem), "no transactions"),
        Group.TRANSACTIONS,
        "The name under which transactions survive this process: whoever initializes it next ends what is open, and fences "
        "the one before. Records can be sent only in transactions then.",
    )
    transaction_timeout_ms: int = setting(
        TRANSACTION_TIMEOUT_MS,
        INT_MS,
        Group.TRANSACTIONS,
        "How long a transaction may be open before its coordinator aborts it. Brokers allow at most their "
        "`transaction.max.timeout.ms`.",
    )

    # ---- batching
    batch_size: int = setting(
        131_072,
        Integer(0, unit="bytes"),
        Group.BATCHING,
        "A batch of one partition is sent at once when it has this many bytes; 0 sends each record alone.",
        kafka_default=16_384,
        differs="batches grow as they fill, so a large limit costs no memory, and requests are fewer",
    )
    linger_ms: int = setting(
        5,
        LONG_MS,
        Group.BATCHING,
        "How long a batch that is not full waits for more records. One that somebody awaits does not wait.",
        differs="an awaited record does not linger, see `linger_awaited`",
    )
    linger_awaited: bool = setting(
        False,
        Flag(),
        Group.BATCHING,
        "Let batches linger even while somebody awaits one of their records, as Kafka does.",
        kafka_default=None,
    )
    buffer_memory: int = setting(
        33_554_432,
        Integer(1, LONG_MAX, unit="bytes"),
        Group.BATCHING,
        "Memory for records on their way. When it is used up, calls wait. A record larger than this can never be sent.",
        differs="0 is refused: nothing could ever be sent",
    )
    topic_buffer_limits: tuple[tuple[str, int], ...] = setting(
        (),
        TopicLimits(),
        Group.BATCHING,
        "How much of `buffer_memory` the records of a topic may hold: `{'metrics': 1_000_000}`. Calls that wait for a "
        "topic's own limit hold up no other topic. In a properties file: `metrics:1000000,logs:5000000`.",
        kafka_default=None,
    )
    max_request_size: int = setting(
        1_048_576,
        Integer(1, unit="bytes"),
        Group.BATCHING,
        "The largest request, and the largest record before compression. Brokers have a limit of their own "
        "(`message.max.bytes`).",
        differs="0 is refused: nothing could ever be sent",
    )
    compression_type: str = setting(
        "none",
        Choice(tuple(CODECS)),
        Group.BATCHING,
        "How batches are compressed.",
    )
    compression_level: int | None = setting(
        None,
        Optional(
            Integer(
                min(levels.low for levels in LEVELS.values()), max(levels.high for levels in LEVELS.values())
            ),
            ", ".join(f"{codec} {levels.default}" for codec, levels in LEVELS.items()),
        ),
        Group.BATCHING,
        f"How hard to compress: {', '.join(f'{codec} {levels}' for codec, levels in LEVELS.items())}; "
        "snappy has no levels. In a properties file, "
        "Kafka's `compression.gzip.level`, `compression.lz4.level` and `compression.zstd.level` work as well: the one of "
        "the type in use counts.",
        kafka_default=None,
        differs="one setting in place of one for each type",
    )

    # ---- partitions
    partitioner: Any = setting(
        "default",
        Partitioner(("default", "round_robin", "murmur3", "random")),
        Group.PARTITIONING,
        "Who chooses the partition of a record that does not say it. The default hashes the key as Kafka's Java client "
        "does; records without a key stay with one partition for a batch, then move on.",
        kafka_default=None,
        differs="in place of `partitioner.class`",
    )
    partitioner_ignore_keys: bool = setting(
        False, Flag(), Group.PARTITIONING, "Choose as if no record had a key (the default partitioner only)."
    )
    partitioner_adaptive_partitioning_enable: bool = setting(
        True,
        Flag(),
        Group.PARTITIONING,
        "Records without a key go more often to partitions whose queues are short.",
    )
    partitioner_availability_timeout_ms: int = setting(
        0,
        LONG_MS,
        Group.PARTITIONING,
        "Records without a key avoid partitions of a broker that has taken nothing for so long; 0 turns that off.",
    )
    partitioner_rack_aware: bool = setting(
        False,
        Flag(),
        Group.PARTITIONING,
        "Records without a key go to partitions whose leader is in `client_rack`, while there are any.",
        kafka_default=None,
        differs="a property of later Kafka clients",
    )
    client_rack: str | None = setting(
        None,
        Optional(Text(), "not known"),
        Group.PARTITIONING,
        "The rack (availability zone) that this client runs in.",
        kafka_default=None,
        differs="a property of later Kafka clients",
    )

    # ---- pieces
    key_serializer: Any = setting(
        None,
        Optional(Serializer(), "keys are bytes"),
        Group.PIECES,
        "Makes the bytes of a key; may be a coroutine function. Counts towards `max_block_ms`.",
        kafka_default=REQUIRED,
        differs="optional",
    )
    value_serializer: Any = setting(
        None,
        Optional(Serializer(), "values are bytes"),
        Group.PIECES,
        "Makes the bytes of a value; may be a coroutine function. Counts towards `max_block_ms`.",
        kafka_default=REQUIRED,
        differs="optional",
    )
    interceptors: tuple[Any, ...] = setting(
        (),
        Interceptors(),
        Group.PIECES,
        "Objects that see each record before it is sent and each fate, in this order.",
        kafka_default=None,
        differs="in place of `interceptor.classes`",
    )

    # ---- metadata
    topics: tuple[str, ...] = setting(
        (),
        Topics(),
        Group.METADATA,
        "Topics to learn about at start, so that the first record finds them known.",
        kafka_default=None,
    )
    metadata_max_age_ms: int = setting(
        300_000, LONG_MS, Group.METADATA, "What is known of the cluster is read again after so long."
    )
    metadata_max_idle_ms: int = setting(
        300_000,
        Integer(5_000, LONG_MAX, unit="milliseconds"),
        Group.METADATA,
        "A topic that nothing was sent to for so long is forgotten.",
    )
    metadata_recovery_strategy: str = setting(
        "rebootstrap",
        Choice(("rebootstrap", "none")),
        Group.METADATA,
        "What to do when no known broker answers: begin again from `bootstrap_servers`, or keep trying those known.",
    )
    metadata_recovery_rebootstrap_trigger_ms: int = setting(
        300_000,
        LONG_MS,
        Group.METADATA,
        "Begin again also when nothing was learnt for so long; 0: at the first question that fails.",
    )

    given: frozenset[str] = attrs.field(eq=False, default=frozenset())
    """The settings that were given by name; `evolve` derives the others anew."""

    def __init__(
        self,
        bootstrap_servers: BootstrapServers,
        *,
        key_serializer: Any = None,
        value_serializer: Any = None,
        **settings: Unpack[Settings],
    ) -> None:
        # The dict is used up by the checks: no frame of a traceback keeps a secret given to a refused setting.
        values = cast("dict[str, Any]", settings)
        values["bootstrap_servers"] = bootstrap_servers
        pieces = {"key_serializer": key_serializer, "value_serializer": value_serializer}
        values.update((name, piece) for name, piece in pieces.items() if piece is not None)
        self._fill(values, [])

    def _fill(self, values: dict[str, Any], problems: list[str]) -> None:
        fields = _checked(values, problems)
        if problems:
            raise ConfigurationError(problems)
        self.__attrs_init__(**fields)

    @classmethod
    def _made(cls, values: dict[str, Any], problems: list[str]) -> Self:
        config = cls.__new__(cls)
        cls._fill(config, values, problems)
        return config

    @classmethod
    def from_properties(
        cls,
        source: Mapping[str, Any] | str | os.PathLike[str],
        **overrides: Unpack[Changes],
    ) -> Self:
        """A configuration from Kafka's dotted names, or from the Java `.properties` file at this path (UTF-8).

        `overrides` are settings by their Python names; one of them stands in for its property, also for one that
        would be refused: `from_properties(path, value_serializer=…)` for a file that names a class.
        """
        values = cast("dict[str, Any]", overrides)
        problems: list[str] = []
        read_properties(source, SETTINGS, values, problems)
        if "bootstrap_servers" not in values and not any("bootstrap.servers" in line for line in problems):
            problems.append("bootstrap.servers is missing: give at least one 'host:port'")
        return cls._made(values, problems)

    def evolve(self, **changes: Unpack[Changes]) -> Self:
        """A copy with these settings changed, checked like a new one; what was never given is derived anew."""
        values = {name: getattr(self, name) for name in self.given} | cast("dict[str, Any]", changes)
        return self._made(values, [])

    def __repr__(self) -> str:
        if not hasattr(self, "given"):  # a debugger or a traceback shows one whose checks failed
            return "<ProducerConfig, refused>"
        shown = [repr(",".join(map(str, self.bootstrap_servers)))]
        names = (name for name in SETTINGS if name in self.given and name != "bootstrap_servers")
        shown += [f"{name}={printable(repr(getattr(self, name)))}" for name in names]
        return f"ProducerConfig({', '.join(shown)})"


def require_config(config: object) -> None:
    """Refuse what is no configuration, such as a mapping of settings."""
    if not isinstance(config, ProducerConfig):
        raise ConfigurationError(f"from_config() takes a ProducerConfig, not {type(config).__name__}")


def require_connection_settings(settings: ConnectionSettings) -> None:
    """Refuse the settings of a producer that have no effect without records; what is no setting is found later."""
    others = [
        name for name in settings if name in SETTINGS and name not in ConnectionSettings.__annotations__
    ]
    if others:
        # No frame of a traceback keeps a secret.
        cast("dict[str, Any]", settings).clear()
        raise ConfigurationError(f"{name}: not a setting of connections; remove it here" for name in others)


SETTINGS: Final[Mapping[str, Setting]] = rows(ProducerConfig)


def _checked(values: dict[str, Any], problems: list[str]) -> dict[str, Any]:
    fields = _defaults()
    given = set()
    for name in list(values):
        row = SETTINGS.get(name)
        if row is None:
            del values[name]
            problems.append(refusal(name) or unknown(name, SETTINGS))
            continue
        given.add(name)
        try:
            fields[name] = row.kind.check(values[name])
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001  # of the user's: it is one problem among others
            problems.append(complaint(name, values[name], error))
    complete(fields)
    problems += conflicts(fields, given)
    return fields | {"given": frozenset(given)}


def _defaults() -> dict[str, Any]:
    return {name: row.default for name, row in SETTINGS.items() if row.default is not REQUIRED}
