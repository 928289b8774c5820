"""SCRAM: the messages of the RFCs, and dishonest brokers."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioproducer._state.connecting.authentication import SaslExchange
from aioproducer._state.connecting.dialogue import Compute
from aioproducer.errors import AuthenticationError
from aioproducer.secret import Secret
from aioproducer.security.sasl.credentials import PasswordCredentials
from aioproducer.security.sasl.known_keys import Derivation, DerivedKey, KnownKeys
from aioproducer.security.sasl.scram import SCRAM_SHA_256, SCRAM_SHA_512, Scram, fresh_nonce
from tests.security.sasl.exchanging import exchanged
from tests.security.sasl.scram_server import ScramServer

NONCE = "fyko+d2lbbFgONRv9qkxdawL"
USER = PasswordCredentials("user", Secret("pencil"))
FIRST = f"r={NONCE}more,s=QSXCR+Q6sek8bf92,i=4096".encode()
BOTH = pytest.mark.parametrize("scram", [SCRAM_SHA_256, SCRAM_SHA_512])


def test_the_messages_of_rfc_7677() -> None:
    """The messages of SCRAM-SHA-256 are those of the RFC, byte by byte."""
    nonce = "rOprNGfwEbeRWgbNEkqO"
    both = nonce + "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    messages = exchanged(
        SCRAM_SHA_256.exchange(USER, nonce=lambda: nonce),
        f"r={both},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode(),
        b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
    )
    assert messages == [
        f"n,,n=user,r={nonce}".encode(),
        f"c=biws,r={both},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=".encode(),
    ]


def test_the_messages_of_rfc_5802() -> None:
    """The messages with the hash of that RFC are the same, byte by byte."""
    both = NONCE + "3rfcNHYJY1ZVvWVs7j"
    messages = exchanged(
        Scram("SCRAM-SHA-1", "sha1").exchange(USER, nonce=lambda: NONCE),
        f"r={both},s=QSXCR+Q6sek8bf92,i=4096".encode(),
        b"v=rmF9pqV8S7suAoZWja4dJRkFsKQ=",
    )
    assert messages[1] == f"c=biws,r={both},p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=".encode()


@BOTH
@pytest.mark.parametrize(
    ("name", "password"), [("user", "pencil"), ("a=b,c", "p=,w"), ("ünï", "①ﬁx"), ("=2C", " ")]
)
def test_an_honest_broker(scram: Scram, name: str, password: str) -> None:
    """Names have `=` and `,` escaped; names and passwords are UTF-8 as they are, without SASLprep (S11)."""
    server = ScramServer(scram.hash, name, password)
    exchange = scram.exchange(PasswordCredentials(name, Secret(password)))
    assert len(exchanged(exchange, server.first, server.final)) == 2


def test_a_delegation_token_says_that_it_is_one() -> None:
    """The id and HMAC of the token are used like a name and a password, with an extension of Kafka's."""
    server = ScramServer("sha256", "id", "hmac")
    credentials = PasswordCredentials("id", Secret("hmac"), is_token=True)
    messages = exchanged(SCRAM_SHA_256.exchange(credentials, nonce=lambda: NONCE), server.first, server.final)
    assert messages[0] == f"n,,n=id,r={NONCE},tokenauth=true".encode()


def derivations(exchange: SaslExchange, server: ScramServer) -> int:
    """The number of keys that an exchange with an honest broker derives."""
    count = 0
    answers = iter((server.first, server.final))
    step = next(exchange)
    while True:
        count += isinstance(step, Compute)
        try:
            step = exchange.send(next(answers)(step) if isinstance(step, bytes) else step.function())  # type: ignore[attr-defined]
        except StopIteration:
            return count


@BOTH
def test_a_key_is_derived_once(scram: Scram) -> None:
    """Later exchanges with the same salt use it; another password, as of a file that was replaced, has its own (S09)."""
    keys = KnownKeys()
    counts = []
    for password in ("first", "first", "second", "second", "first"):
        credentials = PasswordCredentials("user", Secret(password), keys=keys)
        server = ScramServer(scram.hash, "user", password)
        counts.append(derivations(scram.exchange(credentials), server))
    assert counts == [1, 0, 1, 0, 1]
    credentials = PasswordCredentials("user", Secret("first"), keys=keys)
    more = ScramServer(scram.hash, "user", "first", iterations=5000)
    assert derivations(scram.exchange(credentials), more) == 1


def test_few_keys_are_kept() -> None:
    """A broker that sends another salt each time fills no memory, and no key is shown."""
    keys = KnownKeys()
    for number in range(100):
        derivation = Derivation("sha256", bytes([number]), 4096)
        keys.keep(derivation, Secret("canary"), DerivedKey("sha256", b"canary-key"))
    kept = [n for n in range(100) if keys.find(Derivation("sha256", bytes([n]), 4096), Secret("canary"))]
    assert kept == [96, 97, 98, 99]
    key = keys.find(Derivation("sha256", bytes([99]), 4096), Secret("canary"))
    assert "canary" not in repr(key) + repr(keys) + repr(
        PasswordCredentials("user", Secret("canary"), keys=keys)
    )


def test_nonces_differ() -> None:
    """Each nonce has at least 144 random bits, and no character with a meaning in SCRAM (S08)."""
    nonces = {fresh_nonce() for _ in range(100)}
    assert len(nonces) == 100
    assert all(len(base64.urlsafe_b64decode(nonce)) >= 18 and "," not in nonce for nonce in nonces)


def refusal_of(*challenges: bytes | Callable[[bytes], bytes]) -> tuple[AuthenticationError, list[str]]:
    """The error for a broker with this answer, and the messages that it got."""
    got: list[str] = []

    def noted(challenge: bytes | Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
        def answer(message: bytes) -> bytes:
            got.append(message.decode())
            return challenge(message) if callable(challenge) else challenge

        return answer

    with pytest.raises(AuthenticationError) as raised:
        exchanged(SCRAM_SHA_256.exchange(USER, nonce=lambda: NONCE), *map(noted, challenges))
    return raised.value, got


CHEATS: Final = (
    (b"", "is not one of SCRAM"),
    (b"\xff", "not UTF-8"),
    (b"r=,s=QSXC,i=4096", "its nonce does not continue"),
    (FIRST.replace(b"fyko", b"gyko"), "its nonce does not continue"),
    (FIRST.replace(b"more", b""), "its nonce does not continue"),
    (FIRST.replace(b"4096", b"0"), "iterations"),
    (FIRST.replace(b"4096", b"1"), "iterations"),
    (FIRST.replace(b"4096", b"4095"), "iterations"),
    (FIRST.replace(b"4096", b"1000001"), "iterations"),
    (FIRST.replace(b"4096", b"2147483647"), "iterations"),
    (FIRST.replace(b"4096", b"9" * 5000), "iterations"),
    (FIRST.replace(b"4096", b"abc"), "iterations"),
    (FIRST.replace(b"4096", b"-4096"), "iterations"),
    (FIRST.replace(b"4096", "\uff14\uff10\uff19\uff16".encode()), "iterations"),
    (FIRST.replace(b"QSXCR+Q6sek8bf92", b""), "salt is empty"),
    (FIRST.replace(b"QSXCR", b"QS CR"), "not base64"),
    (FIRST.replace(b"QSXCR", b"QSXC"), "not base64"),
    (b"m=x," + FIRST, "is not one of SCRAM"),
    (FIRST + b",m=x", "is not one of SCRAM"),
    (FIRST + b",i=4096", "is not one of SCRAM"),
    (FIRST.partition(b",i=")[0], "is not one of SCRAM"),
    (b"e=unknown-user", "is not one of SCRAM"),
    (b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=", "is not one of SCRAM"),
)


@pytest.mark.parametrize(("first", "why"), CHEATS)
def test_a_first_message_that_is_refused(first: bytes, why: str) -> None:
    """After an untrusted first message no key is derived and no message is sent (S08, S09)."""
    error, got = refusal_of(first)
    assert why in str(error)
    assert (error.reason, error.mechanism) == ("server", "SCRAM-SHA-256")
    assert len(got) == 1
    assert "pencil" not in str(error)


def test_a_refusal_takes_no_time() -> None:
    """Within a millisecond of the loop's thread: the fastest of five, as the machine may be busy."""
    slow = [first for first, _ in CHEATS if min(seconds_of_a_refusal(first) for _ in range(5)) > 0.001]
    assert slow == []


def seconds_of_a_refusal(first: bytes) -> float:
    """The processor time from the broker's first message to the error."""
    exchange = SCRAM_SHA_256.exchange(USER, nonce=lambda: NONCE)
    next(exchange)
    began = time.thread_time()
    with pytest.raises(AuthenticationError):
        exchange.send(first)
    return time.thread_time() - began


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda _: b"", "no signature"),
        (lambda _: b"e=other-error\n", r"it answered other-error\n"),
        (lambda _: b"v=", "signature is wrong"),
        (lambda _: b"v=?", "not base64"),
        (lambda honest: honest[:6], "signature is wrong"),
        (lambda honest: honest.replace(b"v=", b"w="), "no signature"),
        (
            lambda honest: b"v=" + base64.b64encode(bytes(len(base64.b64decode(honest[2:])))),
            "signature is wrong",
        ),
    ],
)
def test_a_broker_that_does_not_know_the_password(change: Callable[[bytes], bytes], why: str) -> None:
    """Without a valid signature the broker does not know the password (S10)."""
    server = ScramServer("sha256", "user", "pencil")
    error, _ = refusal_of(server.first, lambda message: change(server.final(message)))
    assert why in str(error)
    assert error.reason == "server"


@given(st.binary(max_size=80), st.binary(max_size=80))
def test_random_messages_raise_only_authentication_errors(first: bytes, final: bytes) -> None:
    """Random bytes in either place raise an authentication error."""
    refusal_of(first)
    server = ScramServer("sha256", "user", "pencil")
    refusal_of(server.first, final)
