"""Addresses of brokers in text form: `host:port`, IPv6 in brackets."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

from aioproducer.config.shown import shown_value
from aioproducer.errors import PIECE_LIMIT, printable

__all__ = ["BootstrapServers", "Endpoint", "parse_endpoint", "parse_endpoints"]

_HOST = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_.])?")
_PORT = re.compile(r"[0-9]{1,5}")
MAX_HOST_LENGTH = 255  # of a domain name, RFC 1035 section 2.3.4


class Endpoint(NamedTuple):
    """One address; `host` is without brackets."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


BootstrapServers: TypeAlias = str | Sequence[str | Endpoint | tuple[str, int]]
"""`"host:port,host:port"`, or a sequence of `"host:port"`."""


def parse_endpoints(servers: object) -> tuple[Endpoint, ...]:
    """Every address in `servers`, in order, each once; `ValueError` names the invalid piece.

    Empty pieces (`"a:1,,b:2"`) are left out, as Kafka's clients do.
    """
    # One by one: an iterable may have no end.
    found = tuple(dict.fromkeys(_endpoint(piece) for item in _items(servers) for piece in _pieces(item)))
    if not found:
        raise ValueError("has no address: pass at least one 'host:port'")
    return found


def _items(servers: object) -> Iterable[object]:
    if isinstance(servers, str):
        return (servers,)
    if isinstance(servers, Iterable) and not isinstance(servers, bytes | bytearray | dict):
        return servers
    raise ValueError(
        f"must be 'host:port,host:port' or a sequence of addresses, not {type(servers).__name__}"
    )


def _pieces(item: object) -> Iterable[object]:
    if isinstance(item, str):
        return [piece for piece in map(str.strip, str.split(item, ",")) if piece]
    return (item,)


def _endpoint(piece: object) -> Endpoint:
    match piece:
        case str():
            return parse_endpoint(piece)
        case (str(host), int(port)) if not isinstance(port, bool):
            return parse_endpoint(str(Endpoint(host, port)))
    raise ValueError(f"{shown_value(piece) or type(piece).__name__} is not an address: write 'host:port'")


def parse_endpoint(piece: str) -> Endpoint:
    """The address in `piece`; `ValueError` names the mistake and the correct form."""
    shown = shown_value(piece, PIECE_LIMIT)
    if shown is None:
        raise ValueError("has the text of another setting, which is not shown: write 'host:port,host:port'")
    _refuse_urls(piece)
    host, colon, port = piece.rpartition(":")
    if not colon or piece.endswith("]"):
        raise ValueError(f"{shown} has no port: write 'host:port', such as {_example(piece)!r}")
    return Endpoint(_checked_host(host, shown), _checked_port(port, shown))


def _refuse_urls(piece: str) -> None:
    if "@" in piece:  # the text before it may be a password, and is not repeated
        where = printable(repr(piece.rpartition("@")[2]))
        raise ValueError(f"the address before {where} contains credentials: write only 'host:port'")
    if "://" in piece:
        address = piece.partition("://")[2]
        raise ValueError(f"{printable(repr(piece))} has a scheme: write {printable(repr(address))}")


def _example(piece: str) -> str:
    return printable(f"{piece.rstrip(':') or 'localhost'}:9092")


def _checked_port(port: str, shown: str) -> int:
    if _PORT.fullmatch(port) and 1 <= int(port) <= 65535:
        return int(port)
    raise ValueError(f"{shown} has an invalid port: use a number from 1 to 65535")


def _checked_host(host: str, shown: str) -> str:
    if host.startswith("[") and host.endswith("]"):
        return _checked_ipv6(host[1:-1], shown)
    if ":" in host:
        raise ValueError(f"{shown} has too many colons: write an IPv6 address in brackets, '[::1]:9092'")
    if not host:
        raise ValueError(f"{shown} has no host: write 'host:port'")
    if len(host) > MAX_HOST_LENGTH or not _HOST.fullmatch(host):
        raise ValueError(f"{shown} has an invalid host: use a domain name or an IP address")
    return host


def _checked_ipv6(host: str, shown: str) -> str:
    try:
        ipaddress.IPv6Address(host)
    except ValueError:
        raise ValueError(f"{shown} has no valid IPv6 address in its brackets") from None
    return host
