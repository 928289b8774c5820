"""The token of a producer: fetched when an authentication needs one, and kept until it is about to expire."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from aioproducer._net.securing.calling import Given
from aioproducer.errors import AuthenticationError, ConfigurationError
from aioproducer.security.sasl.credentials import TokenCredentials
from aioproducer.security.tokens.lifetime import AS_KAFKA, CachedToken, token_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from random import Random

    from aioproducer._net.log import Log
    from aioproducer.secret import Token
    from aioproducer.security.tokens.lifetime import Renewal

__all__ = ["TokenSource"]


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
        self._fetched = 0
        self._fetching = asyncio.Lock()

    async def credentials(self) -> TokenCredentials:
        """The credentials of an authentication now; AuthenticationError if the provider gives none."""
        cached = self._cached
        if cached is not None and self._fetching.locked() and cached.is_usable(self._clock()):
            # A provider that hangs holds up no other connection.
            return self._credentials(cached.token)
        fetched = self._fetched
        async with self._fetching:
            cached = self._cached
            # A token of unknown end is never fresh. One that came while this waited is new enough.
            is_new = self._fetched > fetched
            if cached is None or not (is_new or cached.is_fresh(self._clock())):
                cached = self._cached = await self._renewed(cached)
        return self._credentials(cached.token)

    async def _renewed(self, present: CachedToken | None) -> CachedToken:
        now = self._clock()
        if present is not None and present.is_usable(now):
            # First: a call that hangs until its connection is given up is not repeated at once for the next one.
            present = self._cached = present.tried(now)
        wrong_settings = False
        try:
            given = await self._fetch()
        except ConfigurationError as error:  # such as a trust store that cannot be read
            given, wrong_settings = Given(problem=str(error)), True
        token, why = self._token_in(given)
        if token is not None:
            self._fetched += 1
            return CachedToken.fetched(token, self._clock(), self._rng.random(), self._renewal)
        if present is not None and present.is_usable(self._clock()):
            self._log.warning("%s %s: the present token is used until it expires", self._name, why)
            return present
        if wrong_settings:
            raise ConfigurationError(why)
        raise AuthenticationError(
            f"{self._name} {why}", reason="token", mechanism="OAUTHBEARER", retriable=not given.is_final
        )

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
