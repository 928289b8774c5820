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
    "repr() of bytes": lambda secret: repr(secret.encode()),
    "escapes of C": lambda secret: "".join(map("\\{:03o}".format, secret.encode())),
    "escapes of JavaScript": lambda secret: "".join(map("\\x{:02X}".format, secret.encode())),
    "escapes of ECMAScript 6": lambda secret: "".join(f"\\u{{{ord(letter):x}}}" for letter in secret),
    "escapes of Python": lambda secret: "".join(f"\\U{ord(letter):08x}" for letter in secret),
    "escape()": lambda secret: "".join(
        f"%u{ord(letter):04X}" if ord(letter) < 65536 else letter for letter in secret
    ),
    "escape() in Latin-1": lambda secret: "".join(
        urllib.parse.quote(letter, encoding="latin-1") if letter < "\u0100" else letter for letter in secret
    ),
    "HTML within a query": lambda secret: urllib.parse.quote(html.escape(secret), safe=""),
    "JSON within HTML within a query": lambda secret: urllib.parse.quote(
        html.escape(json.dumps(secret).replace("&", r"\u0026"))
    ),
    "UTF-8 read as Latin-1": lambda secret: secret.encode().decode("latin-1"),
    "MIME": lambda secret: base64.encodebytes(secret.encode() * 5).decode(),
    "a query within JSON": lambda secret: json.dumps(f"?{urllib.parse.quote(secret)}").replace(
        "%", r"\u0025"
    ),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("secret", [AWKWARD, "kafka&Pa55/<word>='~+😀", 'f\\b>b-"]c\\'])
def test_words_with_a_secret_in_a_rare_form_are_hidden(form: str, secret: str) -> None:
    """Serializers differ in the characters that they escape."""
    written = FORMS[form](secret)
    shown = without_secrets(f"bad login: {written}", [Secret(secret)])
    assert shown.partition("***")[0] in ("", "bad login: ", 'bad login: "', "bad login: b'")
    assert "***" in shown


@pytest.mark.parametrize("length", [500, 8_000, 262_144])
def test_a_long_token_costs_no_time_and_leaves_no_trace(length: int) -> None:
    """A pattern of it would be kept by the cache of `re`, and takes seconds to be compiled."""
    token = "t0ken." * (length // 6)
    assert without_secrets("invalid_token", [Secret(token)]) == "invalid_token"
    assert without_secrets(f"no {token}!", [Secret(token)]) == "no ***!"
    assert not any(token in str(key) for key in re._cache)  # type: ignore[attr-defined]


@pytest.mark.parametrize("before", range(6))
@pytest.mark.parametrize("behind", range(4))
def test_base64_of_a_text_with_the_secret(before: int, behind: int) -> None:
    """The characters that depend on the words around it are no more than two on each side."""
    secret, encode = "s3cret-t0ken", base64.b64encode
    coded = encode(b"n" * before + secret.encode() + b"e" * behind).decode().rstrip("=")
    begin, _, end = without_secrets(f"no {coded}", [Secret(secret)]).partition("***")
    assert begin == f"no {coded}"[: len(begin)]
    assert len(coded) - len(begin) - len(end) + 3 >= len(secret)


@pytest.mark.parametrize("client", ["me", "app", "client"])
def test_the_header_of_a_client_whose_secret_is_quoted(client: str) -> None:
    """`Authorization: Basic` has the base64 of the quoted secret, with sasl.oauthbearer.header.urlencode."""
    header = base64.b64encode(f"{client}:{urllib.parse.quote_plus(AWKWARD)}".encode()).decode()
    shown = without_secrets(f"invalid authorization: Basic {header}", [Secret(AWKWARD)])
    assert "***" in shown
    assert header[12:-4] not in shown


@pytest.mark.parametrize("begins", range(980, 1_010))
def test_a_secret_at_the_end_of_the_words_that_are_shown(begins: int) -> None:
    """No part of it is left where words are cut, nor behind secrets that were hidden before it."""
    secret = "hunter2hunter2"
    for words in ("." * begins + secret + "." * 5_000, secret * 90 + "." * (begins - 980) + secret * 500):
        assert "hunter" not in without_secrets(words, [Secret(secret)])


def test_a_short_secret_hides_no_words() -> None:
    """Three characters may be a part of any word."""
    assert without_secrets("Subject not found", [Secret("o"), Secret("not")]) == "Subject not found"


def test_a_secret_that_is_a_part_of_another_one() -> None:
    """The longer one is hidden as a whole."""
    assert without_secrets("no abcd-efgh", [Secret("abcd"), Secret("abcd-efgh")]) == "no ***"


def test_words_without_a_secret_stay() -> None:
    """An empty secret is none; one that cannot be encoded hides nothing else."""
    assert without_secrets("no such user", [Secret(""), Secret("\ud800abc")]) == "no such user"
