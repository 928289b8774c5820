"""The settings as keyword arguments, for type checkers and editors: wider than the stored values.

`Producer(bootstrap_servers, *, key_serializer=…, value_serializer=…, **settings: Unpack[Settings])` has the same
names as `ProducerConfig`; a test keeps them equal to the table.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypedDict

from aioproducer.config.endpoints import BootstrapServers
from aioproducer.config.security.brokers import AllowedBroker
from aioproducer.secret import GivenSecret, Secret

__all__ = ["Changes", "ConnectionSettings", "Settings"]


class ConnectionSettings(TypedDict, total=False):
    """The settings of calls that send no record: connections, timeouts and backoffs."""

    client_id: str
    client_dns_lookup: Literal["use_all_dns_ips"]
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
    allowed_brokers: AllowedBroker | Iterable[AllowedBroker] | None
    allow_plaintext_credentials: bool
    ssl_context: ssl.SSLContext | Callable[[], ssl.SSLContext] | None
    ssl_truststore_location: str | None
    ssl_truststore_type: Literal["JKS", "PKCS12", "PEM"]
    ssl_truststore_password: GivenSecret | None
    ssl_truststore_certificates: str | None
    ssl_keystore_location: str | None
    ssl_keystore_type: Literal["JKS", "PKCS12", "PEM"]
    ssl_keystore_password: GivenSecret | None
    ssl_key_password: GivenSecret | None
    ssl_keystore_key: GivenSecret | None
    ssl_keystore_certificate_chain: str | None
    ssl_endpoint_identification_algorithm: Literal["https", ""]
    ssl_enabled_protocols: str | Iterable[str]
    ssl_protocol: Literal["TLSv1.3", "TLSv1.2", "TLS"]
    ssl_cipher_suites: str | Iterable[str]
    sasl_mechanism: Literal["GSSAPI", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "AWS_MSK_IAM"]
    sasl_username: str | None
    sasl_password: GivenSecret | None
    sasl_scram_token_auth: bool
    sasl_scram_max_iterations: int
    sasl_jaas_config: str | Secret | None
    sasl_kerberos_service_name: str | None
    sasl_kerberos_principal: str | None
    sasl_kerberos_keytab: str | None
    sasl_token_provider: Callable[[], Any] | None
    sasl_extensions: Mapping[str, str] | None
    sasl_oauthbearer_token_endpoint_url: str | None
    sasl_oauthbearer_allowed_urls: str | Iterable[str] | None
    sasl_oauthbearer_client_credentials_client_id: str | None
    sasl_oauthbearer_client_credentials_client_secret: GivenSecret | None
    sasl_oauthbearer_scope: str | None
    sasl_oauthbearer_header_urlencode: bool
    sasl_oauthbearer_assertion_file: str | None
    sasl_oauthbearer_assertion_private_key_file: str | None
    sasl_oauthbearer_assertion_private_key_passphrase: GivenSecret | None
    sasl_oauthbearer_assertion_algorithm: Literal["RS256", "ES256"]
    sasl_oauthbearer_assertion_claim_iss: str | None
    sasl_oauthbearer_assertion_claim_sub: str | None
    sasl_oauthbearer_assertion_claim_aud: str | None
    sasl_oauthbearer_assertion_claim_exp_seconds: int
    sasl_oauthbearer_assertion_claim_nbf_seconds: int
    sasl_oauthbearer_assertion_claim_jti_include: bool
    sasl_oauthbearer_assertion_template_file: str | None
    sasl_oauthbearer_jwt_retriever_class: str
    sasl_login_connect_timeout_ms: int | None
    sasl_login_read_timeout_ms: int | None
    sasl_login_retry_backoff_ms: int
    sasl_login_retry_backoff_max_ms: int
    sasl_login_refresh_window_factor: float
    sasl_login_refresh_window_jitter: float
    sasl_login_refresh_min_period_seconds: int
    sasl_login_refresh_buffer_seconds: int
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
    tracing: Any
    enable_metrics_push: bool
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
