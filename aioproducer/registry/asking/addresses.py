"""The addresses of a registry, and the credentials that a URL has brought along."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any, Final
from urllib.parse import SplitResult, quote, unquote, urlsplit

import attrs

from aioproducer.errors import ConfigurationError

__all__ = ["Address", "parse_urls", "path_of"]

# Of an iterator without an end, no more are read.
MOST_URLS: Final = 1_000


@attrs.frozen
class Address:
    """One server of a registry: its base URL without credentials, and these."""

    base: str
    user: str | None = None
    password: str | None = attrs.field(default=None, repr=False)


def parse_urls(urls: str | Iterable[str]) -> tuple[Address, ...]:
    """The addresses in a string, separated by commas, or in a sequence of strings."""
    given: list[Any]
    try:
        given = urls.split(",") if isinstance(urls, str) else list(islice(urls, MOST_URLS))
    except Exception:  # noqa: BLE001  # of any object: a memoryview that was released has a SystemError
        given = [urls]
    if not all(isinstance(each, str) for each in given):
        raise ConfigurationError("urls: must be a string, or a sequence of strings")
    found = tuple(_address(number, each.strip()) for number, each in enumerate(given, 1) if each.strip())
    if not found:
        raise ConfigurationError("urls: must have at least one address, such as http://localhost:8081")
    return found


def _address(number: int, url: str) -> Address:
    # No error has the text of a URL: it may hold a password.
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise ConfigurationError(f"urls: address {number} is not a URL") from None
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ConfigurationError(
            f"urls: address {number} must begin with http:// or https:// and have a host"
        )
    if parts.query or parts.fragment:
        raise ConfigurationError(
            f"urls: address {number} has a query or a fragment, which a registry has no use for"
        )
    if not url.isprintable() or " " in url:
        raise ConfigurationError(f"urls: address {number} has blanks or characters that are not printable")
    base = f"{parts.scheme}://{_host(parts)}{parts.path.rstrip('/')}"
    if parts.username is None and parts.password is None:
        return Address(base)
    return Address(base, unquote(parts.username or ""), unquote(parts.password or ""))


def _host(parts: SplitResult) -> str:
    return parts.netloc.rpartition("@")[2]


def path_of(*parts: str | int) -> str:
    """The path of a resource: each part is percent-encoded, "/" too."""
    return "".join(f"/{_encoded(str(part))}" for part in parts)


def _encoded(part: str) -> str:
    # Clients and proxies take these for steps in the path.
    if part in {".", ".."}:
        return part.replace(".", "%2E")
    try:
        return quote(part, safe="")
    except UnicodeEncodeError:
        raise ConfigurationError(f"a registry has no name with a lone surrogate: {part!r}") from None
