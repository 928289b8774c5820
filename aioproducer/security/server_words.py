"""Words of servers without the secrets that they repeat, whatever form the words have."""

from __future__ import annotations

import base64
import html
import json
import re
import urllib.parse
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final

from aioproducer.secret import HIDDEN, Secret

__all__ = ["without_secrets"]

# An error shows no more of them.
_LONGEST: Final = 1_000
# Fewer characters may be a part of any word.
_FEWEST: Final = 4
# A form within a form within a form, and so on.
_ROUNDS: Final = 4
# With many escapes in the words, each one takes a quarter of a millisecond of the loop.
_MOST_READINGS: Final = 24
# Escapes of JSON and its kin, of Python, C and JavaScript. The first three give a character, the others a byte.
_ESCAPED: Final = re.compile(
    r"\\u\{([0-9a-fA-F]{1,6})\}|\\U([0-9a-fA-F]{8})|[\\%]u([0-9a-fA-F]{4})|\\x([0-9a-fA-F]{2})|\\([0-3][0-7]{2})|\\(.)"
)
_BASES: Final = (16, 16, 16, 16, 8)
_HIGH: Final = re.compile("[\x80-\xff]+")
# Of the same length, unlike str.lower().
_SMALL: Final = {capital: capital + 32 for capital in range(ord("A"), ord("Z") + 1)}


def without_secrets(text: str, secrets: Iterable[Secret]) -> str:
    """The text with `***` in place of each secret, also as a part of JSON, a URL or HTML, in base64, and in hexadecimal.

    Serializers differ in the characters that they escape. Words that have a secret in another form are hidden as a whole.
    """
    known = [secret.reveal() for secret in secrets]
    # No writing of a secret is shorter.
    possible = [one for one in known if _FEWEST <= len(one) <= len(text)]
    if not possible:
        return text[:_LONGEST]
    found = {writing.translate(_SMALL) for one in possible for writing in _writings(one)}
    found = {writing for writing in found if len(writing) >= _FEWEST}
    shown = _cut(text, found)
    plain = {each for one in possible if len(each := _undone(one)) >= _FEWEST}
    is_left = any(one in reading for reading in _readings(shown) for one in found | plain)
    return HIDDEN if is_left else shown


def _cut(text: str, writings: set[str]) -> str:
    """The begin of the text without these."""
    longest = max(map(len, writings))
    begin = text[: _LONGEST + longest]
    # The longest one first: others may be a part of it.
    for writing in sorted(writings, key=len, reverse=True):
        begin = _without(begin, writing)
    if len(text) > _LONGEST + longest:
        # A part of a secret may be at its end.
        begin = begin[: max(0, len(begin) - longest)]
    return begin[:_LONGEST]


def _writings(secret: str) -> Iterator[str]:
    yield secret
    yield from (json.dumps(secret, ensure_ascii=is_ascii)[1:-1] for is_ascii in (True, False))
    yield html.escape(secret)
    octets = secret.encode(errors="surrogatepass")
    yield urllib.parse.quote(octets)
    yield urllib.parse.quote(octets, safe="")
    quoted = urllib.parse.quote_plus(octets)
    yield quoted
    yield octets.hex()
    # The second one for `Basic`, whose name and password may be quoted (RFC 6749, 2.3.1).
    for each in dict.fromkeys((octets, quoted.encode())):
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            yield encode(each).decode().rstrip("=")
            yield from (_inner(encode, each, before) for before in range(3))


def _inner(encode: Callable[[bytes], bytes], octets: bytes, before: int) -> str:
    """The characters of base64 that these bytes alone decide, behind so many other bytes."""
    first, end = -(-8 * before // 6), 8 * (before + len(octets)) // 6
    return encode(bytes(before) + octets).decode()[first:end]


def _without(text: str, writing: str) -> str:
    # Not by `re`, whose cache of patterns would keep the secret.
    small, parts, begin = text.translate(_SMALL), [], 0
    while (at := small.find(writing, begin)) >= 0:
        parts += [text[begin:at], HIDDEN]
        begin = at + len(writing)
    return "".join([*parts, text[begin:]])


def _readings(text: str) -> Iterator[str]:
    """The text with its escapes undone: of each kind, of each kind in those, and so on, and then step by step all of them."""
    known, waiting = {text}, deque([text])
    while waiting and len(known) < _MOST_READINGS:
        former = waiting.popleft()
        for undo in _UNDOING:
            if (reading := undo(former)) not in known:
                known.add(reading)
                waiting.append(reading)
                yield reading.translate(_SMALL)
    yield _undone(text)


def _undone(text: str) -> str:
    """The text with all of its escapes undone step by step."""
    for _ in range(_ROUNDS):
        former = text
        for undo in _UNDOING:
            text = undo(text)
        if text == former:
            break
    return text.translate(_SMALL)


def _unescaped(text: str) -> str:
    undone = _ESCAPED.sub(_character, text)
    # Two escapes may be one character.
    return undone.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _character(found: re.Match[str]) -> str:
    for number, base in enumerate(_BASES, start=1):
        if found[number]:
            code = int(found[number], base)
            return chr(code) if code <= 0x10FFFF else ""
    return found[6]


def _on_one_line(text: str) -> str:
    return text.replace("\r", "").replace("\n", "")


def _as_utf8(text: str) -> str:
    """Bytes that were taken for characters."""
    return _HIGH.sub(lambda found: found[0].encode("latin-1").decode("utf-8", "replace"), text)


_UNDOING: Final[tuple[Callable[[str], str], ...]] = (
    _unescaped,
    html.unescape,
    partial(urllib.parse.unquote, encoding="latin-1"),
    urllib.parse.unquote_plus,
    _on_one_line,
    _as_utf8,
)
