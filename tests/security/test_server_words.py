"""A server that repeats a secret, in each form that its words may have."""

from __future__ import annotations

import base64
import html
import json
import re
import urllib.parse
from typing import TYPE_CHECKING, Final

import pytest

from aioproducer.secret import Secret
from aioproducer.security.server_words import without_secrets

if TYPE_CHECKING:
    from collections.abc import Callable

AWKWARD: Final = 'pa"ss\\w/ö rd&<1>+~'
# The words around a secret, and how it is written in them.
WRITINGS: Final[dict[str, tuple[str, Callable[[str], str]]]] = {
    "as it is": ("{} is wrong", str),
    "JSON in ASCII": ('{{"password": "{}"}}', lambda secret: json.dumps(secret)[1:-1]),
    "JSON": ('{{"password": "{}"}}', lambda secret: json.dumps(secret, ensure_ascii=False)[1:-1]),
    "query": ("https://idp/?secret={}&grant=x", lambda secret: urllib.parse.quote(secret, safe="")),
    "query in lower case": ("?{}", lambda secret: urllib.parse.quote(secret).replace("%C3%B6", "%c3%b6")),
    "path": ("https://idp/{}", urllib.parse.quote),
    "form": ("user=bob&password={}", urllib.parse.quote_plus),
    "HTML": ("<p>{}</p>", html.escape),
    "base64": ("Basic {}", lambda secret: base64.b64encode(secret.encode()).decode().rstrip("=")),
    "base64 of URLs": (
        "{}.jwt",
        lambda secret: base64.urlsafe_b64encode(secret.encode()).decode().rstrip("="),
    ),
    "hexadecimal": ("0x{}", lambda secret: secret.encode().hex()),
    "hexadecimal in capitals": ("0x{}", lambda secret: secret.encode().hex().upper()),
}


@pytest.mark.parametrize("writing", WRITINGS)
@pytest.mark.parametrize("secret", [AWKWARD, "simple-secret", "geheim?>ü"])
def test_no_writing_is_left(writing: str, secret: str) -> None:
    """The words around it stay."""
    around, written = WRITINGS[writing]
    shown = without_secrets(around.format(written(secret)), [Secret("other"), Secret(secret)])
    assert shown == around.format("***")


FORMS: Final[dict[str, Callable[[str], str]]] = {
    "encoding/json of Go": lambda secret: json.dumps(secret).replace("&", r"\u0026").replace("<", r"\u003c"),
    "Gson": lambda secret: json.dumps(secret).replace("=", r"\u003d").replace("'", r"\u0027"),
    "json-simple": lambda secret: json.dumps(secret).replace("/", r"\/"),
    "HTML of Go": lambda secret: html.escape(secret).replace("&quot;", "&#34;").replace("+", "&#43;"),
    "URLEncoder": lambda secret: urllib.parse.quote_plus(secret).replace("~", "%7E"),
    "JSON within JSON": lambda secret: json.dumps(json.dumps({"password": secret})),
    "a query within JSON": lambda secret: json.dumps(f"?{urllib.parse.quote(secret)}").replace(
        "%", r"\u0025"
    ),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("secret", [AWKWARD, "kafka&Pa55/<word>='~+😀"])
def test_words_with_a_secret_in_a_rare_form_are_hidden(form: str, secret: str) -> None:
    """Serializers differ in the characters that they escape."""
    written = FORMS[form](secret)
    assert without_secrets(f"bad login: {written}", [Secret(secret)]) in (
        "***",
        "bad login: ***",
        'bad login: "***"',
    )


@pytest.mark.parametrize("length", [500, 8_000, 262_144])
def test_a_long_token_costs_no_time_and_leaves_no_trace(length: int) -> None:
    """A pattern of it would be kept by the cache of `re`, and takes seconds to be compiled."""
    token = "t0ken." * (length // 6)
    assert without_secrets("invalid_token", [Secret(token)]) == "invalid_token"
    assert without_secrets(f"no {token}!", [Secret(token)]) == "no ***!"
    assert not any(token in str(key) for key in re._cache)  # type: ignore[attr-defined]


def test_a_secret_that_is_a_part_of_another_one() -> None:
    """The longer one is hidden as a whole."""
    assert without_secrets("no abcd-efgh", [Secret("abcd"), Secret("abcd-efgh")]) == "no ***"


def test_words_without_a_secret_stay() -> None:
    """An empty secret is none; one that cannot be encoded hides nothing else."""
    assert without_secrets("no such user", [Secret(""), Secret("\ud800abc")]) == "no such user"
