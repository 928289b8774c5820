"""The brokers that a producer may dial: the application can limit what a cluster advertises."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from aioproducer._state.connecting.endpoint import Origin, address_text
from aioproducer.errors import ProtocolError

if TYPE_CHECKING:
    from aioproducer._state.connecting.endpoint import BrokerEndpoint
    from aioproducer.config.security.brokers import AllowedBroker

__all__ = ["require_allowed"]


def require_allowed(
    endpoint: BrokerEndpoint,
    allowed: Collection[AllowedBroker] | None,
    bootstrap_servers: Collection[tuple[str, int]],
) -> None:
    """Raise ProtocolError for an advertised address that `allowed_brokers` leaves out. It is not looked up."""
    if allowed is None or endpoint.origin is not Origin.ADVERTISED or endpoint.address in bootstrap_servers:
        return
    why = _refusal(endpoint, allowed)
    if why:
        by = "" if endpoint.advertised_by is None else f"; it is advertised by {endpoint.advertised_by}"
        place = address_text(endpoint.host, endpoint.port)
        raise ProtocolError(f"{why} {place}{by}", broker=endpoint.name)


def _refusal(endpoint: BrokerEndpoint, allowed: Collection[AllowedBroker]) -> str:
    try:
        is_allowed = any(_matches(endpoint, each) for each in allowed)
    except Exception as error:  # noqa: BLE001  # of a function of the user
        return f"allowed_brokers raised {type(error).__name__} for"
    return "" if is_allowed else "allowed_brokers does not allow"


def _matches(endpoint: BrokerEndpoint, allowed: AllowedBroker) -> bool:
    if isinstance(allowed, str):
        return _is_like(endpoint.server_name.lower(), allowed.lower().removesuffix("."))
    if isinstance(allowed, ipaddress.IPv4Network | ipaddress.IPv6Network):
        address = _address(endpoint.host)
        return address is not None and address in allowed
    return bool(allowed(endpoint.host, endpoint.port))


def _is_like(host: str, pattern: str) -> bool:
    # `*` is the only special character.
    return fnmatchcase(host, re.sub(r"[\[?]", r"[\g<0>]", pattern))


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The address that a host is; one of IPv4 that is written as IPv6 counts as IPv4. None for a name."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
    return (address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None) or address
