"""The configuration of a producer: the table of all settings, as one frozen object."""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable, Mapping
from typing import Any, Final, Self, Unpack, cast

import attrs

from aioproducer._codecs import CODECS, LEVELS
from aioproducer.config.callables import Interceptors, Listeners, Partitioner, Serializer, Tracer
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
    Number,
    Optional,
    Text,
    TopicLimits,
    Topics,
)
from aioproducer.config.names import client_id_problem, transactional_id_problem
from aioproducer.config.properties import read_properties, written_in
from aioproducer.config.providers import ConfigProvider, checked_providers
from aioproducer.config.refused import refusal, unknown
from aioproducer.config.security.brokers import AllowedBroker, Brokers
from aioproducer.config.security.conflicts import filled_from_jaas
from aioproducer.config.security.kinds import (
    Ciphers,
    ContextSource,
    Extensions,
    Jaas,
    PemText,
    Protocols,
    Retriever,
    SecretText,
    StorePath,
    TokenProvider,
    Url,
    Urls,
)
from aioproducer.config.shown import Origin, shown_setting
from aioproducer.config.signature import Changes, ConnectionSettings, Settings
from aioproducer.config.table import DERIVED, REQUIRED, Group, Setting, complaint, rows, setting
from aioproducer.errors import ConfigurationError, printable
from aioproducer.secret import Secret, SecretSource

__all__ = ["SETTINGS", "ProducerConfig", "config_of_call", "require_config"]

INT_MS = Integer(0, unit="milliseconds")
LONG_MS = Integer(0, LONG_MAX, unit="milliseconds")
IDLE_MS = Integer(-1, LONG_MAX, unit="milliseconds")
SOCKET_BYTES = Integer(-1, unit="bytes")


@attrs.frozen(init=False, repr=False)
class ProducerConfig:
    """All settings of a producer, checked together.

    `ProducerConfig("localhost:9092", linger_ms=20)` takes Kafka's producer properties with dots turned into
    underscores. All problems are reported together, in one `ConfigurationError` with a line and a fix for each
    problem. Settings that end in `_ms` are whole milliseconds (int; a float is refused, because 1.5 is likely to
    mean seconds). The constructor uses no event loop, network, file or thread; `from_properties` reads the given
    file only.

    docs/configuration.md is generated from this table.
    """

    # ---- connecting
    bootstrap_servers: tuple[Endpoint, ...] = setting(
        REQUIRED,
        Addresses(),
        Group.CONNECTING,
        "Addresses of the first brokers; their metadata names all others. IPv6 addresses are in brackets.",
        kafka_default=REQUIRED,
    )
    client_id: str = setting(
        "aioproducer",
        Name("1 to 255 bytes, printable", client_id_problem),
        Group.CONNECTING,
        "The name of this client in the logs, metrics and quotas of brokers.",
        kafka_default="",
        differs="Kafka numbers its producers without one",
    )
    client_dns_lookup: str = setting(
        "use_all_dns_ips",
        Choice(
            ("use_all_dns_ips",),
            {
                "resolve_canonical_bootstrap_servers_only": (
                    "Kerberos takes the advertised names, without reverse lookups: use 'use_all_dns_ips'"
                )
            },
        ),
        Group.CONNECTING,
        "The producer tries every address of a name in turn.",
        differs="reverse lookups (`resolve_canonical_bootstrap_servers_only`) are refused",
    )
    socket_connection_setup_timeout_ms: int = setting(
        10_000,
        LONG_MS,
        Group.CONNECTING,
        "Time limit of one attempt to connect; doubles after each failure. An authentication has the rest of `request_timeout_ms`, and 30 s at most.",
    )
    socket_connection_setup_timeout_max_ms: int = setting(
        DERIVED,
        LONG_MS,
        Group.CONNECTING,
        "Largest time limit of one attempt to connect: 30000, or `socket_connection_setup_timeout_ms` if that is larger.",
        kafka_default=30_000,
    )
    reconnect_backoff_ms: int = setting(
        50,
        LONG_MS,
        Group.CONNECTING,
        "Pause before the next attempt to connect to a broker; doubles after each failure, ±20 %.",
    )
    reconnect_backoff_max_ms: int = setting(
        DERIVED,
        LONG_MS,
        Group.CONNECTING,
        "Longest pause before the next attempt to connect to a broker: 1000, or `reconnect_backoff_ms` if that is larger.",
        kafka_default=1_000,
        differs="Kafka does not double the pause when only `reconnect.backoff.ms` is set",
    )
    connections_max_idle_ms: int = setting(
        540_000,
        IDLE_MS,
        Group.CONNECTING,
        "Time without traffic after which a connection is closed; -1 keeps it open.",
    )
    send_buffer_bytes: int = setting(
        131_072,
        SOCKET_BYTES,
        Group.CONNECTING,
        "Size of the socket's send buffer; -1 leaves it to the operating system.",
    )
    receive_buffer_bytes: int = setting(
        32_768,
        SOCKET_BYTES,
        Group.CONNECTING,
        "Size of the socket's receive buffer; -1 leaves it to the operating system.",
    )

    # ---- security
    security_protocol: str = setting(
        "PLAINTEXT",
        Choice(("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")),
        Group.SECURITY,
        "Encryption (`SSL`) and authentication (`SASL`) of connections to brokers.",
    )
    allowed_brokers: tuple[AllowedBroker, ...] | None = setting(
        None,
        Optional(Brokers(), "all"),
        Group.SECURITY,
        "The brokers that the cluster may advertise; others are not looked up. Host names, where `*` stands for any text, "
        "networks (`10.0.0.0/8`) for addresses, or functions of host and port. `bootstrap_servers` are always allowed. It is "
        "an argument only, never a property.",
        kafka_default=None,
    )
    allow_plaintext_credentials: bool = setting(
        False,
        Flag(),
        Group.SECURITY,
        "Whether a password or token may be sent unencrypted, by PLAIN or OAUTHBEARER with `SASL_PLAINTEXT`.",
        kafka_default=None,
        differs="Kafka always allows it",
    )
    ssl_context: ssl.SSLContext | Callable[[], ssl.SSLContext] | None = setting(
        None,
        Optional(ContextSource(), "made of the settings below"),
        Group.SECURITY,
        "The TLS context; it takes the place of all other `ssl_*` settings. A callable is called in a thread for each connection.",
        kafka_default=None,
    )
    ssl_truststore_location: str | None = setting(
        None,
        Optional(StorePath(), "the certificates that the system trusts"),
        Group.SECURITY,
        "A file with the certificates that are trusted: PEM, JKS or PKCS #12 (extra `pkcs12`), as its content says. It is read again when it changes.",
    )
    ssl_truststore_type: str = setting(
        "JKS",
        Choice(("JKS", "PKCS12", "PEM")),
        Group.SECURITY,
        "Without effect: the content of the file decides.",
    )
    ssl_truststore_password: SecretSource | None = setting(
        None,
        Optional(SecretText(), "none"),
        Group.SECURITY,
        "The password of a trust store of JKS or PKCS #12.",
    )
    ssl_truststore_certificates: str | None = setting(
        None,
        Optional(PemText(), "none"),
        Group.SECURITY,
        "The certificates that are trusted, as PEM text, in place of a file.",
    )
    ssl_keystore_location: str | None = setting(
        None,
        Optional(StorePath(), "this client has no certificate"),
        Group.SECURITY,
        "A file with the key of this client and its certificates: PEM, JKS or PKCS #12 (extra `pkcs12`). It is read again when it changes.",
    )
    ssl_keystore_type: str = setting(
        "JKS",
        Choice(("JKS", "PKCS12", "PEM")),
        Group.SECURITY,
        "Without effect: the content of the file decides.",
    )
    ssl_keystore_password: SecretSource | None = setting(
        None, Optional(SecretText(), "none"), Group.SECURITY, "The password of the key store."
    )
    ssl_key_password: SecretSource | None = setting(
        None,
        Optional(SecretText(), "that of the key store"),
        Group.SECURITY,
        "The password of the key in the key store, or of `ssl_keystore_key`.",
    )
    ssl_keystore_key: SecretSource | None = setting(
        None,
        Optional(SecretText(), "none"),
        Group.SECURITY,
        "The key of this client as PEM text (PKCS #8), in place of a file.",
    )
    ssl_keystore_certificate_chain: str | None = setting(
        None,
        Optional(PemText(), "none"),
        Group.SECURITY,
        "The certificates of this client as PEM text, in place of a file.",
    )
    ssl_endpoint_identification_algorithm: str = setting(
        "https",
        Choice(("https", ""), {"none": "use '' to turn the check off, as in Kafka"}),
        Group.SECURITY,
        "`''` turns off the check that the certificate is that of the broker's host; a warning says so at the start.",
    )
    ssl_enabled_protocols: tuple[str, ...] = setting(
        ("TLSv1.2", "TLSv1.3"),
        Protocols(),
        Group.SECURITY,
        "The versions of TLS that are offered.",
    )
    ssl_protocol: str = setting(
        "TLSv1.3",
        Choice(("TLSv1.3", "TLSv1.2", "TLS")),
        Group.SECURITY,
        "Without effect: `ssl_enabled_protocols` decides.",
    )
    ssl_cipher_suites: tuple[str, ...] = setting(
        (),
        Ciphers(),
        Group.SECURITY,
        "The cipher suites of TLS 1.2, by the names of Java or of OpenSSL. None: those of OpenSSL.",
    )
    sasl_mechanism: str = setting(
        "GSSAPI",
        Choice(
            ("GSSAPI", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "AWS_MSK_IAM"),
        ),
        Group.SECURITY,
        "The SASL mechanism. No other one that the broker offers is used. GSSAPI needs the extra `kerberos`. `AWS_MSK_IAM` with "
        "`IAMLoginModule` stands for OAUTHBEARER with tokens of `aioproducer.auth.msk_iam`.",
    )
    sasl_username: str | None = setting(
        None,
        Optional(Text(), "none"),
        Group.SECURITY,
        "The user name of PLAIN and SCRAM.",
        kafka_default=None,
    )
    sasl_password: SecretSource | None = setting(
        None,
        Optional(SecretText(), "none"),
        Group.SECURITY,
        "The password of PLAIN and SCRAM. A file, variable or callable is read at each authentication.",
        kafka_default=None,
    )
    sasl_scram_token_auth: bool = setting(
        False,
        Flag(),
        Group.SECURITY,
        "Whether `sasl_username` and `sasl_password` are the id and the HMAC of a delegation token.",
        kafka_default=None,
    )
    sasl_scram_max_iterations: int = setting(
        1_000_000,
        Integer(4_096),
        Group.SECURITY,
        "The largest number of iterations of SCRAM that a broker may ask for: a million takes 0.3 to 0.5 s of a thread.",
        kafka_default=None,
    )
    sasl_jaas_config: Secret | None = setting(
        None,
        Optional(Jaas(), "none"),
        Group.SECURITY,
        "Kafka's login module with its options, as an alternative to the settings above. Nothing in it is loaded.",
    )
    sasl_kerberos_service_name: str | None = setting(
        None,
        Optional(Text(), "none"),
        Group.SECURITY,
        "The first part of the principals of the brokers, such as `kafka`; the second one is the advertised host.",
    )
    sasl_kerberos_principal: str | None = setting(
        None,
        Optional(Text(), "the first one of the key table or ticket cache"),
        Group.SECURITY,
        "The principal of this client, such as `orders@EXAMPLE.COM`.",
        kafka_default=None,
    )
    sasl_kerberos_keytab: str | None = setting(
        None,
        Optional(StorePath(), "none"),
        Group.SECURITY,
        "The key table that tickets are got with. Without one, they are those of the ticket cache.",
        kafka_default=None,
    )
    sasl_token_provider: Callable[[], Any] | None = setting(
        None,
        Optional(TokenProvider(), "none"),
        Group.SECURITY,
        "Gives the token of OAUTHBEARER; see `aioproducer.auth`. It is called before the former token expires.",
        kafka_default=None,
    )
    sasl_extensions: tuple[tuple[str, str], ...] | None = setting(
        None,
        Optional(Extensions(), "none"),
        Group.SECURITY,
        "The SASL extensions of OAUTHBEARER, such as `logicalCluster`.",
        kafka_default=None,
    )

    sasl_oauthbearer_token_endpoint_url: str | None = setting(
        None,
        Optional(Url(), "none"),
        Group.SECURITY,
        "The token endpoint of an identity provider, in place of `sasl_token_provider`.",
    )
    sasl_oauthbearer_allowed_urls: tuple[str, ...] | None = setting(
        None,
        Optional(Urls(), "each URL that is an argument, and none of a properties file"),
        Group.SECURITY,
        "The token endpoints that the other settings may name. It is an argument only, never a property.",
        kafka_default=None,
    )
    sasl_oauthbearer_client_credentials_client_id: str | None = setting(
        None, Optional(Text(), "none"), Group.SECURITY, "The name of this client at the token endpoint."
    )
    sasl_oauthbearer_client_credentials_client_secret: SecretSource | None = setting(
        None,
        Optional(SecretText(), "none"),
        Group.SECURITY,
        "The secret of this client at the token endpoint.",
    )
    sasl_oauthbearer_scope: str | None = setting(
        None, Optional(Text(), "none"), Group.SECURITY, "The scope that the token endpoint is asked for."
    )
    sasl_oauthbearer_header_urlencode: bool = setting(
        False,
        Flag(),
        Group.SECURITY,
        "Whether client id and secret are URL-encoded in the header, as RFC 6749 says.",
    )
    sasl_oauthbearer_assertion_file: str | None = setting(
        None,
        Optional(StorePath(), "none"),
        Group.SECURITY,
        "A file with a signed assertion, in place of the secret of this client. It is read for each token.",
    )
    sasl_oauthbearer_assertion_private_key_file: str | None = setting(
        None,
        Optional(StorePath(), "none"),
        Group.SECURITY,
        "A file with the private key (PEM) that signs assertions, in place of the secret of this client (extra `jwt`). It is "
        "read for each token.",
    )
    sasl_oauthbearer_assertion_private_key_passphrase: SecretSource | None = setting(
        None, Optional(SecretText(), "none"), Group.SECURITY, "The password of this private key."
    )
    sasl_oauthbearer_assertion_algorithm: str = setting(
        "RS256",
        Choice(("RS256", "ES256")),
        Group.SECURITY,
        "The algorithm that signs assertions: RSA, or ECDSA on the curve P-256.",
    )
    sasl_oauthbearer_assertion_claim_iss: str | None = setting(
        None, Optional(Text(), "none"), Group.SECURITY, "The issuer (`iss`) in signed assertions."
    )
    sasl_oauthbearer_assertion_claim_sub: str | None = setting(
        None, Optional(Text(), "none"), Group.SECURITY, "The subject (`sub`) in signed assertions."
    )
    sasl_oauthbearer_assertion_claim_aud: str | None = setting(
        None, Optional(Text(), "none"), Group.SECURITY, "The audience (`aud`) in signed assertions."
    )
    sasl_oauthbearer_assertion_claim_exp_seconds: int = setting(
        300, Integer(0, 86_400, unit="seconds"), Group.SECURITY, "Time for which a signed assertion is valid."
    )
    sasl_oauthbearer_assertion_claim_nbf_seconds: int = setting(
        60,
        Integer(0, 3_600, unit="seconds"),
        Group.SECURITY,
        "Time before its signature from which an assertion is valid, for clocks that differ.",
    )
    sasl_oauthbearer_assertion_claim_jti_include: bool = setting(
        False, Flag(), Group.SECURITY, "Whether each signed assertion has an identifier of its own (`jti`)."
    )
    sasl_oauthbearer_assertion_template_file: str | None = setting(
        None,
        Optional(StorePath(), "none"),
        Group.SECURITY,
        "A JSON file with further parts of signed assertions, as `header` and `payload`. They take the place of `iss`, `sub` "
        "and `aud` of the settings.",
    )
    sasl_oauthbearer_jwt_retriever_class: str = setting(
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever",
        Retriever(),
        Group.SECURITY,
        "The grant, by the name of Kafka's class: client credentials, or with `JwtBearerJwtRetriever` an assertion.",
    )
    sasl_login_connect_timeout_ms: int | None = setting(
        None,
        Optional(Integer(1, 10_000, unit="milliseconds"), "10 seconds"),
        Group.SECURITY,
        "Time for a connection to the token endpoint.",
    )
    sasl_login_read_timeout_ms: int | None = setting(
        None,
        Optional(Integer(1, 10_000, unit="milliseconds"), "10 seconds"),
        Group.SECURITY,
        "Time for an answer of the token endpoint.",
    )
    sasl_login_retry_backoff_ms: int = setting(
        100, LONG_MS, Group.SECURITY, "Pause before the token endpoint is asked again; it doubles each time."
    )
    sasl_login_retry_backoff_max_ms: int = setting(
        10_000,
        LONG_MS,
        Group.SECURITY,
        "Time after which the token endpoint is not asked again for the same authentication; at most 10 seconds are used.",
    )
    sasl_login_refresh_window_factor: float = setting(
        0.8, Number(0.5, 1.0), Group.SECURITY, "Part of the life of a token after which it is renewed."
    )
    sasl_login_refresh_window_jitter: float = setting(
        0.05, Number(0.0, 0.25), Group.SECURITY, "Random part of the life of a token that is added to it."
    )
    sasl_login_refresh_min_period_seconds: int = setting(
        60, Integer(0, 900, unit="seconds"), Group.SECURITY, "Least time between two renewals of a token."
    )
    sasl_login_refresh_buffer_seconds: int = setting(
        300, Integer(0, 3600, unit="seconds"), Group.SECURITY, "Least time before the end of a token."
    )

    # ---- delivery
    acks: int = setting(
        -1,
        Acks(),
        Group.DELIVERY,
        "Replicas that must have a record before it counts as written: all in-sync replicas (`'all'`, stored as -1), the leader (1), "
        "or none (0: the record counts as written when the socket has it, and its offset stays unknown).",
        kafka_default="all",
    )
    enable_idempotence: bool = setting(
        True,
        Flag(),
        Group.DELIVERY,
        "Retries cause neither duplicates nor reordering. Requires `acks='all'`, `retries` of 1 or more and at most 5 requests "
        "in flight.",
        differs="a conflict is always an error; Kafka turns idempotence off silently unless it is set explicitly",
    )
    max_in_flight_requests_per_connection: int = setting(
        5,
        Integer(1),
        Group.DELIVERY,
        "Largest number of unanswered requests to one broker. Without idempotence, only 1 keeps the order during retries.",
    )
    delivery_timeout_ms: int = setting(
        DERIVED,
        INT_MS,
        Group.DELIVERY,
        "Time limit for the outcome of an accepted record, all retries included: 120000, or `linger_ms` + "
        "`request_timeout_ms` if that is larger. An explicit value must not be less than that sum.",
        kafka_default=120_000,
    )
    request_timeout_ms: int = setting(
        30_000,
        INT_MS,
        Group.DELIVERY,
        "Time limit of one request; after it the connection is closed and replaced.",
    )
    max_block_ms: int = setting(
        60_000,
        LONG_MS,
        Group.DELIVERY,
        "Time limit for the acceptance of a record: serializers, metadata and memory together.",
        differs="it includes serializers",
    )
    close_timeout_ms: int = setting(
        DERIVED,
        LONG_MS,
        Group.DELIVERY,
        "Time limit of `close()`; `delivery_timeout_ms` by default. On Kubernetes, set it below the grace period.",
        kafka_default=None,
        differs="Kafka waits without a limit",
    )
    retries: int = setting(
        2**31 - 1,
        Integer(0),
        Group.DELIVERY,
        "Largest number of retries of a request. `delivery_timeout_ms` is the recommended limit.",
    )
    retry_backoff_ms: int = setting(
        100, LONG_MS, Group.DELIVERY, "Pause before a retry; doubles after each failure, ±20 %."
    )
    retry_backoff_max_ms: int = setting(
        DERIVED,
        LONG_MS,
        Group.DELIVERY,
        "Longest pause before a retry: 1000, or `retry_backoff_ms` if that is larger.",
        kafka_default=1_000,
        differs="Kafka lowers `retry.backoff.ms` to this value instead",
    )
    gapless: bool = setting(
        False,
        Flag(),
        Group.DELIVERY,
        "When a record of a partition is lost, the records behind it fail instead of being written past the gap, until the "
        "program reads the failure. For outbox relays.",
        kafka_default=None,
    )

    # ---- transactions
    transactional_id: str | None = setting(
        None,
        Optional(Name("1 to 32767 bytes, printable", transactional_id_problem), "no transactions"),
        Group.TRANSACTIONS,
        "Name of the transactions across restarts: the next producer that initializes it ends the open transaction and fences "
        "the previous producer. With it, records can only be sent in transactions.",
    )
    transaction_timeout_ms: int = setting(
        TRANSACTION_TIMEOUT_MS,
        INT_MS,
        Group.TRANSACTIONS,
        "Time after which the coordinator aborts an open transaction. Brokers allow at most their "
        "`transaction.max.timeout.ms`.",
    )

    # ---- batching
    batch_size: int = setting(
        131_072,
        Integer(0, unit="bytes"),
        Group.BATCHING,
        "Size of a full batch, which is sent at once; 0 sends each record alone.",
        kafka_default=16_384,
        differs="batches grow as they fill, so a large limit costs no memory and reduces the number of requests",
    )
    linger_ms: int = setting(
        5,
        LONG_MS,
        Group.BATCHING,
        "Longest time that a batch waits for more records if it is not full. When it is over for one batch, all that wait "
        "leave together. A batch with an awaited record does not wait.",
        differs="an awaited record does not linger, see `linger_awaited`",
    )
    linger_awaited: bool = setting(
        False,
        Flag(),
        Group.BATCHING,
        "Whether batches with an awaited record linger, as in Kafka.",
        kafka_default=None,
    )
    buffer_memory: int = setting(
        33_554_432,
        Integer(1, LONG_MAX, unit="bytes"),
        Group.BATCHING,
        "Memory for buffered records and records in flight. When it is full, calls wait. A larger record can never be sent.",
        differs="0 is refused, because no record could be sent",
    )
    topic_buffer_limits: tuple[tuple[str, int], ...] = setting(
        (),
        TopicLimits(),
        Group.BATCHING,
        "Parts of `buffer_memory` that the records of single topics may use: `{'metrics': 1_000_000}`. Calls that wait for a "
        "topic's own limit do not block other topics. In a properties file: `metrics:1000000,logs:5000000`.",
        kafka_default=None,
    )
    max_request_size: int = setting(
        1_048_576,
        Integer(1, unit="bytes"),
        Group.BATCHING,
        "Largest request, and largest record before compression. Brokers have a limit of their own "
        "(`message.max.bytes`).",
        differs="0 is refused, because no record could be sent",
    )
    compression_type: str = setting(
        "none",
        Choice(tuple(CODECS)),
        Group.BATCHING,
        "Compression of batches.",
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
        f"Compression level: {', '.join(f'{codec} {levels}' for codec, levels in LEVELS.items())}; "
        f"other types have no levels. In a properties file, Kafka's "
        f"{', '.join(f'`compression.{codec}.level`' for codec in LEVELS)} work as well: that of the type in use applies.",
        kafka_default=None,
        differs="one setting instead of one for each type",
    )

    # ---- partitions
    partitioner: Any = setting(
        "default",
        Partitioner(("default", "round_robin", "murmur3", "random")),
        Group.PARTITIONING,
        "Selects the partition of a record without one. The default hashes the key as Kafka's Java client "
        "does; records without a key go to one partition for the length of a batch, then to another.",
        kafka_default=None,
        differs="replaces `partitioner.class`",
    )
    partitioner_ignore_keys: bool = setting(
        False,
        Flag(),
        Group.PARTITIONING,
        "Treats every record as one without a key (the default partitioner only).",
    )
    partitioner_adaptive_partitioning_enable: bool = setting(
        True,
        Flag(),
        Group.PARTITIONING,
        "Prefers partitions with short queues for records without a key.",
    )
    partitioner_availability_timeout_ms: int = setting(
        0,
        LONG_MS,
        Group.PARTITIONING,
        "Time after which records without a key avoid the partitions of a broker that accepts no data; 0 turns this off.",
    )
    partitioner_rack_aware: bool = setting(
        False,
        Flag(),
        Group.PARTITIONING,
        "Sends records without a key to partitions whose leader is in `client_rack`, if there are any.",
        kafka_default=None,
        differs="a property of later Kafka clients",
    )
    client_rack: str | None = setting(
        None,
        Optional(Text(), "not known"),
        Group.PARTITIONING,
        "The rack (availability zone) of this client.",
        kafka_default=None,
        differs="a property of later Kafka clients",
    )

    # ---- pieces
    key_serializer: Any = setting(
        None,
        Optional(Serializer(), "keys are bytes"),
        Group.PIECES,
        "Converts a key to bytes; may be a coroutine function. Its time counts towards `max_block_ms`.",
        kafka_default=REQUIRED,
        differs="optional",
    )
    value_serializer: Any = setting(
        None,
        Optional(Serializer(), "values are bytes"),
        Group.PIECES,
        "Converts a value to bytes; may be a coroutine function. Its time counts towards `max_block_ms`.",
        kafka_default=REQUIRED,
        differs="optional",
    )
    interceptors: tuple[Any, ...] = setting(
        (),
        Interceptors(),
        Group.PIECES,
        "Objects that receive each record before it is sent, and each outcome, in this order.",
        kafka_default=None,
        differs="replaces `interceptor.classes`",
    )
    listeners: tuple[Any, ...] = setting(
        (),
        Listeners(),
        Group.PIECES,
        "Objects with `on_batch(report)`, called once for each batch with its outcome, or `on_connection(report)`, called for "
        "each change of a connection. They cost nothing per record.",
        kafka_default=None,
    )
    tracing: Any = setting(
        None,
        Optional(Tracer(), "no tracing"),
        Group.PIECES,
        "Adds the context of the call to the headers of each record, and makes spans of batches: a `Tracing` of "
        "`aioproducer.otel`, or another tracer.",
        kafka_default=None,
    )

    enable_metrics_push: bool = setting(
        True,
        Flag(),
        Group.PIECES,
        "Whether metrics are pushed to brokers that ask for them: no record, key or header, see "
        "[Observing](observing.md#what-leaves-the-program).",
    )

    # ---- metadata
    topics: tuple[str, ...] = setting(
        (),
        Topics(),
        Group.METADATA,
        "Topics whose metadata is loaded at start, so that the first record does not wait for it.",
        kafka_default=None,
    )
    metadata_max_age_ms: int = setting(
        300_000, LONG_MS, Group.METADATA, "Age at which the metadata of the cluster is reloaded."
    )
    metadata_max_idle_ms: int = setting(
        300_000,
        Integer(5_000, LONG_MAX, unit="milliseconds"),
        Group.METADATA,
        "Time without records after which a topic is forgotten.",
    )
    metadata_recovery_strategy: str = setting(
        "rebootstrap",
        Choice(("rebootstrap", "none")),
        Group.METADATA,
        "Recovery when no known broker answers: begin again from `bootstrap_servers`, or keep trying the known brokers.",
    )
    metadata_recovery_rebootstrap_trigger_ms: int = setting(
        300_000,
        LONG_MS,
        Group.METADATA,
        "Time without metadata after which the producer also begins again; 0: at the first failed request.",
    )

    given: frozenset[str] = attrs.field(eq=False, default=frozenset())
    """The settings that were set explicitly; `evolve` derives the others anew."""

    def __init__(
        self,
        bootstrap_servers: BootstrapServers,
        *,
        key_serializer: Any = None,
        value_serializer: Any = None,
        **settings: Unpack[Settings],
    ) -> None:
        # The checks empty the dict: no frame of a traceback keeps a secret that was passed to a refused setting.
        values = cast("dict[str, Any]", settings)
        values["bootstrap_servers"] = bootstrap_servers
        pieces = {"key_serializer": key_serializer, "value_serializer": value_serializer}
        values.update((name, piece) for name, piece in pieces.items() if piece is not None)
        del bootstrap_servers, key_serializer, value_serializer, pieces
        self._fill(values, [])

    def _fill(self, values: dict[str, Any], problems: list[str]) -> None:
        fields = _checked(values, problems)
        # No frame of a traceback keeps the objects of the user: a function may be bound to a secret.
        values.clear()
        if problems:
            fields.clear()
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
        *,
        providers: Mapping[str, ConfigProvider] | None = None,
        **overrides: Unpack[Changes],
    ) -> Self:
        """A configuration from Kafka's dotted names, or from the Java `.properties` file at this path (UTF-8).

        `providers` replace references such as `${file:/run/secrets/kafka.properties:password}`, by their names.
        `overrides` are settings by their Python names. Each replaces its property, also a property that
        would be refused: `from_properties(path, value_serializer=…)` with a file that names a class.
        """
        values = cast("dict[str, Any]", overrides)
        problems: list[str] = []
        try:
            checked = checked_providers(providers)
            read_properties(written_in(source), SETTINGS, values, problems, checked)
        except BaseException:
            values.clear()
            raise
        finally:
            # No frame of a traceback keeps a secret.
            del source, providers
            checked = {}
        if "bootstrap_servers" not in values and not any("bootstrap.servers" in line for line in problems):
            problems.append("bootstrap.servers is missing: set at least one 'host:port'")
        return cls._made(values, problems)

    def evolve(self, **changes: Unpack[Changes]) -> Self:
        """A copy with these settings changed, checked like a new one; settings that were not set are derived anew."""
        changed = cast("dict[str, Any]", changes)
        # The changes first: an error tells the number of an argument.
        values = changed | {name: getattr(self, name) for name in self.given if name not in changed}
        # No frame of a traceback keeps a secret.
        changed.clear()
        return self._made(values, [])

    def __repr__(self) -> str:
        if not hasattr(self, "given"):  # a debugger or a traceback shows an object whose checks failed
            return "<ProducerConfig, refused>"
        shown = [repr(",".join(map(str, self.bootstrap_servers)))]
        names = (name for name in SETTINGS if name in self.given and name != "bootstrap_servers")
        shown += [f"{name}={printable(shown_setting(name, getattr(self, name)))}" for name in names]
        return f"ProducerConfig({', '.join(shown)})"


def config_of_call(bootstrap_servers: BootstrapServers, settings: ConnectionSettings) -> ProducerConfig:
    """The configuration of a call that takes settings. It empties them: no frame of a traceback keeps a secret."""
    try:
        return ProducerConfig(bootstrap_servers, **settings)
    finally:
        cast("dict[str, Any]", settings).clear()
        del bootstrap_servers


def require_config(config: object) -> None:
    """Refuse an object that is not a configuration, such as a mapping of settings."""
    if not isinstance(config, ProducerConfig):
        kind = type(config).__name__
        # No frame of a traceback keeps a mapping of settings.
        del config
        raise ConfigurationError(f"from_config() takes a ProducerConfig, not {kind}")


def require_connection_settings(settings: ConnectionSettings) -> None:
    """Refuse the settings of a producer that have no effect without records; unknown names are refused later."""
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
    for number, name in enumerate(list(values), start=1):
        row = SETTINGS.get(name)
        if row is None:
            place = Origin(f"argument {number}")
            problems.append(refusal(name) or unknown(name, values.pop(name), place, SETTINGS))
            continue
        given.add(name)
        try:
            fields[name] = _checked_value(row, values, name)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001  # an object of the user raised: one problem among others
            problems.append(complaint(name, values.get(name), error, hides=row.hides))
    complete(fields)
    problems += conflicts(fields, given, problems)
    if fields["sasl_jaas_config"] is not None:
        # A changed copy derives them from its own JAAS string.
        given.difference_update(filled_from_jaas(fields))
    return fields | {"given": frozenset(given)}


def _checked_value(row: Setting, values: dict[str, Any], name: str) -> Any:
    # A secret leaves the dict: no frame of a traceback keeps it.
    return row.kind.check(values.pop(name) if row.hides else values[name])


def _defaults() -> dict[str, Any]:
    return {name: row.default for name, row in SETTINGS.items() if row.default is not REQUIRED}
