"""The security protocol of a producer: encryption and authentication of its connections."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import attrs

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable

    from aioproducer._net.connecting.refusals import Attempt
    from aioproducer._state.connecting.dialogue import Dialogue
    from aioproducer._state.connecting.endpoint import BrokerEndpoint
    from aioproducer._state.connecting.opening import BrokerVersions
    from aioproducer._state.connecting.sessions import AuthenticatedSession
    from aioproducer.config import ProducerConfig

__all__ = ["PLAINTEXT", "CredentialsChanged", "SecurityProtocol"]


Authenticate: TypeAlias = "Callable[[BrokerEndpoint, BrokerVersions], Dialogue[AuthenticatedSession]]"


class CredentialsChanged(Exception):  # noqa: N818  # not an error: the authentication begins again
    """The program changed the credentials during this authentication: it begins again, on another connection."""


def _ignore(_config: ProducerConfig) -> None:
    pass


async def _nothing_to_reload() -> None:
    pass


@attrs.frozen
class SecurityProtocol:
    """The security protocol of all connections of a producer.

    `tls_context` is awaited for each new connection, because certificates change while a producer runs. Without it,
    connections are not encrypted. `authenticate` starts the dialogue of the authentication of a new connection; it raises
    CredentialsChanged in place of the next message if others are to be presented. Without it, there is none.
    `authenticate_again` starts that of a connection in use, which ends with the credentials that it began with; None: the same.
    `adopt_credentials` makes later ones use those of another configuration. `reload_certificates` makes the TLS context again:
    ConfigurationError if it cannot be made; the former one stays in use then.
    """

    tls_context: Callable[[], Awaitable[ssl.SSLContext]] | None = attrs.field(default=None, repr=False)
    authenticate: Authenticate | None = attrs.field(default=None, repr=False)
    authenticate_again: Authenticate | None = attrs.field(default=None, repr=False)
    adopt_credentials: Callable[[ProducerConfig], None] = attrs.field(default=_ignore, repr=False)
    reload_certificates: Callable[[], Awaitable[None]] = attrs.field(default=_nothing_to_reload, repr=False)

    def in_turn(self, attempt: Attempt) -> SecurityProtocol:
        """The same, which authenticates when it is the turn of this attempt."""
        authenticate = self.authenticate
        if authenticate is None:
            return self

        def waiting(endpoint: BrokerEndpoint, versions: BrokerVersions) -> Dialogue[AuthenticatedSession]:
            return attempt.presenting(authenticate(endpoint, versions))

        return attrs.evolve(self, authenticate=waiting)


PLAINTEXT = SecurityProtocol()
