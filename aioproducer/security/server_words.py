"""Words of servers without the secrets that they repeat, whatever form the words have."""

from __future__ import annotations

import base64
import html
import json
import re
import urllib.parse
from collections.abc import Iterable, Iterator

from aioproducer.secret import HIDDEN, Secret

__all__ = ["without_secrets"]


def without_secrets(text: str, secrets: Iterable[Secret]) -> str:
    """The text with `***` in place of each secret, also as a part of JSON, a URL or HTML, in base64, and in hexadecimal."""
    found = {writing for secret in secrets for writing in _writings(secret.reveal())}
    # The longest one first: others may be a part of it.
    for writing in sorted(found - {""}, key=len, reverse=True):
        text = re.sub(re.escape(writing), HIDDEN, text, flags=re.IGNORECASE)
    return text


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
