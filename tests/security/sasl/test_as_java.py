"""The messages of PLAIN, SCRAM and OAUTHBEARER are those of the Java client."""

from __future__ import annotations

import base64
import random
from collections.abc import Sequence
from itertools import product
from typing import Final

import pytest

from aioproducer._state.connecting.dialogue import Compute
from aioproducer.secret import Secret
from aioproducer.security.sasl.credentials import PasswordCredentials, TokenCredentials
from aioproducer.security.sasl.oauthbearer import oauthbearer
from aioproducer.security.sasl.plain import plain
from aioproducer.security.sasl.scram import SCRAM_SHA_256, SCRAM_SHA_512, Scram
from tests.golden.java import run_java

pytestmark = pytest.mark.kafka

NAMES: Final = ("user", "a=b,c", "ünï", "=2C", "u", "①ﬁx", "name with spaces", "\U0001f511")
PASSWORDS: Final = ("pencil", "p=,w", "①ﬁx", " ", "x" * 200, "\U0001f511")
END_OF_PAIR: Final = b"\x01"
TOKENS: Final = ("header.payload.signature", "a-b.c_d~e+f/g==")
EXTENSIONS: Final[tuple[dict[str, str], ...]] = (
    {},
    {"logicalCluster": "lkc-1"},
    {"a": "1=2", "identityPoolId": "pool-2 \t,"},
)


def of_java(mechanism: str, cases: Sequence[tuple[str, ...]]) -> list[list[bytes]]:
    """The messages of Java's client, for each case."""
    lines = [" ".join([mechanism, *(fact.encode().hex() for fact in facts)]) for facts in cases]
    printed = run_java("SaslMessages", "".join(f"{line}\n" for line in lines)).splitlines()
    assert len(printed) == len(cases)
    return [[bytes.fromhex(word) for word in line.split(" ")] for line in printed]


def test_plain() -> None:
    """Name and password as they are (S11)."""
    cases = list(product(NAMES, PASSWORDS))
    for (name, password), (message,) in zip(cases, of_java("PLAIN", cases), strict=True):
        assert next(plain(PasswordCredentials(name, Secret(password)))) == message


@pytest.mark.parametrize("scram", [SCRAM_SHA_256, SCRAM_SHA_512])
def test_scram(scram: Scram) -> None:
    """With the nonce of Java's client and the same answer of a broker; delegation tokens too."""
    rng = random.Random(18)
    cases = [
        (
            name,
            password,
            base64.b64encode(rng.randbytes(rng.randrange(1, 40))).decode(),
            str(rng.choice((4096, 8192))),
            rng.choice(("true", "false")),
        )
        for name, password in product(NAMES, PASSWORDS)
    ]
    for facts, (first, challenge, final) in zip(cases, of_java(scram.name, cases), strict=True):
        name, password, _, _, is_token = facts
        nonce = first.decode().partition(",r=")[2].partition(",")[0]
        credentials = PasswordCredentials(name, Secret(password), is_token=is_token == "true")
        exchange = scram.exchange(credentials, nonce=lambda nonce=nonce: nonce)  # type: ignore[misc]
        assert next(exchange) == first
        step = exchange.send(challenge)
        while isinstance(step, Compute):
            step = exchange.send(step.function())
        assert step == final


def test_oauthbearer() -> None:
    """The token and its extensions, whose order Java draws anew in each process (`Map.copyOf`)."""
    cases = list(product(TOKENS, EXTENSIONS))
    given = [(token, *map("=".join, extensions.items())) for token, extensions in cases]
    for (token, extensions), (message,) in zip(cases, of_java("OAUTHBEARER", given), strict=True):
        ours = next(oauthbearer(TokenCredentials(Secret(token), extensions)))
        assert isinstance(ours, bytes)
        assert sorted(ours.split(END_OF_PAIR)) == sorted(message.split(END_OF_PAIR))
        assert (len(ours), ours[:3], ours[-2:]) == (len(message), message[:3], message[-2:])
