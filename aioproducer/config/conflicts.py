"""Settings that depend on each other: derived defaults, and invalid combinations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from aioproducer._codecs import LEVELS
from aioproducer.config.security.conflicts import fill_from_jaas, security_problems
from aioproducer.config.table import DERIVED

__all__ = ["complete", "conflicts"]

IDEMPOTENT_IN_FLIGHT = 5  # a broker remembers this many batches of a producer in each partition
TRANSACTION_TIMEOUT_MS = 60_000
_DECIDING = {
    "security_protocol": ("ssl_", "sasl_", "allow_plaintext_credentials"),
    "sasl_mechanism": ("sasl_",),
    "sasl_jaas_config": ("sasl_",),
    "sasl_oauthbearer_token_endpoint_url": ("sasl_",),
    "sasl_token_provider": ("sasl_token_provider",),
    "sasl_password": ("sasl_password",),
    "sasl_username": ("sasl_username",),
    "ssl_keystore_certificate_chain": ("ssl_keystore_certificate_chain",),
    "ssl_keystore_key": ("ssl_keystore_key",),
}
CEILINGS = {
    "reconnect_backoff_max_ms": ("reconnect_backoff_ms", 1_000),
    "retry_backoff_max_ms": ("retry_backoff_ms", 1_000),
    "socket_connection_setup_timeout_max_ms": ("socket_connection_setup_timeout_ms", 30_000),
}


def complete(fields: dict[str, Any]) -> None:
    """Fill in the defaults that depend on other settings."""
    for name, (start, ceiling) in CEILINGS.items():
        _default(fields, name, max(ceiling, fields[start]))
    _default(fields, "delivery_timeout_ms", max(120_000, fields["linger_ms"] + fields["request_timeout_ms"]))
    _default(fields, "close_timeout_ms", fields["delivery_timeout_ms"])
    fill_from_jaas(fields)


def _default(fields: dict[str, Any], name: str, value: int) -> None:
    if fields[name] is DERIVED:
        fields[name] = value


def conflicts(fields: Mapping[str, Any], given: AbstractSet[str], problems: Sequence[str]) -> list[str]:
    """One line, with its fix, for each invalid combination. `problems` are those of single settings."""
    # A setting that is wrong has its default, and the settings that depend on it would seem to be wrong as well.
    names = [line.replace(".", "_") for line in problems]
    unknown = tuple(
        prefix
        for setting, dependent in _DECIDING.items()
        if any(name.startswith(setting) for name in names)
        for prefix in dependent
    )
    return [line for rule in RULES for line in rule(fields, given) if not line.startswith(unknown)]


def _idempotence(fields: Mapping[str, Any], given: AbstractSet[str]) -> Iterator[str]:
    if not fields["enable_idempotence"]:
        return
    default = "" if "enable_idempotence" in given else " (the default)"
    needs = (
        ("acks", fields["acks"] == -1, "acks='all'"),
        ("retries", fields["retries"] > 0, "retries of 1 or more"),
        (
            "max_in_flight_requests_per_connection",
            fields["max_in_flight_requests_per_connection"] <= IDEMPOTENT_IN_FLIGHT,
            f"max_in_flight_requests_per_connection of at most {IDEMPOTENT_IN_FLIGHT}",
        ),
    )
    for name, holds, need in needs:
        if not holds:
            yield (
                f"{name}={fields[name]}: enable_idempotence=True{default} requires {need}: "
                "change it, or give up the guarantee with enable_idempotence=False"
            )


def _transactions(fields: Mapping[str, Any], given: AbstractSet[str]) -> Iterator[str]:
    name = fields["transactional_id"]
    if name is not None and not fields["enable_idempotence"]:
        yield (
            "enable_idempotence=False: transactional_id requires idempotence: remove enable_idempotence, or transactional_id"
        )
    timeout = fields["transaction_timeout_ms"]
    if name is None and timeout != TRANSACTION_TIMEOUT_MS:
        yield f"transaction_timeout_ms={timeout}: requires transactional_id: set it, or remove transaction_timeout_ms"


def _gapless(fields: Mapping[str, Any], given: AbstractSet[str]) -> Iterator[str]:
    ordered = fields["enable_idempotence"] or fields["max_in_flight_requests_per_connection"] == 1
    if fields["gapless"] and not ordered:
        yield (
            "gapless=True: requires enable_idempotence=True, or max_in_flight_requests_per_connection=1: with several requests "
            "in flight a broker would accept the requests behind a lost one"
        )
    if fields["gapless"] and not fields["acks"]:
        yield "gapless=True: with acks=0 a loss is not detected: use acks='all'"


def _delivery_timeout(fields: Mapping[str, Any], given: AbstractSet[str]) -> Iterator[str]:
    linger, request, delivery = (
        fields[name] for name in ("linger_ms", "request_timeout_ms", "delivery_timeout_ms")
    )
    if delivery < linger + request:
        yield (
            f"delivery_timeout_ms={delivery}: must be at least linger_ms + request_timeout_ms ({linger} + {request}): "
            f"use {linger + request} or more, or lower one of the two"
        )


def _ceilings(fields: Mapping[str, Any], given: AbstractSet[str]) -> Iterator[str]:
    for name, (start, _) in CEILINGS.items():
        if fields[name] < fields[start]:
            yield f"{name}={fields[name]}: must be at least {start}={fields[start]}: raise it, or lower {start}"


def _compression_level(fields: Mapping[str, Any], given: AbstractSet[str]) -> Iterator[str]:
    level, kind = fields["compression_level"], fields["compression_type"]
    if level is None:
        return
    if kind not in LEVELS:
        yield f"compression_level={level}: compression_type={kind!r} has no levels: remove compression_level"
        return
    levels = LEVELS[kind]
    if not levels.low <= level <= levels.high:
        yield f"compression_level={level}: must be {levels.low} to {levels.high} with compression_type={kind!r}"


def _rack(fields: Mapping[str, Any], given: AbstractSet[str]) -> Iterator[str]:
    if fields["partitioner_rack_aware"] and fields["client_rack"] is None:
        yield "partitioner_rack_aware=True: requires client_rack, the rack that this client runs in"


RULES: tuple[Callable[[Mapping[str, Any], AbstractSet[str]], Iterator[str]], ...] = (
    _idempotence,
    _transactions,
    _gapless,
    _delivery_timeout,
    _ceilings,
    _compression_level,
    _rack,
    security_problems,
)
