"""The security protocol that the settings of a producer ask for."""

from __future__ import annotations

import logging
import ssl
from base64 import b64encode, urlsafe_b64encode
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import anyio
import attrs

from aioproducer._callers.own_thread import OneThread
from aioproducer._net.connecting.security import PLAINTEXT, CredentialsChanged, SecurityProtocol
from aioproducer._net.log import log_of
from aioproducer._net.securing.calling import LONGEST_CALL, Given, UserFunctions, call_in_one_thread
from aioproducer._net.securing.configured import tls_files, tls_secrets, tls_settings
from aioproducer._net.securing.secrets import revealed_all
from aioproducer._net.securing.sources import source_of
from aioproducer._net.tls.reloading import ReloadedContext
from aioproducer._state.connecting.authentication import SaslExchange, authentication
from aioproducer._state.connecting.dialogue import Await
from aioproducer.errors import AuthenticationError, ConfigurationError, KafkaError
from aioproducer.secret import Secret
from aioproducer.security.sasl.mechanisms import MECHANISMS, Mechanism
from aioproducer.security.server_words import without_secrets

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable
    from random import Random

    from aioproducer._net.log import Log
    from aioproducer._net.securing.sources import CredentialSource
    from aioproducer._state.connecting.dialogue import Dialogue
    from aioproducer._state.connecting.endpoint import BrokerEndpoint
    from aioproducer._state.connecting.opening import BrokerVersions
    from aioproducer._state.connecting.sessions import AuthenticatedSession
    from aioproducer.config import ProducerConfig
    from aioproducer.security.tls.settings import TlsSettings

__all__ = ["security_of"]

# Seconds that a connection waits for a further context of the user.
_PATIENCE: Final = 1.0
# Kafka's own words about a refusal. Where the password is one of them, three stars in its place would tell it.
_WORDS_OF_KAFKA: Final = frozenset(
    (
        "Authentication failed: Invalid username or password",
        *(
            f"Authentication failed during {when} due to invalid credentials with SASL mechanism {name}"
            for when in ("authentication", "re-authentication")
            for name in MECHANISMS
        ),
    )
)


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
    mechanism = MECHANISMS[config.sasl_mechanism]
    return attrs.evolve(
        found,
        authenticate=_authenticate(mechanism, credentials, credentials.require_present),
        # A connection in use is lost by an exchange that is broken off; another one takes its place later.
        authenticate_again=_authenticate(mechanism, credentials, _any_source),
        adopt_credentials=credentials.adopt,
    )


# -- TLS


def _over_tls(config: ProducerConfig, loop: asyncio.AbstractEventLoop, log: Log) -> SecurityProtocol:
    if config.ssl_context is not None:
        own = _OwnContext(config.ssl_context, log)
        return SecurityProtocol(own.current, reload_certificates=own.reload)
    if not config.ssl_endpoint_identification_algorithm:
        log.warning(
            "ssl_endpoint_identification_algorithm='': the host names of brokers are not checked, so that any holder of a "
            "trusted certificate can take the place of a broker"
        )

    functions = UserFunctions()

    async def settings() -> TlsSettings:
        return tls_settings(config, await revealed_all(tls_secrets(config), functions))

    context = ReloadedContext(settings, tls_files(config), log, loop.time)
    return SecurityProtocol(context.current, reload_certificates=context.reload)


class _OwnContext:
    """The context of the user. A callable is called for each connection; where it fails, its newest context stays in use."""

    def __init__(self, source: ssl.SSLContext | Callable[[], ssl.SSLContext], log: Log) -> None:
        self._source = source
        self._log = log
        self._thread = OneThread()
        self._context: ssl.SSLContext | None = None
        # What the newest call gave. It is set in another thread.
        self._late: Any = None
        self._risks = ""
        self._problem = ""

    async def current(self) -> ssl.SSLContext:
        """The context; ConfigurationError if there is none yet."""
        try:
            return await self._made(LONGEST_CALL if self._context is None else _PATIENCE)
        except ConfigurationError as error:
            if self._context is None:
                raise
            self._warn(str(error))
        # That of a call which was not waited for.
        return self._context if _problem_of(self._late) else self._adopt(self._late)

    def _call(self, source: Callable[[], ssl.SSLContext]) -> ssl.SSLContext:
        self._late = context = source()
        return context

    async def reload(self) -> None:
        """Ask for the context again; ConfigurationError leaves the present one in use."""
        await self._made(LONGEST_CALL)

    async def _made(self, limit: float) -> ssl.SSLContext:
        source = self._source
        if isinstance(source, ssl.SSLContext):
            given = Given(source)
        else:
            given = Given(problem=f"gave nothing within {limit:g} s")
            with anyio.move_on_after(limit):
                given = await call_in_one_thread(self._thread, partial(self._call, source))
        problem = given.problem or _problem_of(given.value)
        if problem:
            raise ConfigurationError(f"ssl_context: the callable {problem}")
        self._problem = ""
        return self._adopt(given.value)

    def _adopt(self, context: ssl.SSLContext) -> ssl.SSLContext:
        self._context = context
        self._warn_of_risks(_risks_of(context))
        return context

    def _warn_of_risks(self, risks: str) -> None:
        if risks and risks != self._risks:
            self._risks = risks
            self._log.warning("ssl_context: %s", risks)

    def _warn(self, problem: str) -> None:
        level = logging.DEBUG if problem == self._problem else logging.WARNING
        self._log.log(level, "the newest context stays in use: %s", problem)
        self._problem = problem


def _problem_of(given: Any) -> str:
    """The reason why this is no context for a producer; empty if it is one."""
    if not isinstance(given, ssl.SSLContext):
        return f"gave {type(given).__name__}, not ssl.SSLContext"
    return "gave a context for the server's side" if given.protocol is ssl.PROTOCOL_TLS_SERVER else ""


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


def _any_source(_source: CredentialSource) -> None:
    pass


def _authenticate(
    mechanism: Mechanism, credentials: _Credentials, before_message: Callable[[CredentialSource], None]
) -> Callable[[BrokerEndpoint, BrokerVersions], Dialogue[AuthenticatedSession]]:
    def authenticate(endpoint: BrokerEndpoint, versions: BrokerVersions) -> Dialogue[AuthenticatedSession]:
        source = credentials.present
        presented: list[Any] = []

        def exchange() -> SaslExchange:
            presented.append(
                (yield Await("the request for credentials", partial(credentials.request, source, endpoint)))
            )
            yield from mechanism.exchange(presented[0])

        try:
            return (
                yield from authentication(
                    mechanism.name,
                    exchange(),
                    versions,
                    partial(before_message, source),
                    partial(_shown, presented),
                )
            )
        except AuthenticationError as error:
            if error.reason == "credentials" and presented:
                source.refused(presented[0])
            # A refusal of former credentials says nothing about the present ones.
            credentials.require_present(source)
            raise

    return authenticate


def _shown(presented: list[Any], words: str, message: bytes) -> str:
    """Words of a broker without the credentials that it was given, and without the message that had them."""
    if words in _WORDS_OF_KAFKA:
        return words
    fields = attrs.asdict(presented[0], recurse=False) if attrs.has(type(presented[0])) else {}
    secrets = [Secret(encoded(message).decode().rstrip("=")) for encoded in (b64encode, urlsafe_b64encode)]
    text = message.decode(errors="replace")
    # That of SCRAM ends with a proof, from which the password can be guessed.
    secrets += [Secret(text), Secret(text.rpartition(",p=")[2])]
    secrets += [field for field in fields.values() if isinstance(field, Secret)]
    return without_secrets(words, secrets)


class _Credentials:
    """The credentials of the next authentication; the program may change them while connections are open."""

    present: CredentialSource

    def __init__(self, loop: asyncio.AbstractEventLoop, log: Log, rng: Random) -> None:
        self._loop = loop
        self._log = log
        self._rng = rng
        self._requests: set[anyio.CancelScope] = set()

    async def request(self, source: CredentialSource, endpoint: BrokerEndpoint) -> Any:
        """Credentials of this source; CredentialsChanged if the program changes them meanwhile, as a source may hang."""
        with anyio.CancelScope() as scope:
            self._requests.add(scope)
            try:
                self.require_present(source)
                given = await source.given(endpoint)
            except KafkaError:
                self.require_present(source)
                raise
            finally:
                self._requests.discard(scope)
            self.require_present(source)
            return given
        raise CredentialsChanged

    def require_present(self, source: CredentialSource) -> None:
        """CredentialsChanged if this is a former source."""
        if source is not self.present:
            raise CredentialsChanged

    def adopt(self, config: ProducerConfig) -> None:
        """Use the credentials of this configuration, which has the same mechanism."""
        self.present = source_of(config, self._loop, self._log, self._rng)
        for scope in list(self._requests):
            scope.cancel()
