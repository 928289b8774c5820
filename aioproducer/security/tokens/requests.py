"""Requests for a token to an endpoint of OAuth 2.0, and the meaning of its answers."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from typing import Any, Final
from urllib.parse import quote_plus, urlencode

import attrs

from aioproducer.errors import printable
from aioproducer.secret import Secret, Token
from aioproducer.security.https import Answer, HttpsUrl, post
from aioproducer.security.server_words import without_secrets
from aioproducer.security.tokens.lifetime import LATEST

__all__ = ["Refusal", "by_client_assertion", "by_client_secret", "by_jwt_bearer", "token_in"]

_GOOD: Final = (200, 201)
# The server may answer otherwise in a moment.
_TRANSIENT: Final = (408, 429)
_LONGEST_ERROR = 100
_ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"


@attrs.frozen
class Refusal:
    """The reason for which an answer has no token. `is_final`: the same request gets the same answer."""

    why: str
    is_final: bool


def by_client_secret(
    url: HttpsUrl, client_id: str, secret: Secret, scope: str | None, *, is_urlencoded: bool
) -> Secret:
    """The grant of client credentials (KIP-768). `is_urlencoded`: id and secret are encoded before Base64, as RFC 6749 says."""
    headers = {"Authorization": _basic(client_id, secret, is_urlencoded=is_urlencoded)}
    return post(url, headers, _form(grant_type="client_credentials", scope=scope))


def by_client_assertion(url: HttpsUrl, assertion: Secret, client_id: str | None, scope: str | None) -> Secret:
    """The grant of client credentials, with a signed assertion in place of the secret (KIP-1258)."""
    form = _form(
        grant_type="client_credentials",
        client_assertion_type=_ASSERTION_TYPE,
        client_assertion=assertion.reveal(),
        client_id=client_id,
        scope=scope,
    )
    return post(url, {}, form)


def by_jwt_bearer(url: HttpsUrl, assertion: Secret, scope: str | None) -> Secret:
    """The grant of an assertion (KIP-1139)."""
    return post(url, {}, _form(grant_type=_JWT_BEARER, assertion=assertion.reveal(), scope=scope))


def token_in(answer: Answer, now: float, secrets: Iterable[Secret] = ()) -> Token | Refusal:
    """The token of an answer to a request that was sent at `now`. Its type and size are checked with the credentials.

    No refusal shows the secrets of the request.
    """
    if answer.status not in _GOOD:
        return _refusal(answer, secrets)
    fields = _fields(answer.body)
    if fields is None:
        return Refusal("gave an answer that is no JSON object", is_final=True)
    if not isinstance(fields.get("access_token") or fields.get("id_token"), str):
        return Refusal("gave an answer without access_token", is_final=True)
    return Token(fields.get("access_token") or fields["id_token"], _end(fields.get("expires_in"), now))


def _basic(client_id: str, secret: Secret, *, is_urlencoded: bool) -> str:
    parts = (client_id, secret.reveal())
    # An error of the encoding would have the secret. `SecretEnv` may give a surrogate for a byte that is not UTF-8.
    encoded = (quote_plus(part, errors="surrogatepass") for part in parts)
    text = ":".join(encoded if is_urlencoded else parts)
    return f"Basic {base64.b64encode(text.encode(errors='surrogatepass')).decode()}"


def _form(**fields: str | None) -> str:
    return urlencode(
        {name: value for name, value in fields.items() if value is not None}, errors="surrogatepass"
    )


def _refusal(answer: Answer, secrets: Iterable[Secret]) -> Refusal:
    status = answer.status
    if 300 <= status < 400:
        return Refusal(f"answered {status}: redirects are not followed", is_final=True)
    error = (_fields(answer.body) or {}).get("error")
    # Of the text of a server only this word is shown: the rest may repeat the request.
    said = ""
    if isinstance(error, str):
        said = f": {printable(without_secrets(error, secrets), _LONGEST_ERROR)}"
    is_final = status < 500 and status not in _TRANSIENT
    return Refusal(f"answered {status}{said}", is_final)


def _fields(body: bytes) -> dict[str, Any] | None:
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return fields if isinstance(fields, dict) else None


def _end(expires_in: object, now: float) -> float | None:
    """The end of a token; None: the token itself may tell it. Some servers send the number as a text."""
    if isinstance(expires_in, bool) or not isinstance(expires_in, int | float | str):
        return None
    try:
        seconds = float(expires_in)
    except (ValueError, OverflowError):
        return None
    # Some servers say "never" by a number without any sense as a time.
    return now + seconds if now + seconds <= LATEST else None
