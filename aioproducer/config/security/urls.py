"""URLs that a secret may be sent to."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from urllib.parse import SplitResult, urlsplit

__all__ = ["check_url", "is_allowed"]

_PRINTABLE = re.compile(r"[\x21-\x7e]+")
_HOST = re.compile(r"[A-Za-z0-9._:-]+")


def check_url(text: str) -> None:
    """Refuse a URL that a secret cannot be sent to, with a ValueError. It does not show the URL, which may have a password."""
    if not _PRINTABLE.fullmatch(text):
        raise ValueError("must be a URL of ASCII characters without spaces")
    parts = _split(text)
    if parts is None or parts.scheme != "https":
        raise ValueError("must be a URL that begins with https://")
    if "@" in parts.netloc:
        raise ValueError("must be a URL without user name and password")
    if not _HOST.fullmatch(parts.hostname or ""):
        raise ValueError("must be a URL with a host name")
    if parts.fragment:
        raise ValueError("must be a URL without a fragment (#)")


def is_allowed(url: str, patterns: Iterable[str]) -> bool:
    """Whether one of the patterns matches. `*` in a host name matches no part of a path."""
    return any(_matches(url, pattern) for pattern in patterns)


def _matches(url: str, pattern: str) -> bool:
    place, target = _parts(url)
    wanted_place, wanted_target = _parts(pattern)
    return _is_like(place, wanted_place) and _is_like(target, wanted_target)


def _is_like(text: str, pattern: str) -> bool:
    # `*` is the only special character: brackets and question marks belong to addresses and queries.
    return fnmatchcase(text, re.sub(r"[\[?]", r"[\g<0>]", pattern))


def _parts(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.netloc.lower().removesuffix(":443"), f"{parts.path or '/'}?{parts.query}"


def _split(text: str) -> SplitResult | None:
    try:
        parts = urlsplit(text)
        _ = parts.port  # ValueError for one that cannot be
    except ValueError:
        return None
    return None if parts.port == 0 else parts
