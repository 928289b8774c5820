"""Credentials of AWS, and a URL that they sign (Signature Version 4)."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote

import attrs

from aioproducer.errors import ConfigurationError
from aioproducer.secret import Secret, secret_of

__all__ = ["AwsCredentials", "presigned"]

_ALGORITHM: Final = "AWS4-HMAC-SHA256"
_NO_BODY: Final = hashlib.sha256(b"").hexdigest()


@attrs.frozen(init=False)
class AwsCredentials:
    """An access key of AWS. Temporary ones have a session token and an end, in seconds since the epoch."""

    access_key: str
    secret_key: Secret
    session_token: Secret | None = None
    expires_at: float | None = None

    def __init__(
        self,
        access_key: str,
        secret_key: str | Secret,
        session_token: str | Secret | None = None,
        expires_at: float | None = None,
    ) -> None:
        secret, token = secret_of(secret_key), secret_of(session_token)
        kinds = {"secret_key": type(secret_key).__name__, "session_token": type(session_token).__name__}
        wrong = "secret_key" if secret is None else "session_token"
        is_wrong = token is None and session_token is not None
        # No frame of a traceback keeps them.
        del secret_key, session_token
        if secret is None or is_wrong:
            del self, access_key
            raise ConfigurationError(f"AwsCredentials() takes {wrong} as str or Secret, not {kinds[wrong]}")
        self.__attrs_init__(access_key, secret, token, expires_at)


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
