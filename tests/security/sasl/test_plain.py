"""PLAIN: user name and password in one message."""

from __future__ import annotations

import pytest

from aioproducer.errors import AuthenticationError, ConfigurationError
from aioproducer.secret import Secret
from aioproducer.security.sasl.credentials import PasswordCredentials
from aioproducer.security.sasl.plain import plain
from tests.security.sasl.exchanging import exchanged


def test_the_message_of_rfc_4616() -> None:
    """The message has no authorization identity, then the name and the password, in unchanged UTF-8 (S11)."""
    assert exchanged(plain(PasswordCredentials("tim", Secret("tanstaaftanstaaf"))), b"") == [
        b"\0tim\0tanstaaftanstaaf"
    ]
    assert exchanged(plain(PasswordCredentials("ünï", Secret("①ﬁx"))), b"") == ["\0ünï\0①ﬁx".encode()]


def test_a_broker_that_goes_on() -> None:
    """PLAIN is complete after one message: a challenge behind it is a failure (S43)."""
    with pytest.raises(AuthenticationError, match="continues") as raised:
        exchanged(plain(PasswordCredentials("tim", Secret("secret"))), b"?")
    assert raised.value.reason == "server"


def test_a_nul_is_refused() -> None:
    """A NUL would end the password, and the rest of it would be lost (S11)."""
    with pytest.raises(ConfigurationError, match="NUL") as raised:
        next(plain(PasswordCredentials("tim", Secret("canary\0x"))))
    assert "canary" not in str(raised.value)
