"""Settings of OAUTHBEARER that depend on each other: where the token comes from, and what proves the client there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final

from aioproducer.config.security.urls import is_allowed
from aioproducer.secret import Secret

__all__ = ["ALLOWED_URLS", "URL", "token_problems"]

URL: Final = "sasl_oauthbearer_token_endpoint_url"
ALLOWED_URLS: Final = "sasl_oauthbearer_allowed_urls"
_ID: Final = "sasl_oauthbearer_client_credentials_client_id"
_SECRET: Final = "sasl_oauthbearer_client_credentials_client_secret"  # noqa: S105  # the name of a setting
_OF_ASSERTIONS: Final = "sasl_oauthbearer_assertion_"
_ASSERTION: Final = f"{_OF_ASSERTIONS}file"
_KEY: Final = f"{_OF_ASSERTIONS}private_key_file"
# These apply to the endpoint alone; tokens of a provider are renewed as well.
_OF_ENDPOINT: Final = ("sasl_oauthbearer_", "sasl_login_connect_", "sasl_login_read_", "sasl_login_retry_")


def token_problems(fields: Mapping[str, Any], telling: AbstractSet[str]) -> Iterator[str]:
    """One line, with its fix, for each invalid combination. `telling` are the given settings that differ from a default."""
    provider, url = fields["sasl_token_provider"], fields[URL]
    if url is None:
        for name in sorted(telling - {ALLOWED_URLS}):
            if name.startswith(_OF_ENDPOINT):
                yield f"{name}: requires {URL}: set it, or remove {name}"
        if provider is None:
            yield (
                f"sasl_token_provider: is missing: sasl_mechanism={fields['sasl_mechanism']!r} requires it, or {URL}"
            )
        return
    if provider is not None:
        yield f"sasl_token_provider: takes the place of {URL}: remove one of the two"
    allowed = fields[ALLOWED_URLS]
    if allowed is not None and not is_allowed(url, allowed):
        yield f"{URL}: {ALLOWED_URLS} does not allow it: add it there, or correct it"
    yield from _assertion_problems(fields, telling)
    if fields[_ASSERTION] is None and fields[_KEY] is None:
        yield from _secret_problems(fields)


def _assertion_problems(fields: Mapping[str, Any], telling: AbstractSet[str]) -> Iterator[str]:
    proofs = [name for name in (_SECRET, _ASSERTION, _KEY) if fields[name] is not None]
    for name in proofs[1:]:
        yield f"{name}: takes the place of {proofs[0]}: remove one of the two"
    if fields[_KEY] is None:
        for name in sorted(telling - {_ASSERTION}):
            if name.startswith(_OF_ASSERTIONS):
                yield f"{name}: requires {_KEY}: set it, or remove {name}"


def _secret_problems(fields: Mapping[str, Any]) -> Iterator[str]:
    if fields["sasl_oauthbearer_jwt_retriever_class"].endswith(".JwtBearerJwtRetriever"):
        yield f"{_ASSERTION}: is missing: the grant of JwtBearerJwtRetriever requires it, or {_KEY}"
        return
    if type(secret := fields[_SECRET]) is Secret and not secret.reveal():
        yield f"{_SECRET}: is empty: set it"
    for name in (_ID, _SECRET):
        if fields[name] is None:
            yield f"{name}: is missing: {URL} requires it, or {_ASSERTION}, or {_KEY}"
