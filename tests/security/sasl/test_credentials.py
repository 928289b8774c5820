"""Credentials are checked before a request to a broker, and never shown."""

from __future__ import annotations

import copy
import json
import pickle

import pytest

from aioproducer.errors import ConfigurationError
from aioproducer.secret import Secret
from aioproducer.security.sasl.credentials import PasswordCredentials, TokenCredentials

CANARY = "canary-7"
SECRET = Secret(CANARY)


def test_a_secret_is_not_shown() -> None:
    """A secret is shown neither by repr, str, formats, JSON or pickle, nor by the objects that hold it (S17)."""
    holders = [SECRET, [SECRET], PasswordCredentials("user", SECRET), TokenCredentials(SECRET)]
    shown = [
        text for each in holders for text in (repr(each), str(each), f"{each}", f"{repr(each)!r:>9} {each}")
    ]
    assert [text for text in shown if CANARY in text] == []
    assert f"{SECRET:>5}" == "  ***"
    with pytest.raises(TypeError, match="not JSON serializable") as raised:
        json.dumps(SECRET)
    assert CANARY not in str(raised.value)
    with pytest.raises(TypeError, match="a Secret is not pickled") as raised:
        pickle.dumps(SECRET)
    assert CANARY not in str(raised.value)
    assert SECRET.reveal() == CANARY


def test_copies_of_a_secret_are_itself() -> None:
    """A secret is kept in one place; it has no dictionary, and its hash is that of any other."""
    assert copy.copy(SECRET) is copy.deepcopy(SECRET) is SECRET
    assert not hasattr(SECRET, "__dict__")
    assert hash(SECRET) == hash(Secret("another"))


def test_secrets_are_compared() -> None:
    """Secrets are equal by their text, also beyond ASCII; a plain text is not a secret."""
    assert Secret("ß") == Secret("ß")
    assert Secret("ß") != Secret("s")
    assert Secret("ß") != "ß"
    # The error of a codec would hold the text.
    assert Secret("\udc80") == Secret("\udc80") != Secret("\udc81")


@pytest.mark.parametrize("name", ["", "a\0b", "a\x01b", "a\nb", "\x7f", "\x85", "a\udc80"])
def test_user_names_without_control_characters(name: str) -> None:
    """A control character would begin another field of a message (S11); the error does not repeat the name."""
    with pytest.raises(ConfigurationError, match="user name"):
        PasswordCredentials(name, SECRET)


def test_an_empty_password() -> None:
    """Kafka has none: a file was not filled. It is not sent, as refused attempts may lock the account."""
    with pytest.raises(ConfigurationError, match="sasl_password is empty"):
        PasswordCredentials("user", Secret(""))


def test_a_password_that_is_no_unicode_text() -> None:
    """The error of the codec would hold the password."""
    with pytest.raises(ConfigurationError, match="password cannot be encoded") as raised:
        PasswordCredentials("user", Secret(f"{CANARY}\udc80"))
    assert CANARY not in str(raised.value)
    assert raised.value.__context__ is None


@pytest.mark.parametrize("token", ["", "a b", "a\x01b", "a,b", "ä", "=a", "a=b", "x" * (256 * 1024 + 1)])
def test_tokens_that_are_none(token: str) -> None:
    """A token has the characters of RFC 6750, and is not longer than 256 KiB (S13)."""
    with pytest.raises(ConfigurationError, match="token"):
        TokenCredentials(Secret(token))


@pytest.mark.parametrize(
    "extensions", [{"auth": "x"}, {"": "x"}, {"a1": "x"}, {"a": ""}, {"a": "x\x01y"}, {"a": "ä"}, {"ä": "x"}]
)
def test_extensions_that_are_none(extensions: dict[str, str]) -> None:
    """Names are letters but not `auth`, values are printable ASCII and white space (S54)."""
    with pytest.raises(ConfigurationError, match="extension"):
        TokenCredentials(SECRET, extensions)


def test_extensions_cannot_change_later() -> None:
    """The mapping of the caller is copied."""
    given = {"logicalCluster": "lkc-1"}
    credentials = TokenCredentials(SECRET, given)
    given["auth"] = "x"
    assert dict(credentials.extensions) == {"logicalCluster": "lkc-1"}
