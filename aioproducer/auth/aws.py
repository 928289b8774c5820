"""Credentials of AWS, and a URL that they sign (Signature Version 4)."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote

import attrs

from aioproducer.secret import Secret

__all__ = ["AwsCredentials", "presigned"]

_ALGORITHM: Final = "AWS4-HMAC-SHA256"
_NO_BODY: Final = hashlib.sha256(b"").hexdigest()


def _secret(value: str | Secret) -> Secret:
    return value if isinstance(value, Secret) else Secret(value)


@attrs.frozen
class AwsCredentials:
    """An access key of AWS. Temporary ones have a session token and an end, in seconds since the epoch."""

    access_key: str
    secret_key: Secret = attrs.field(converter=_secret)
    session_token: Secret | None = attrs.field(default=None, converter=attrs.converters.optional(_secret))
    expires_at: float | None = None


def presigned(
    host: str,
    parameters: Iterable[tuple[str, str]],
    credentials: AwsCredentials,
    scope: tuple[str, str],
    now: float,
    seconds: int,
) -> Secret:
    """The URL of a GET request that is valid for `seconds`. `scope` are a region and a service of AWS."""
    moment = datetime.fromtimestamp(now, UTC)
    date = moment.strftime("%Y%m%d")
    place = "/".join((date, *scope, "aws4_request"))
    stamp = moment.strftime("%Y%m%dT%H%M%SZ")
    signed = {
        **dict(parameters),
        "X-Amz-Algorithm": _ALGORITHM,
        "X-Amz-Credential": f"{credentials.access_key}/{place}",
        "X-Amz-Date": stamp,
        "X-Amz-Expires": str(seconds),
        "X-Amz-SignedHeaders": "host",
    }
    if credentials.session_token is not None:
        signed["X-Amz-Security-Token"] = credentials.session_token.reveal()
    query = "&".join(f"{_quoted(name)}={_quoted(signed[name])}" for name in sorted(signed))
    request = "\n".join(("GET", "/", query, f"host:{host}", "", "host", _NO_BODY))
    text = "\n".join((_ALGORITHM, stamp, place, hashlib.sha256(request.encode()).hexdigest()))
    key = f"AWS4{credentials.secret_key.reveal()}".encode()
    for part in (*place.split("/"), text):
        key = hmac.digest(key, part.encode(), "sha256")
    return Secret(f"https://{host}/?{query}&X-Amz-Signature={key.hex()}")


def _quoted(text: str) -> str:
    return quote(text, safe="-_.~")
