"""The token of a producer: fetched when an authentication needs one, and kept until it is about to expire."""

from __future__ import annotations

import asyncio
import copy
from typing import TYPE_CHECKING, Final

import anyio
import attrs

from aioproducer._net.securing.calling import LONGEST_CALL, Given
from aioproducer._state.backoff import Backoff
from aioproducer.errors import AuthenticationError, ConfigurationError, KafkaError
from aioproducer.security.sasl.credentials import TokenCredentials
from aioproducer.security.tokens.lifetime import AS_KAFKA, CachedToken, token_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from random import Random

    from aioproducer._net.log import Log
    from aioproducer.secret import Token
    from aioproducer.security.tokens.lifetime import Renewal

__all__ = ["TokenSource"]

# Between calls of a provider that fails, for all connections of the producer. The longest is that of Kafka's own client.
_FAILED_PAUSE: Final = Backoff(1.0, 10.0)

# Seconds that a connection waits for another token than the one that a broker refused.
_REFUSED_WAITS: Final = 1.0


@attrs.frozen
class _Failed:
    """The failures of the provider since it gave the last token."""

    count: int
    not_before: float
    error: KafkaError

    def holds(self, now: float) -> bool:
        """Whether the provider is not called yet. A clock that was set back makes the pause no longer."""
        return 0 < self.not_before - now <= _FAILED_PAUSE.maximum


class TokenSource:
    """Fetches one token for all connections that need one at the same time.

    `fetch` is a call of a provider, or of a token endpoint; `name` is its name in errors.
    """

    def __init__(
        self,
        fetch: Callable[[], Awaitable[Given]],
        name: str,
        extensions: Mapping[str, str],
        log: Log,
        rng: Random,
        *,
        renewal: Renewal = AS_KAFKA,
        clock: Callable[[], float],
    ) -> None:
        self._fetch = fetch
        self._name = name
        self._renewal = renewal
        self._extensions = extensions
        self._log = log
        self._rng = rng
        self._clock = clock
        self._cached: CachedToken | None = None
        self._failed: _Failed | None = None
        self._fetched = 0
        self._fetching = asyncio.Lock()

    async def credentials(self) -> TokenCredentials:
        """The credentials of an authentication now; AuthenticationError if the provider gives none."""
        cached = self._cached
        # A provider that hangs holds up no other connection, or for a second where a broker has refused the token.
        is_usable = cached is not None and cached.is_usable(self._clock())
        if cached is not None and is_usable and self._fetching.locked():
            waits = _REFUSED_WAITS if cached.is_refused else 0.0
            if not await self._ends_within(waits):
                return self._credentials(cached.token)
        fetched = self._fetched
        async with self._fetching:
            cached = self._cached
            # A token of unknown end is never fresh. One that came while this waited is new enough.
            is_new = self._fetched > fetched
            if cached is None or not (is_new or cached.is_fresh(self._clock())):
                cached = self._cached = await self._renewed(cached)
        return self._credentials(cached.token)

    async def _ends_within(self, seconds: float) -> bool:
        """Whether the call of the provider that is under way ends in time."""
        if seconds <= 0:
            return False
        with anyio.move_on_after(seconds):
            async with self._fetching:
                return True
        return False

    def refused(self, credentials: TokenCredentials) -> None:
        """A broker refused these: the next authentication fetches another token, whatever end this one has.

        It is used as long as the provider fails: the other brokers may accept it.
        """
        if self._cached is not None and self._cached.token.value == credentials.token:
            self._cached = self._cached.refused()

    async def _renewed(self, present: CachedToken | None) -> CachedToken:
        now = self._clock()
        if self._failed is not None and self._failed.holds(now):
            raise copy.copy(self._failed.error)
        if present is not None and present.is_usable(now):
            # First: a call that hangs until its connection is given up is not repeated at once for the next one.
            present = self._cached = present.tried(now + LONGEST_CALL if present.is_refused else now)
        wrong_settings = False
        try:
            given = await self._fetch()
        except ConfigurationError as error:  # such as a trust store that cannot be read
            given, wrong_settings = Given(problem=str(error)), True
        except Exception as error:  # noqa: BLE001  # of another package, such as a key that cannot sign
            given = Given(problem=f"failed with {type(error).__name__}")
        token, why = self._token_in(given)
        if token is not None:
            self._failed = None
            self._fetched += 1
            return CachedToken.fetched(token, self._clock(), self._rng.random(), self._renewal)
        if present is not None and present.is_usable(self._clock()):
            self._log.warning("%s %s: the present token is used until it expires", self._name, why)
            # A broker may have refused it meanwhile.
            return (self._cached or present).tried(self._clock())
        if wrong_settings:
            raise self._noted(ConfigurationError(why))
        raise self._noted(
            AuthenticationError(
                f"{self._name} {why}", reason="token", mechanism="OAUTHBEARER", retriable=not given.is_final
            )
        )

    def _noted(self, error: KafkaError) -> KafkaError:
        """The error, which is that of all connections until the pause is over."""
        count = 0 if self._failed is None else self._failed.count
        not_before = self._clock() + _FAILED_PAUSE.after(count, self._rng)
        # A copy: an error that is raised collects a traceback with its frames.
        self._failed = _Failed(count + 1, not_before, copy.copy(error))
        return error

    def _token_in(self, given: Given) -> tuple[Token | None, str]:
        """The token, or the reason for which it cannot be used. Such a token is not kept: the next one may be valid."""
        if given.problem:
            return None, given.problem
        try:
            token = token_of(given.value)
            self._credentials(token)
        except ConfigurationError as error:
            return None, f"failed: {error}"
        except Exception as error:  # noqa: BLE001  # of an object of the user; its text and its frames may have a token
            return None, f"gave an object that raised {type(error).__name__}"
        return token, ""

    def _credentials(self, token: Token) -> TokenCredentials:
        return TokenCredentials(token.value, {**self._extensions, **token.extensions})
