"""A driver of SASL exchanges for tests: computations are made at once, and each message gets the next challenge."""

from __future__ import annotations

from collections.abc import Callable

from aioproducer._state.connecting.authentication import SaslExchange
from aioproducer._state.connecting.dialogue import Compute


def exchanged(exchange: SaslExchange, *challenges: bytes | Callable[[bytes], bytes]) -> list[bytes]:
    """The messages of the client, each of which gets the next challenge; AssertionError if it does not end with them."""
    messages: list[bytes] = []
    answers = iter(challenges)
    step = next(exchange)
    try:
        while True:
            if isinstance(step, bytes):
                messages.append(step)
                challenge = next(answers, None)
                assert challenge is not None, "the exchange goes on"
                step = exchange.send(challenge(step) if callable(challenge) else challenge)
            else:
                assert isinstance(step, Compute)
                step = exchange.send(step.function())
    except StopIteration:
        assert next(answers, None) is None, "the exchange ended early"
        return messages
