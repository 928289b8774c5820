"""Assertions (JWT) that prove this client to a token endpoint, in place of a secret (KIP-1139, KIP-1258)."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from aioproducer.secret import Secret

__all__ = ["Claims", "Template", "signed_assertion", "template_in"]


@attrs.frozen
class Claims:
    """The claims of the settings. An assertion is valid from `began` seconds ago, for another `lasts` seconds."""

    audience: str | None = None
    issuer: str | None = None
    subject: str | None = None
    lasts: int = 300
    began: int = 60


@attrs.frozen
class Template:
    """The header and the claims of a file. They take the place of those of the settings, as in Java."""

    header: Mapping[str, Any] = attrs.field(factory=dict)
    payload: Mapping[str, Any] = attrs.field(factory=dict)


def template_in(text: Secret) -> Template:
    """The template in a JSON text such as `{"header": {"kid": "1"}, "payload": {"sub": "me"}}`; ValueError if it is none."""
    try:
        found = json.loads(text.reveal())
    except (ValueError, RecursionError):
        found = None
    header, payload = _object(found, "header"), _object(found, "payload")
    if header is None or payload is None:
        raise ValueError("it is no JSON object with the objects 'header' and 'payload'")
    return Template(header, payload)


def _object(parent: object, name: str) -> dict[str, Any] | None:
    child = parent.get(name, {}) if isinstance(parent, dict) else None
    return child if isinstance(child, dict) else None


def signed_assertion(
    algorithm: str,
    sign: Callable[[bytes], bytes],
    claims: Claims,
    template: Template,
    now: int,
    identifier: str | None,
) -> Secret:
    """An assertion in its compact form. Its times and its algorithm are those of the settings, also with a template."""
    of_settings = {"aud": claims.audience, "iss": claims.issuer, "sub": claims.subject}
    header = {**template.header, "alg": algorithm, "typ": "JWT"}
    times = {"iat": now, "exp": now + claims.lasts, "nbf": now - claims.began}
    payload = {**_present(of_settings), **template.payload, **times, **_present({"jti": identifier})}
    content = f"{_part(header)}.{_part(payload)}"
    return Secret(f"{content}.{_encoded(sign(content.encode()))}")


def _present(claims: Mapping[str, str | None]) -> dict[str, Any]:
    return {name: value for name, value in claims.items() if value is not None}


def _part(fields: Mapping[str, Any]) -> str:
    return _encoded(json.dumps(fields, separators=(",", ":")).encode())


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
