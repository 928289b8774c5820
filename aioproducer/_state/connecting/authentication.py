"""SASL authentication of a connection: Kafka's requests carry the messages of a mechanism."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing
from typing import Any, TypeAlias

from aioproducer._state.connecting.dialogue import Ask, Dialogue, Now, Step
from aioproducer._state.connecting.opening import BrokerVersions
from aioproducer._state.connecting.sessions import AuthenticatedSession
from aioproducer._wire.apis import SASL_AUTHENTICATE, SASL_HANDSHAKE
from aioproducer._wire.codec import decode_response
from aioproducer._wire.error_codes import ErrorCode, describe
from aioproducer._wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from aioproducer._wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from aioproducer.errors import AuthenticationError, BrokerUnavailableError, ProtocolError, printable

__all__ = ["SaslExchange", "authentication"]

SaslExchange: TypeAlias = Generator[bytes | Step[Any], Any, None]
"""The client's side of a SASL mechanism: `challenge = yield message`, with steps of dialogues in between. It ends when the
mechanism is complete; if the mechanism authenticates the broker as well, only after that."""

# Since Kafka 1.0 the messages of the mechanism travel inside SaslAuthenticate; before, they were bare bytes.
_WITH_SASL_AUTHENTICATE = 1
_MOST_ROUNDS = 10
# Kafka's words, with the code of refused credentials, where those of another user are presented on an open connection.
_PRINCIPAL_IS_KEPT = "Cannot change principals"


def _nothing() -> None:
    pass


def _as_they_are(words: str, _message: bytes) -> str:
    return words


def authentication(
    mechanism: str,
    exchange: SaslExchange,
    versions: BrokerVersions,
    before_message: Callable[[], None] = _nothing,
    shown: Callable[[str, bytes], str] = _as_they_are,
) -> Dialogue[AuthenticatedSession]:
    """Authenticate by this mechanism; no other mechanism that the broker offers is used.

    The steps of the exchange before its first message, such as getting a token, come before the first request.
    `before_message` is called before each message of the mechanism; an error of it ends the authentication. `shown` makes
    words of the broker about a message fit for errors: they may repeat it.
    """
    version = versions.choose(SASL_AUTHENTICATE)
    with closing(exchange):
        question = yield from _advance(exchange, None, version)
        yield from _handshake(mechanism, versions)
        for _round in range(_MOST_ROUNDS):
            if question is None:
                raise _unproven("the mechanism ended before the broker answered", mechanism, versions)
            before_message()
            written_at = yield from Now()
            answer = _as_shown(
                decode_response(SaslAuthenticateResponse, version, (yield from question))[1], question, shown
            )
            _check(answer, mechanism, versions)
            question = yield from _advance(exchange, answer.auth_bytes, version)
            if question is None:
                return AuthenticatedSession.granted(mechanism, written_at, answer.session_lifetime_ms)
        raise _unproven(f"the broker continues after {_MOST_ROUNDS} messages", mechanism, versions)


def _advance(exchange: SaslExchange, value: bytes | None, version: int) -> Dialogue[Ask | None]:
    """The request with the next message of the exchange; None when the exchange is complete."""
    try:
        step = exchange.send(value)
        while not isinstance(step, bytes):
            try:
                result = yield step
            except Exception as error:  # noqa: BLE001  # the mechanism decides on the error
                step = exchange.throw(error)
            else:
                step = exchange.send(result)
    except StopIteration:
        return None
    return Ask(SaslAuthenticateRequest(step), version)


def _handshake(mechanism: str, versions: BrokerVersions) -> Dialogue[None]:
    version = versions.choose(SASL_HANDSHAKE, at_least=_WITH_SASL_AUTHENTICATE)
    frame = yield from Ask(SaslHandshakeRequest(mechanism), version)
    answer = decode_response(SaslHandshakeResponse, version, frame)[1]
    if answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        offered = ", ".join(map(printable, answer.mechanisms)) or "none"
        raise AuthenticationError(
            f"the broker does not accept sasl_mechanism {mechanism}; it offers {offered}",
            broker=versions.broker,
            reason="mechanism",
            mechanism=mechanism,
            code=answer.error_code,
        )
    if answer.error_code == ErrorCode.ILLEGAL_SASL_STATE:
        raise ProtocolError("the listener does not support SASL", broker=versions.broker)
    if answer.error_code:
        raise _refused("SaslHandshake", answer.error_code, versions)


def _as_shown(
    answer: SaslAuthenticateResponse, question: Ask, shown: Callable[[str, bytes], str]
) -> SaslAuthenticateResponse:
    """The answer without what the broker repeats of the credentials. No frame of an error has its words as they were."""
    if not answer.error_message:
        return answer
    return answer._replace(error_message=shown(answer.error_message, question.message[0]))


def _check(answer: SaslAuthenticateResponse, mechanism: str, versions: BrokerVersions) -> None:
    code = answer.error_code
    if code == ErrorCode.SASL_AUTHENTICATION_FAILED:
        words = printable(answer.error_message or describe(code))
        if _PRINCIPAL_IS_KEPT in words:
            # No fact about the credentials: a new connection shows whether the broker accepts them.
            text = f"the broker needs a new connection for another user: {words}"
            raise BrokerUnavailableError(text, broker=versions.broker)
        raise AuthenticationError(
            f"the broker refused the credentials: {words}",
            broker=versions.broker,
            reason="credentials",
            mechanism=mechanism,
            code=code,
        )
    if code:
        raise _refused("SaslAuthenticate", code, versions)


def _refused(request: str, code: int, versions: BrokerVersions) -> BrokerUnavailableError:
    text = f"{request} was refused: {describe(code)} (error {code})"
    return BrokerUnavailableError(text, broker=versions.broker)


def _unproven(why: str, mechanism: str, versions: BrokerVersions) -> AuthenticationError:
    return AuthenticationError(why, broker=versions.broker, reason="server", mechanism=mechanism)
