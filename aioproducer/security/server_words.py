"""Words of servers without the secrets that they repeat, whatever form the words have."""

from __future__ import annotations

import base64
import html
import json
import re
import urllib.parse
from collections.abc import Iterable, Iterator
from typing import Final

from aioproducer.secret import HIDDEN, Secret

__all__ = ["without_secrets"]

# An error shows less of them.
_LONGEST: Final = 4_000
# A form within a form within a form.
_ROUNDS: Final = 3
_ESCAPED: Final = re.compile(r"\\u([0-9a-fA-F]{4})|\\(.)")
# Of the same length, unlike str.lower().
_SMALL: Final = {capital: capital + 32 for capital in range(ord("A"), ord("Z") + 1)}


def without_secrets(text: str, secrets: Iterable[Secret]) -> str:
    """The text with `***` in place of each secret, also as a part of JSON, a URL or HTML, in base64, and in hexadecimal.

    Serializers differ in the characters that they escape. Words that have a secret in another form are hidden as a whole.
    """
    known = [secret.reveal() for secret in secrets]
    # No writing of a secret is shorter.
    possible = (one for one in known if 0 < len(one) <= len(text))
    found = {writing.translate(_SMALL) for one in possible for writing in _writings(one)}
    # The longest one first: others may be a part of it.
    for writing in sorted(found, key=len, reverse=True):
        text = _without(text, writing)
    text = text[:_LONGEST]
    return HIDDEN if any(writing in each for each in _readings(text) for writing in found) else text


def _writings(secret: str) -> Iterator[str]:
    yield secret
    yield from (json.dumps(secret, ensure_ascii=is_ascii)[1:-1] for is_ascii in (True, False))
    yield html.escape(secret)
    octets = secret.encode(errors="surrogatepass")
    yield urllib.parse.quote(octets)
    yield urllib.parse.quote(octets, safe="")
    yield urllib.parse.quote_plus(octets)
    yield octets.hex()
    for encoded in (base64.b64encode(octets), base64.urlsafe_b64encode(octets)):
        yield encoded.decode().rstrip("=")


def _without(text: str, writing: str) -> str:
    # Not by `re`, whose cache of patterns would keep the secret.
    small, parts, begin = text.translate(_SMALL), [], 0
    while (at := small.find(writing, begin)) >= 0:
        parts += [text[begin:at], HIDDEN]
        begin = at + len(writing)
    return "".join([*parts, text[begin:]])


def _readings(text: str) -> set[str]:
    """The text with its escapes undone."""
    found = {text}
    for _ in range(_ROUNDS):
        undone = (_unescaped, urllib.parse.unquote, urllib.parse.unquote_plus, html.unescape)
        found |= {undo(each) for each in found for undo in undone}
    return {each.translate(_SMALL) for each in found}


def _unescaped(text: str) -> str:
    undone = _ESCAPED.sub(lambda found: chr(int(found[1], 16)) if found[1] else found[2], text)
    # Two escapes may be one character.
    return undone.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
