"""The security protocol that the settings of a producer ask for."""

from __future__ import annotations

import ssl
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import attrs

from aioproducer._net.connecting.security import PLAINTEXT, SecurityProtocol
from aioproducer._net.log import log_of
from aioproducer._net.securing.calling import Given, call, call_in_a_thread
from aioproducer._net.securing.configured import (
    iam_provider,
    renewal_of,
    tls_files,
    tls_secrets,
    tls_settings,
)
from aioproducer._net.securing.secrets import revealed, revealed_all
from aioproducer._net.securing.token_endpoint import TokenEndpoint
from aioproducer._net.securing.tokens import TokenSource
from aioproducer._net.tls.reloading import ReloadedContext
from aioproducer._state.connecting.authentication import SaslExchange, authentication
from aioproducer._state.connecting.dialogue import Await
from aioproducer.config import ticket_cache
from aioproducer.errors import ConfigurationError
from aioproducer.security.sasl.credentials import KerberosCredentials, PasswordCredentials
from aioproducer.security.sasl.kerberos import require_gssapi
from aioproducer.security.sasl.known_keys import KnownKeys
from aioproducer.security.sasl.mechanisms import MECHANISMS, Mechanism

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable
    from random import Random

    from aioproducer._net.log import Log
    from aioproducer._state.connecting.dialogue import Dialogue
    from aioproducer._state.connecting.endpoint import BrokerEndpoint
    from aioproducer._state.connecting.opening import BrokerVersions
    from aioproducer._state.connecting.sessions import AuthenticatedSession
    from aioproducer.config import ProducerConfig
    from aioproducer.security.tls.settings import TlsSettings

__all__ = ["security_of"]


def security_of(config: ProducerConfig, loop: asyncio.AbstractEventLoop, rng: Random) -> SecurityProtocol:
    """The security protocol of all connections of a producer. Warns of settings that weaken it."""
    protocol = config.security_protocol
    if protocol == "PLAINTEXT":
        return PLAINTEXT
    log = log_of(config.client_id)
    found = _over_tls(config, loop, log) if protocol.endswith("SSL") else PLAINTEXT
    if not protocol.startswith("SASL"):
        return found
    credentials = _Credentials(loop, log, rng)
    credentials.adopt(config)
    authenticate = _authenticate(MECHANISMS[config.sasl_mechanism], credentials)
    return attrs.evolve(found, authenticate=authenticate, adopt_credentials=credentials.adopt)


# -- TLS


def _over_tls(config: ProducerConfig, loop: asyncio.AbstractEventLoop, log: Log) -> SecurityProtocol:
    if config.ssl_context is not None:
        # A callable is called for each connection.
        return SecurityProtocol(partial(_own_context, config.ssl_context, log, []))
    if not config.ssl_endpoint_identification_algorithm:
        log.warning(
            "ssl_endpoint_identification_algorithm='': the host names of brokers are not checked, so that any holder of a "
            "trusted certificate can take the place of a broker"
        )

    async def settings() -> TlsSettings:
        return tls_settings(config, await revealed_all(tls_secrets(config)))

    context = ReloadedContext(settings, tls_files(config), log, loop.time)
    return SecurityProtocol(context.current, reload_certificates=context.reload)


async def _own_context(
    source: ssl.SSLContext | Callable[[], ssl.SSLContext], log: Log, warned: list[str]
) -> ssl.SSLContext:
    given = Given(source) if isinstance(source, ssl.SSLContext) else await call_in_a_thread(source)
    if not isinstance(given.value, ssl.SSLContext):
        why = given.problem or f"gave {type(given.value).__name__}, not ssl.SSLContext"
        raise ConfigurationError(f"ssl_context: the callable {why}")
    context = given.value
    risks = _risks_of(context)
    if risks and risks not in warned:
        warned[:] = [risks]
        log.warning("ssl_context: %s", risks)
    return context


def _risks_of(context: ssl.SSLContext) -> str:
    found = []
    if context.verify_mode is not ssl.CERT_REQUIRED:
        found.append("the certificates of brokers are not required")
    if not context.check_hostname:
        found.append("the host names of brokers are not checked")
    if _allows_old_versions(context):
        found.append("versions before TLS 1.2 are allowed")
    return "; ".join(found)


def _allows_old_versions(context: ssl.SSLContext) -> bool:
    if context.minimum_version is ssl.TLSVersion.MAXIMUM_SUPPORTED:
        return False
    # MINIMUM_SUPPORTED, which is no limit, is less than each version.
    is_ruled_out = context.options & ssl.OP_NO_TLSv1 and context.options & ssl.OP_NO_TLSv1_1
    return context.minimum_version < ssl.TLSVersion.TLSv1_2 and not is_ruled_out


# -- SASL


def _authenticate(
    mechanism: Mechanism, credentials: _Credentials
) -> Callable[[BrokerEndpoint, BrokerVersions], Dialogue[AuthenticatedSession]]:
    def exchange(endpoint: BrokerEndpoint) -> SaslExchange:
        given = yield Await("the request for credentials", partial(credentials.present, endpoint))
        yield from mechanism.exchange(given)

    def authenticate(endpoint: BrokerEndpoint, versions: BrokerVersions) -> Dialogue[AuthenticatedSession]:
        return authentication(mechanism.name, exchange(endpoint), versions)

    return authenticate


class _Credentials:
    """The credentials of the next authentication; the program may change them while connections are open."""

    present: Callable[[BrokerEndpoint], Awaitable[Any]]

    def __init__(self, loop: asyncio.AbstractEventLoop, log: Log, rng: Random) -> None:
        self._loop = loop
        self._log = log
        self._rng = rng

    def adopt(self, config: ProducerConfig) -> None:
        """Use the credentials of this configuration, which has the same mechanism."""
        self.present = _credentials_of(config, self._loop, self._log, self._rng)


def _credentials_of(
    config: ProducerConfig, loop: asyncio.AbstractEventLoop, log: Log, rng: Random
) -> Callable[[BrokerEndpoint], Awaitable[Any]]:
    if config.sasl_mechanism == "GSSAPI":
        require_gssapi()
        return partial(_kerberos_credentials, config)
    if config.sasl_mechanism != "OAUTHBEARER":
        return partial(_password_credentials, config, KnownKeys())
    fetch: Callable[[], Awaitable[Given]]
    provider, name = config.sasl_token_provider, "sasl_token_provider"
    if provider is None:
        provider, name = iam_provider(config), "IAMLoginModule"
    if provider is not None:
        fetch = partial(call, provider)
    else:
        endpoint = TokenEndpoint(config, log, loop)
        fetch, name = endpoint.fetch, endpoint.name
    extensions = dict(config.sasl_extensions or ())
    source = TokenSource(fetch, name, extensions, log, rng, renewal=renewal_of(config), clock=time.time)
    return lambda _: source.credentials()


async def _kerberos_credentials(config: ProducerConfig, endpoint: BrokerEndpoint) -> KerberosCredentials:
    return KerberosCredentials(
        config.sasl_kerberos_service_name or "",
        endpoint.server_name,
        config.sasl_kerberos_principal,
        config.sasl_kerberos_keytab,
        ticket_cache(config.sasl_jaas_config),
    )


async def _password_credentials(
    config: ProducerConfig, keys: KnownKeys, _: BrokerEndpoint
) -> PasswordCredentials:
    username, password = config.sasl_username, config.sasl_password
    if username is None or password is None:
        raise ConfigurationError("sasl_username and sasl_password are missing")
    return PasswordCredentials(
        username,
        await revealed("sasl_password", password),
        is_token=config.sasl_scram_token_auth,
        most_iterations=config.sasl_scram_max_iterations,
        keys=keys,
    )
