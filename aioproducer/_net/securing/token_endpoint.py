"""The token endpoint of the settings: asked for a token when the producer needs one, and asked again after a fault."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING, Final

from aioproducer._net.securing.assertions import assertion_of
from aioproducer._net.securing.calling import LONGEST_CALL, Given, UserFunctions
from aioproducer._net.securing.configured import endpoint_files, endpoint_tls
from aioproducer._net.securing.https import HttpsError, Route, answer_of
from aioproducer._net.securing.secrets import revealed
from aioproducer._net.tls.reloading import ReloadedContext
from aioproducer.errors import AuthenticationError, ConfigurationError
from aioproducer.secret import Secret, SecretFile
from aioproducer.security.https import https_url
from aioproducer.security.tokens.requests import (
    Refusal,
    by_client_assertion,
    by_client_secret,
    by_jwt_bearer,
    token_in,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from aioproducer._net.log import Log
    from aioproducer.config import ProducerConfig
    from aioproducer.secret import SecretSource
    from aioproducer.security.https import Answer
    from aioproducer.security.tls.settings import TlsSettings

__all__ = ["TokenEndpoint"]

# Seconds between two attempts, also where the settings ask for none.
_LEAST_PAUSE: Final = 0.05


class TokenEndpoint:
    """Gets a token by the grant that the settings name. Its certificate is checked against a trust store of its own."""

    def __init__(
        self,
        config: ProducerConfig,
        log: Log,
        loop: asyncio.AbstractEventLoop,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._config = config
        self._url = https_url(config.sasl_oauthbearer_token_endpoint_url or "")
        self._loop = loop
        self._clock = clock
        self._functions = UserFunctions()
        self._route = Route()
        self._context = ReloadedContext(self._tls, endpoint_files(config), log, loop.time).current

    @property
    def name(self) -> str:
        """The endpoint in errors. Not the whole URL: its query may be secret."""
        return f"the token endpoint {self._url.authority}"

    async def fetch(self) -> Given:
        """A token, or the reason for which there is none. Faults of the network and the server are tried again."""
        config = self._config
        end = self._loop.time() + min(config.sasl_login_retry_backoff_max_ms / 1000, LONGEST_CALL)
        pause = max(config.sasl_login_retry_backoff_ms / 1000, _LEAST_PAUSE)
        last = Given(problem=f"gave nothing within {LONGEST_CALL:g} s")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LONGEST_CALL):
                last = await self._attempt()
                while last.problem and not last.is_final and self._loop.time() + pause < end:
                    await asyncio.sleep(pause)
                    pause *= 2
                    last = await self._attempt()
        return last

    async def _attempt(self) -> Given:
        now = self._clock()
        try:
            request, secret = await self._request()
            found = token_in(await self._answer(request), now, (secret,))
        except HttpsError as error:
            return Given(problem=str(error), is_final=error.is_final)
        except AuthenticationError as error:  # of a callable that gives a secret
            return Given(problem=f"was not asked: {error}")
        if isinstance(found, Refusal):
            return Given(problem=found.why, is_final=found.is_final)
        return Given(found)

    async def _answer(self, request: Secret) -> Answer:
        config = self._config
        return await answer_of(
            self._url,
            request,
            await self._context(),
            self._route,
            connect_within=_seconds(config.sasl_login_connect_timeout_ms),
            answer_within=_seconds(config.sasl_login_read_timeout_ms),
        )

    # -- the request

    async def _request(self) -> tuple[Secret, Secret]:
        """The request, and the secret or the assertion that it has."""
        config = self._config
        client_id, scope = (
            config.sasl_oauthbearer_client_credentials_client_id,
            config.sasl_oauthbearer_scope,
        )
        secret = config.sasl_oauthbearer_client_credentials_client_secret
        if config.sasl_oauthbearer_jwt_retriever_class.endswith("JwtBearerJwtRetriever"):
            assertion = await self._assertion()
            return by_jwt_bearer(self._url, assertion, scope), assertion
        if secret is None:
            assertion = await self._assertion()
            return by_client_assertion(self._url, assertion, client_id, scope), assertion
        filled = await self._filled("sasl_oauthbearer_client_credentials_client_secret", secret)
        is_urlencoded = config.sasl_oauthbearer_header_urlencode
        request = by_client_secret(self._url, client_id or "", filled, scope, is_urlencoded=is_urlencoded)
        return request, filled

    async def _assertion(self) -> Secret:
        # Made or read again each time: it expires.
        file = self._config.sasl_oauthbearer_assertion_file
        if file is None:
            return await assertion_of(self._config, self._clock(), self._functions)
        assertion = await self._filled("sasl_oauthbearer_assertion_file", SecretFile(file))
        return Secret(assertion.reveal().strip())

    async def _filled(self, setting: str, source: SecretSource) -> Secret:
        """The secret of a setting. An empty one would be refused, and many refusals may lock the account."""
        secret = await revealed(setting, source, self._functions)
        if not secret.reveal().strip():
            place = f"{source.path} " if isinstance(source, SecretFile) else ""
            raise ConfigurationError(f"{setting}: {place}is empty")
        return secret

    async def _tls(self) -> TlsSettings:
        return endpoint_tls(self._config)


def _seconds(timeout_ms: int | None) -> float:
    return LONGEST_CALL if timeout_ms is None else timeout_ms / 1000
