"""Signed assertions, verified by another library (PyJWT)."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jwt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioproducer.secret import Secret
from aioproducer.security.tokens.assertions import Claims, Template, signed_assertion, template_in
from aioproducer.security.tokens.signing import signer
from tests.certificates import openssl
from tests.reports import report

NOW = 1_000_000_000
PASSPHRASE = "canary-7"
KINDS = {
    "RS256": ("-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"),
    "ES256": ("-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"),
    "ES384": ("-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-384"),
}
Keys = Callable[[str], tuple[Path, Path]]


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    """Private keys and their public parts, by algorithm."""
    folder = tmp_path_factory.mktemp("keys")
    made: dict[str, tuple[Path, Path]] = {}

    def pair(algorithm: str) -> tuple[Path, Path]:
        if algorithm not in made:
            private, public = folder / f"{algorithm}.pem", folder / f"{algorithm}.pub"
            openssl("genpkey", *KINDS[algorithm], "-out", private)
            openssl("pkey", "-in", private, "-pubout", "-out", public)
            made[algorithm] = private, public
        return made[algorithm]

    return pair


def encrypted(key: Path, *former: str) -> Secret:
    """The key with a passphrase; `former`: in the format before PKCS #8."""
    path = key.with_suffix(".encrypted")
    command = ("rsa", "-traditional", "-aes128") if former else ("pkcs8", "-topk8")
    openssl(*command, "-in", key, "-out", path, "-passout", f"pass:{PASSPHRASE}")
    return Secret(path.read_text())


def verified(assertion: Secret, public: Path, algorithm: str) -> dict[str, Any]:
    """The claims, if the signature is right."""
    options: Any = {"verify_exp": False, "verify_nbf": False, "verify_iat": False, "verify_aud": False}
    found: dict[str, Any] = jwt.decode(
        assertion.reveal(), public.read_text(), algorithms=[algorithm], options=options
    )
    return found


@pytest.mark.parametrize("algorithm", ["RS256", "ES256"])
def test_signatures(keys: Keys, algorithm: str) -> None:
    """Another library verifies them, and refuses them for another key or with another content."""
    private, public = keys(algorithm)
    sign = signer(Secret(private.read_text()), None, algorithm)
    claims = Claims("https://idp.example", "alice", "bob", lasts=30, began=5)
    for identifier in (None, "one"):
        assertion = signed_assertion(algorithm, sign, claims, Template(), NOW, identifier)
        times = {"iat": NOW, "exp": NOW + 30, "nbf": NOW - 5}
        named = {"aud": "https://idp.example", "iss": "alice", "sub": "bob"}
        unique = {} if identifier is None else {"jti": identifier}
        assert verified(assertion, public, algorithm) == {**named, **times, **unique}
        assert jwt.get_unverified_header(assertion.reveal()) == {"alg": algorithm, "typ": "JWT"}
        head, _, rest = assertion.reveal().partition(".")
        with pytest.raises(jwt.InvalidTokenError):
            verified(Secret(f"{head}.e30.{rest.rpartition('.')[2]}"), public, algorithm)


def test_many_signatures_of_ecdsa(keys: Keys) -> None:
    """Each of its numbers has 32 bytes, also one that begins with zeros."""
    private, public = keys("ES256")
    sign = signer(Secret(private.read_text()), None, "ES256")
    for number in range(600):
        verified(signed_assertion("ES256", sign, Claims(), Template(), number, None), public, "ES256")


@pytest.mark.parametrize("former", [(), ("former",)])
def test_an_encrypted_key(keys: Keys, former: tuple[str, ...]) -> None:
    """Its passphrase decrypts it; the errors of a missing and a wrong one differ, and no error shows one."""
    private, public = keys("RS256")
    key = encrypted(private, *former)
    sign = signer(key, Secret(PASSPHRASE), "RS256")
    verified(signed_assertion("RS256", sign, Claims(), Template(), NOW, None), public, "RS256")
    for passphrase, why in (
        (None, "is encrypted: set sasl_oauthbearer_assertion_private_key_passphrase"),
        (Secret("canary-8"), "its passphrase may be wrong"),
        (Secret("canary-8\udc99"), "its passphrase may be wrong"),
    ):
        with pytest.raises(ValueError, match=why) as raised:
            signer(key, passphrase, "RS256")
        assert [one for one in ("canary", "udc99", "PRIVATE KEY---") if one in report(raised.value)] == []


def test_a_passphrase_for_a_key_that_is_not_encrypted(keys: Keys) -> None:
    """It is not used."""
    private, _ = keys("ES256")
    assert signer(Secret(private.read_text()), Secret(PASSPHRASE), "ES256")(b"")


def test_keys_of_another_algorithm(keys: Keys) -> None:
    """The error names the kind of key that is needed."""
    for algorithm, other, why in (
        ("RS256", "ES256", "RS256 requires an RSA key"),
        ("ES256", "RS256", "ES256 requires a key on the curve P-256"),
        ("ES256", "ES384", "ES256 requires a key on the curve P-256"),
    ):
        with pytest.raises(ValueError, match=why):
            signer(Secret(keys(other)[0].read_text()), None, algorithm)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no private key"),
        ("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----", "no private key"),
        ("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----", "cannot be read"),
        ("-----BEGIN PRIVATE KEY-----\nAAAA\n", "no end"),
    ],
)
def test_texts_that_are_no_key(text: str, why: str) -> None:
    """Each has its words."""
    with pytest.raises(ValueError, match=why):
        signer(Secret(text), None, "RS256")


def test_a_template(keys: Keys) -> None:
    """Its claims take the place of those of the settings, as in Java; times and algorithm are those of the settings."""
    private, public = keys("ES256")
    sign = signer(Secret(private.read_text()), None, "ES256")
    template = template_in(
        Secret(
            json.dumps(
                {
                    "header": {"kid": "1", "alg": "none", "typ": "x"},
                    "payload": {"sub": "carol", "exp": 1, "list": [1], "jti": "kept"},
                }
            )
        )
    )
    assertion = signed_assertion("ES256", sign, Claims("a", "i", "bob"), template, NOW, None)
    assert jwt.get_unverified_header(assertion.reveal()) == {"kid": "1", "alg": "ES256", "typ": "JWT"}
    assert verified(assertion, public, "ES256") == {
        "aud": "a", "iss": "i", "sub": "carol", "list": [1], "jti": "kept",
        "iat": NOW, "exp": NOW + 300, "nbf": NOW - 60,
    }  # fmt: skip


@pytest.mark.parametrize("text", ["", "[]", "1", "{", '{"header": 1}', '{"payload": []}', "[" * 100_000])
def test_texts_that_are_no_template(text: str) -> None:
    """The error names the expected form, and does not show the text."""
    with pytest.raises(ValueError, match="no JSON object with the objects 'header' and 'payload'"):
        template_in(Secret(text))
    assert template_in(Secret("{}")) == Template()


@given(st.text())
def test_random_texts(text: str) -> None:
    """Any text gives a template or a ValueError, and a signer or a ValueError."""
    with contextlib.suppress(ValueError):
        template_in(Secret(text))
    with contextlib.suppress(ValueError):
        signer(Secret(f"-----BEGIN PRIVATE KEY-----{text}-----END PRIVATE KEY-----"), None, "RS256")
