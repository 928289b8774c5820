"""GSSAPI: the messages of RFC 4752 with a played context, brokers that prove nothing, and errors of the library."""

from __future__ import annotations

import subprocess
import sys
import threading
import traceback

import attrs
import pytest

from aioproducer._state.connecting.dialogue import Compute
from aioproducer.errors import AuthenticationError, ConfigurationError
from aioproducer.security.sasl.credentials import KerberosCredentials
from aioproducer.security.sasl.kerberos import KerberosStep, kerberos, require_gssapi
from aioproducer.security.sasl.kerberos_failures import failure_of
from tests.security.sasl.exchanging import exchanged

TABLE = KerberosCredentials("kafka", "b.example", "orders@X.EXAMPLE", "/etc/orders.keytab")
CACHE = KerberosCredentials("kafka", "b.example")
OFFER = b"signed:\x01\x01\x00\x00"


class GssapiError(Exception):
    """An error as the package gssapi raises it."""

    def __init__(self, major: int = 13, minor: int = 0, token: bytes = b"") -> None:
        super().__init__("said by the library")
        self.maj_code, self.min_code, self.token = major << 16, minor, token


@attrs.define
class Context:
    """Plays the library: the token "proof" of the broker completes the context."""

    is_complete: bool = False
    is_proven: bool = True

    def step(self, token: bytes | None) -> KerberosStep:
        if token in {None, b"more"}:
            return KerberosStep(b"again" if token else b"request", self.is_complete)
        if token != b"proof":
            raise GssapiError(9, token=b"canary")
        return KerberosStep(b"", True, self.is_proven, "orders@X.EXAMPLE")

    def unwrap(self, message: bytes) -> bytes:
        if not message.startswith(b"signed:"):
            raise GssapiError(6)
        return message.removeprefix(b"signed:")

    def wrap(self, message: bytes) -> bytes:
        return b"signed:" + message


def test_the_messages() -> None:
    """Tokens, an empty message, the offer of the broker, then no layer, the size 0, and the own principal."""
    for steps in ([b"proof"], [b"more", b"more", b"proof"]):
        messages = exchanged(kerberos(TABLE, begin=lambda _: Context()), *steps, OFFER, b"")
        tokens = [b"request", *[b"again"] * (len(steps) - 1)]
        assert messages == [*tokens, b"", b"signed:\x01\x00\x00\x00orders@X.EXAMPLE"]


@pytest.mark.parametrize(
    ("context", "challenges", "why"),
    [
        (Context(), [b""], "it sent no proof"),
        (Context(), [b"forged"], "a token of the broker is malformed"),
        (Context(is_proven=False), [b"proof"], "ended without its proof"),
        (Context(is_complete=True), [], "ended without its proof"),
        (Context(), [b"proof", b"\x01\x01\x00\x00"], "has a wrong signature"),
        (Context(), [b"proof", b""], "has a wrong signature"),
        (Context(), [b"proof", b"signed:"], "not one of RFC 4752"),
        (Context(), [b"proof", OFFER + b"x"], "not one of RFC 4752"),
        (Context(), [b"proof", b"signed:\x06\x01\x00\x00"], "requires a security layer"),
        (Context(), [b"proof", OFFER, b"x"], "continues after GSSAPI is complete"),
    ],
)
def test_a_broker_that_is_not_proven(context: Context, challenges: list[bytes], why: str) -> None:
    """Each is refused as the broker's failure, and no error has a token."""
    with pytest.raises(AuthenticationError, match=why) as caught:
        exchanged(kerberos(TABLE, begin=lambda _: context), *challenges)
    assert (caught.value.reason, caught.value.mechanism) == ("server", "GSSAPI")
    assert caught.value.__cause__ is None
    shown = "".join(traceback.TracebackException.from_exception(caught.value).format())
    assert "canary" not in shown


def test_nothing_of_the_library_is_called_on_the_loop() -> None:
    """Each call is a step that the driver makes in a thread (S49): the exchange itself calls nothing."""
    called: list[str] = []

    def begin(_: KerberosCredentials) -> Context:
        called.append(threading.current_thread().name)
        return Context()

    step = next(kerberos(TABLE, begin=begin))
    assert isinstance(step, Compute)
    assert called == []


@pytest.mark.parametrize(
    ("code", "why", "reason", "retriable"),
    [
        (6, "does not know the principal of this client", "credentials", False),
        (7, "does not know the service of the broker", "server", False),
        (18, "locked the principal", "credentials", True),
        (24, "not the one of the KDC", "credentials", True),
        (31, "not made with the key", "server", False),
        (32, "the ticket has expired", "token", True),
        (37, "the clocks", "token", True),
        (154, "no KDC of the realm answers", "token", True),
        (156, "no KDC of the realm answers", "token", True),
        (195, "there is no ticket", "token", True),
        (99, "Kerberos failed", "token", True),
    ],
)
def test_errors_of_kerberos(code: int, why: str, reason: str, retriable: bool) -> None:
    """The text has the fault and its remedy, then the text of the library. Codes may have no sign."""
    for base in (-1_765_328_384, 2_529_638_912):
        error = failure_of(GssapiError(minor=base + code), CACHE, of_broker=True)
        assert why in str(error)
        assert "said by the library" in str(error)
        assert (error.reason, error.retriable) == (reason, retriable)


def test_errors_without_a_code() -> None:
    """The status of GSSAPI decides; of any other error only the type is shown."""
    assert "there is no ticket" in str(failure_of(GssapiError(7), CACHE, of_broker=False))
    assert "has no key of the principal" in str(failure_of(GssapiError(7), TABLE, of_broker=False))
    for major in (11, 12):
        error = failure_of(GssapiError(major), CACHE, of_broker=False)
        assert "the ticket has expired" in str(error)
    wrong_key = GssapiError(minor=-1_765_328_384 + 31)
    assert "key of this client is not" in str(failure_of(wrong_key, TABLE, of_broker=False))
    text = str(failure_of(ValueError("canary"), CACHE, of_broker=False))
    assert "ValueError" in text
    assert "canary" not in text


def test_where_the_tickets_are() -> None:
    """Tickets of a key table stay in memory, one place for each; those of a cache are where it is."""
    assert CACHE.store == {}
    assert KerberosCredentials("kafka", "b", cache="/tmp/cache").store == {"ccache": "/tmp/cache"}
    other = attrs.evolve(TABLE, principal="other@X.EXAMPLE")
    # With the key table, the library would ask the KDC whenever it thinks fit.
    assert TABLE.store["client_keytab"].startswith("MEMORY:")
    assert TABLE.store["ccache"].startswith("MEMORY:")
    assert TABLE.store_of_kdc["client_keytab"] == "/etc/orders.keytab"
    # The library renews tickets in one place, while those in another one are used.
    places = {attrs.evolve(TABLE, renewals=number).store["ccache"] for number in range(4)}
    assert len(places) == 2
    assert TABLE.store_of_kdc["ccache"] not in places
    assert TABLE.store["ccache"] != other.store["ccache"]
    # The one before was given up.
    assert TABLE.store["ccache"] != attrs.evolve(TABLE, caches=1).store["ccache"]
    assert TABLE.service_at_host == "kafka@b.example"


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the extra."""
    monkeypatch.setitem(sys.modules, "gssapi", None)
    with pytest.raises(ConfigurationError, match="requires the extra kerberos"):
        exchanged(kerberos(TABLE))
    monkeypatch.delitem(sys.modules, "gssapi")
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(ConfigurationError, match=r"pip install 'aioproducer\[kerberos\]'"):
        require_gssapi()


def test_the_package_is_imported_only_when_it_is_used() -> None:
    """Neither the producer nor the table of mechanisms imports it."""
    code = "import sys, aioproducer, aioproducer.security.sasl.mechanisms; sys.exit('gssapi' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
