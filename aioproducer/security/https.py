"""Messages of HTTP/1.1 to a server that is trusted with a secret: a request as text, and the head of an answer."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

import attrs

from aioproducer.secret import Secret

__all__ = ["LARGEST", "Answer", "Head", "HttpsUrl", "head_in", "https_url", "post", "size_of_chunk"]

LARGEST = 64 * 1024
_MOST_FIELDS = 500
_STATUS = re.compile(rb"HTTP/1\.[01] ([0-9]{3})(?: [^\r\n]*)?")
_SIZE = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*(?:;[^\r\n]*)?\r\n")
_DIGITS = re.compile(r"[0-9]{1,9}")


@attrs.frozen
class HttpsUrl:
    """An address of a server, and the path there."""

    host: str
    port: int
    target: str

    @property
    def authority(self) -> str:
        """Host and port, as the header `Host` has them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == 443 else f"{host}:{self.port}"


@attrs.frozen
class Head:
    """The status of an answer, and what tells the end of its body: a number of bytes, chunks, or the end of the connection."""

    status: int
    length: int | None
    is_chunked: bool


@attrs.frozen
class Answer:
    """An answer. Its body may have a secret, so the repr does not show it."""

    status: int
    body: bytes = attrs.field(repr=False)


def https_url(text: str) -> HttpsUrl:
    """The parts of a URL that the settings accept."""
    parts = urlsplit(text)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return HttpsUrl(parts.hostname or "", parts.port or 443, target)


def post(url: HttpsUrl, headers: Mapping[str, str], body: str) -> Secret:
    """A request that ends its connection. All texts are ASCII."""
    fields = {
        "Host": url.authority,
        "Accept": "application/json",
        "Connection": "close",
        "Content-Type": "application/x-www-form-urlencoded",
        "Content-Length": str(len(body)),
        **headers,
    }
    lines = [f"POST {url.target} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items())]
    return Secret("\r\n".join([*lines, "", body]))


def head_in(data: bytes) -> Head:
    """The head of an answer, with the empty line at its end; ValueError if it is none."""
    first, *lines = data.removesuffix(b"\r\n\r\n").split(b"\r\n")
    status = _STATUS.fullmatch(first)
    if status is None:
        raise ValueError("the answer is not HTTP")
    if len(lines) > _MOST_FIELDS:
        raise ValueError(f"the answer has more than {_MOST_FIELDS} fields")
    fields = dict(map(_field, lines))
    length = fields.get("content-length")
    if length is not None and (not _DIGITS.fullmatch(length) or int(length) > LARGEST):
        raise ValueError(f"the answer has no valid length, or more than {LARGEST} bytes")
    is_chunked = fields.get("transfer-encoding", "").lower() == "chunked"
    return Head(int(status[1]), None if length is None else int(length), is_chunked)


def size_of_chunk(line: bytes) -> int:
    """The size in the line before a chunk; ValueError if it is none."""
    found = _SIZE.fullmatch(line)
    if found is None:
        raise ValueError("the answer has a chunk without a size")
    return int(found[1], 16)


def _field(line: bytes) -> tuple[str, str]:
    name, _, value = line.decode("latin-1").partition(":")
    return name.lower(), value.strip()
