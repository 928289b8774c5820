"""The session of a connection: which requests it may send, and what its authentication has come to.

Kafka closes a connection without an answer for a request that is out of order: anything but ApiVersions and
SaslHandshake at the beginning, and anything but a new authentication after the end of the session. Anything but
SaslAuthenticate within an exchange is answered with an error first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Final

import attrs

from aioproducer._wire.apis import API_VERSIONS, SASL_AUTHENTICATE, SASL_HANDSHAKE
from aioproducer._wire.error_codes import ErrorCode
from aioproducer.testing.broker.authentication.mechanisms import MECHANISMS, Exchange, Proven
from aioproducer.testing.broker.authentication.users import RefusedError, UnansweredError, Users

_LEAST_PAUSE: Final = 1.0
"""Seconds between the beginnings of two re-authentications of a connection; Kafka refuses one that comes earlier."""


@attrs.frozen(eq=False)
class Authentication:
    """The authentication that a cluster demands of its clients."""

    users: Users
    mechanisms: Sequence[str]
    session_lifetime: float | None
    """Seconds, as `connections.max.reauth.ms`; None: sessions end with their tokens only."""


class Phase(Enum):
    """The progress of an authentication."""

    FRESH = "nothing was asked"
    VERSIONS_KNOWN = "ApiVersions was answered"
    EXCHANGING = "a mechanism was chosen"
    DONE = "the client has proved who it is"
    REFUSED = "the connection ends behind this answer"


@attrs.frozen
class Step:
    """The answer to a message of a mechanism."""

    code: int
    message: str | None = None
    token: bytes = b""
    lifetime_ms: int = 0


@attrs.define(eq=False)
class Session:
    """The session of one connection. Without `demanded`, any request may come at any time."""

    demanded: Authentication | None
    clock: Callable[[], float]
    phase: Phase = Phase.FRESH
    user: str | None = None
    ends_at: float | None = None
    """By the clock of the cluster; None: never."""
    messages: int = 0
    """The SaslAuthenticate requests of the present exchange."""
    _mechanism: str | None = None
    _proposed: str = ""
    _exchange: Exchange | None = None
    _renewed: float | None = None
    """The beginning of the last re-authentication."""

    def admits(self, api_key: int) -> bool:
        """Whether a request is answered at this time: Kafka closes the connection of one that is not.

        Behind an answer to a request within an exchange that is not of SASL the connection ends: see `must_close`.
        """
        if self.demanded is None:
            return True
        match self.phase:
            case Phase.FRESH:
                admitted = api_key in (API_VERSIONS, SASL_HANDSHAKE)
                if api_key == API_VERSIONS:
                    self.phase = Phase.VERSIONS_KNOWN
            case Phase.VERSIONS_KNOWN:
                admitted = api_key == SASL_HANDSHAKE
            case Phase.EXCHANGING:
                admitted = True
                self.messages += 1
                if api_key != SASL_AUTHENTICATE:
                    self.phase = Phase.REFUSED
            case Phase.DONE:
                admitted = not self.is_over or api_key == SASL_HANDSHAKE
            case _:
                admitted = False
        return admitted

    @property
    def is_over(self) -> bool:
        """Whether the session has ended."""
        return self.ends_at is not None and self.clock() >= self.ends_at

    @property
    def must_close(self) -> bool:
        """Whether the connection ends behind the present answer."""
        return self.phase is Phase.REFUSED

    def versions_refused(self) -> None:
        """The version of ApiVersions is not supported: the client asks for another."""
        if self.phase is Phase.VERSIONS_KNOWN:
            self.phase = Phase.FRESH

    def choose(self, mechanism: str) -> int:
        """The client names its mechanism: the error code of the answer."""
        if self.demanded is None:
            return ErrorCode.ILLEGAL_SASL_STATE
        if self.phase is Phase.DONE:
            if self.ends_at is None or not self._may_renew():
                # The session goes on.
                return ErrorCode.ILLEGAL_SASL_STATE
            self._renewed = self.clock()
        if mechanism not in self.demanded.mechanisms:
            self.phase = Phase.REFUSED
            return ErrorCode.UNSUPPORTED_SASL_MECHANISM
        self.phase, self._proposed, self._exchange = Phase.EXCHANGING, mechanism, None
        self.messages = 0
        return ErrorCode.NONE

    def _may_renew(self) -> bool:
        return self._renewed is None or self.clock() - self._renewed >= _LEAST_PAUSE

    def answer(self, message: bytes) -> Step | None:
        """The answer to a message of the mechanism; None: the connection ends without one."""
        if self.demanded is None or self.phase is not Phase.EXCHANGING:
            return Step(
                ErrorCode.ILLEGAL_SASL_STATE, "SaslAuthenticate request received without SaslHandshake"
            )
        try:
            return self._go_on(self.demanded, message)
        except RefusedError as refusal:
            return self.refuse(ErrorCode.SASL_AUTHENTICATION_FAILED, str(refusal))
        except UnansweredError:
            return None

    def refuse(self, code: int, message: str | None) -> Step:
        """Refuse the client; the connection ends behind the answer."""
        self.phase = Phase.REFUSED
        return Step(code, message)

    def _go_on(self, demanded: Authentication, message: bytes) -> Step:
        if self._mechanism not in (None, self._proposed):
            raise UnansweredError("the mechanism of a connection does not change")
        try:
            if self._exchange is None:
                self._exchange = MECHANISMS[self._proposed](demanded.users, message)
                return Step(ErrorCode.NONE, token=next(self._exchange))
            return Step(ErrorCode.NONE, token=self._exchange.send(message))
        except StopIteration as end:
            return self._proven(demanded, end.value)

    def _proven(self, demanded: Authentication, proven: Proven) -> Step:
        if self.user is not None and proven.user != self.user:
            raise RefusedError(
                f"Cannot change principals during re-authentication from User:{self.user}: User:{proven.user}"
            )
        self.user, self._mechanism, self.phase = proven.user, self._proposed, Phase.DONE
        lifetime = demanded.session_lifetime
        if proven.ends_at is not None:
            rest = proven.ends_at - demanded.users.now()
            lifetime = rest if lifetime is None else min(rest, lifetime)
        self.ends_at = None if lifetime is None else self.clock() + lifetime
        milliseconds = 0 if lifetime is None else max(1, int(lifetime * 1000))
        return Step(ErrorCode.NONE, token=proven.answer, lifetime_ms=milliseconds)
