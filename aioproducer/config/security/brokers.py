"""The brokers that a cluster may advertise, as the application names them."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Final, TypeAlias

from aioproducer.config.callables import gives_coroutine

__all__ = ["AllowedBroker", "Brokers"]

_MOST: Final = 100
_HOST_PATTERN = re.compile(r"[A-Za-z0-9_.*-]{1,255}")
AllowedBroker: TypeAlias = str | ipaddress.IPv4Network | ipaddress.IPv6Network | Callable[[str, int], bool]
"""A pattern of host names, a network, or a function of host and port."""


class Brokers:
    """Brokers that may be dialed: patterns of host names, networks, and functions of host and port."""

    holds_objects: ClassVar[bool] = True
    range: Final = "host names, where `*` stands for any text, networks, or functions of host and port"

    def check(self, value: Any) -> tuple[AllowedBroker, ...]:
        is_one = isinstance(value, str | ipaddress.IPv4Network | ipaddress.IPv6Network) or callable(value)
        pieces = [piece for each in ([value] if is_one else _some(value)) for piece in _split(each)]
        found = tuple(dict.fromkeys(map(_broker, pieces)))
        if not found:
            raise ValueError("must be at least one host name or network, such as '*.kafka.example'")
        return found

    def parse(self, text: str) -> str:
        return text


def _some(values: Any) -> Iterator[Any]:
    if isinstance(values, bytes) or not hasattr(values, "__iter__"):
        raise ValueError("must be a sequence of host names, networks and functions")
    for number, value in enumerate(values):  # one by one: an iterable may have no end
        if number == _MOST:
            raise ValueError(f"must be at most {_MOST} host names, networks and functions")
        yield value


def _split(value: Any) -> list[Any]:
    return (
        [piece for piece in map(str.strip, value.split(",")) if piece] if isinstance(value, str) else [value]
    )


def _broker(value: Any) -> AllowedBroker:
    if isinstance(value, ipaddress.IPv4Network | ipaddress.IPv6Network):
        return value
    if not isinstance(value, str):
        if not callable(value) or isinstance(value, type) or gives_coroutine(value):
            raise ValueError("must be host names, networks, and functions of host and port")
        return value  # type: ignore[no-any-return]  # its result is read as True or False
    try:
        return ipaddress.ip_network(value)
    except ValueError:
        pass
    if not _HOST_PATTERN.fullmatch(value):
        raise ValueError("has a host name or network that cannot be: write '*.kafka.example' or '10.0.0.0/8'")
    return value
