"""The life of a bearer token: its end, and the time from which another one is fetched."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping
from typing import Any

import attrs

from aioproducer.errors import ConfigurationError
from aioproducer.secret import Token

__all__ = ["AS_KAFKA", "LATEST", "CachedToken", "Renewal", "token_of"]

# The pause after a failure, as in Kafka's own client.
_PAUSE = 10.0
# A token that ends sooner is of no use for an authentication.
_LEAST_LEFT = 10.0
_PARTS_OF_A_JWT = 3
# Seconds since the epoch: the year 5138. Milliseconds of any present time are more.
LATEST = 1e11


def token_of(given: object) -> Token:
    """The token that a provider gave; ConfigurationError if it is none. No error shows it."""
    if isinstance(given, Token):
        token = given
    elif isinstance(given, str):
        token = Token(given)
    elif isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], str):
        token = Token(given[0], given[1])
    else:
        raise ConfigurationError(f"a Token, (str, expires_at) or str is expected, not {type(given).__name__}")
    end = _end_of(token) if token.expires_at is None else _seconds(token.expires_at)
    return Token(token.value, end, _texts(token.extensions))


def _seconds(time: object) -> float:
    if isinstance(time, bool) or not isinstance(time, int | float):
        raise ConfigurationError(
            f"expires_at of a token is a number of seconds since the epoch, not {type(time).__name__}"
        )
    try:
        seconds = float(time)
    except OverflowError:
        seconds = math.nan
    if math.isnan(seconds):
        raise ConfigurationError("expires_at of a token is not a time")
    if LATEST < seconds < math.inf:
        raise ConfigurationError(
            f"expires_at of a token is {seconds:.0f}: a number of seconds since the epoch is expected, not of milliseconds"
        )
    return seconds


def _texts(extensions: object) -> dict[str, str]:
    texts: dict[Any, Any] = dict(extensions) if isinstance(extensions, Mapping) else {None: None}
    if not all(isinstance(text, str) for pair in texts.items() for text in pair):
        raise ConfigurationError("the extensions of a token are a mapping of names to texts")
    return texts


def _end_of(token: Token) -> float | None:
    """The `exp` of a JWT, which is not verified here; None for any other token."""
    parts = token.value.reveal().split(".")
    if len(parts) != _PARTS_OF_A_JWT:
        return None
    try:
        claims: Any = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        end = float(claims["exp"])
    except (ValueError, LookupError, TypeError, RecursionError, OverflowError):
        return None
    return end if end <= LATEST else None


@attrs.frozen
class Renewal:
    """The time of renewal: parts of the life of a token, and least times in seconds after its start and before its end."""

    window_factor: float = 0.8
    window_jitter: float = 0.05
    min_period: float = 60.0
    buffer: float = 300.0


AS_KAFKA = Renewal()


@attrs.frozen
class CachedToken:
    """A token, the time when it was fetched, and the time from which the next is fetched; in seconds since the epoch."""

    token: Token
    refresh_at: float
    is_refused: bool = False

    @classmethod
    def fetched(cls, token: Token, now: float, chance: float, renewal: Renewal = AS_KAFKA) -> CachedToken:
        """The token that was fetched now; `chance` (0 to 1) spreads the producers of a group."""
        end = math.inf if token.expires_at is None else token.expires_at
        life = end - now
        if math.isinf(life):
            # Its end is not known: each authentication fetches one.
            return cls(token, now)
        refresh_at = now + life * (renewal.window_factor + renewal.window_jitter * chance)
        if life > renewal.min_period + renewal.buffer:
            refresh_at = max(now + renewal.min_period, min(refresh_at, end - renewal.buffer))
        # A factor and jitter that add up to more than 1 would be behind its end.
        return cls(token, min(refresh_at, end))

    def is_fresh(self, now: float) -> bool:
        """Whether no other token is needed yet."""
        return now < self.refresh_at

    def tried(self, now: float) -> CachedToken:
        """The same while another one is fetched: the next attempt has to wait, unless this token ends before."""
        end = now if self.token.expires_at is None else self.token.expires_at - _LEAST_LEFT
        return attrs.evolve(self, refresh_at=min(now + _PAUSE, end))

    def refused(self) -> CachedToken:
        """The same, which a broker has refused: another one is fetched at once. Other brokers may accept it meanwhile."""
        return attrs.evolve(self, refresh_at=-math.inf, is_refused=True)

    def is_usable(self, now: float) -> bool:
        """Whether it can still be used while no other token can be fetched."""
        return self.token.expires_at is not None and now < self.token.expires_at - _LEAST_LEFT
