"""The credentials of authentications by their mechanism: passwords, bearer tokens and tickets of Kerberos."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from aioproducer._net.securing.calling import UserFunctions
from aioproducer._net.securing.configured import iam_provider, renewal_of
from aioproducer._net.securing.secrets import revealed
from aioproducer._net.securing.tickets import TicketSource
from aioproducer._net.securing.token_endpoint import TokenEndpoint
from aioproducer._net.securing.tokens import TokenSource
from aioproducer.errors import ConfigurationError
from aioproducer.security.sasl.credentials import PasswordCredentials
from aioproducer.security.sasl.kerberos import require_gssapi
from aioproducer.security.sasl.known_keys import KnownKeys

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable
    from random import Random

    from aioproducer._net.log import Log
    from aioproducer._net.securing.calling import Given
    from aioproducer._state.connecting.endpoint import BrokerEndpoint
    from aioproducer.config import ProducerConfig
    from aioproducer.security.sasl.credentials import TokenCredentials

__all__ = ["CredentialSource", "source_of"]


class CredentialSource(Protocol):
    """The place that credentials come from."""

    async def given(self, endpoint: BrokerEndpoint) -> Any:
        """The credentials of an authentication with this broker now."""

    def refused(self, credentials: Any) -> None:
        """A broker refused these: the next ones do not come from a cache."""


def source_of(
    config: ProducerConfig, loop: asyncio.AbstractEventLoop, log: Log, rng: Random
) -> CredentialSource:
    """The source of the credentials that these settings name."""
    if config.sasl_mechanism == "GSSAPI":
        require_gssapi()
        return TicketSource(config, log)
    if config.sasl_mechanism != "OAUTHBEARER":
        return _Passwords(config)
    fetch: Callable[[], Awaitable[Given]]
    provider, name = config.sasl_token_provider, "sasl_token_provider"
    if provider is None:
        provider, name = iam_provider(config), "IAMLoginModule"
    if provider is not None:
        fetch = partial(UserFunctions().call, provider)
    else:
        endpoint = TokenEndpoint(config, log, loop)
        fetch, name = endpoint.fetch, endpoint.name
    extensions = dict(config.sasl_extensions or ())
    return _Tokens(
        TokenSource(fetch, name, extensions, log, rng, renewal=renewal_of(config), clock=time.time)
    )


class _Tokens:
    """Bearer tokens, kept until they are about to expire or a broker refuses them."""

    def __init__(self, source: TokenSource) -> None:
        self._source = source

    async def given(self, _: BrokerEndpoint) -> TokenCredentials:
        return await self._source.credentials()

    def refused(self, credentials: TokenCredentials) -> None:
        self._source.refused(credentials)


class _Passwords:
    """A user name and a password, which is read each time."""

    def __init__(self, config: ProducerConfig) -> None:
        self._config = config
        self._keys = KnownKeys()
        self._functions = UserFunctions()

    async def given(self, _: BrokerEndpoint) -> PasswordCredentials:
        username, password = self._config.sasl_username, self._config.sasl_password
        if username is None or password is None:
            raise ConfigurationError("sasl_username and sasl_password are missing")
        return PasswordCredentials(
            username,
            await revealed("sasl_password", password, self._functions),
            is_token=self._config.sasl_scram_token_auth,
            most_iterations=self._config.sasl_scram_max_iterations,
            keys=self._keys,
        )

    def refused(self, _: PasswordCredentials) -> None:
        """Nothing of it is kept: a key is found by its password."""
