"""SASL GSSAPI (RFC 4752): a ticket of Kerberos, and the broker's proof that it has the key of its service.

The package `gssapi`, an extra, is imported at the first authentication. Each of its calls is a step of the exchange that is
made in a thread, because it reads files and asks the KDC.
"""

from __future__ import annotations

import importlib.util
import math
import secrets
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NoReturn, Protocol, TypeVar

import attrs

from aioproducer._state.connecting.dialogue import Compute
from aioproducer.errors import AuthenticationError, ConfigurationError, printable
from aioproducer.security.sasl.kerberos_failures import failure_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from aioproducer._state.connecting.authentication import SaslExchange
    from aioproducer.security.sasl.credentials import KerberosCredentials

__all__ = ["KerberosContext", "KerberosStep", "kerberos", "renew_tickets", "require_gssapi"]

T = TypeVar("T")

_NAME: Final = "GSSAPI"
_NO_LAYER: Final = 0x01
_OFFER_BYTES: Final = 4
# The chosen layer, and the size 0 of the wrapped messages that this client accepts: there are none.
_CHOICE: Final = bytes((_NO_LAYER, 0, 0, 0))
# Seconds: tickets that end sooner may end within the authentication.
_LEAST_LEFT: Final = 2.0
# Seconds between the ends of the same tickets, which the library rounds.
_SAME: Final = 1.0
_NOT_INSTALLED: Final = (
    "sasl_mechanism='GSSAPI' requires the extra kerberos: pip install 'aioproducer[kerberos]' (it is compiled: on Debian "
    "install libkrb5-dev and gcc before)"
)


@attrs.frozen
class KerberosStep:
    """The next token for the broker, empty if there is none, and how far the exchange of tokens is.

    `is_proven`: the broker has proved its identity, and messages are protected from changes. `principal` is the own one.
    Both are those of a complete exchange.
    """

    token: bytes = attrs.field(repr=False)
    is_complete: bool
    is_proven: bool = False
    principal: str = ""


class KerberosContext(Protocol):
    """The client's side of a security context; `GssapiContext` outside tests. All of it blocks."""

    def step(self, token: bytes | None) -> KerberosStep:
        """Take a token of the broker."""

    def unwrap(self, message: bytes) -> bytes:
        """The content of a message of the broker, whose signature is checked."""

    def wrap(self, message: bytes) -> bytes:
        """A signed message for the broker."""


def require_gssapi() -> None:
    """Raise ConfigurationError where the package is not installed."""
    if importlib.util.find_spec("gssapi") is None:
        raise ConfigurationError(_NOT_INSTALLED)


def kerberos(
    credentials: KerberosCredentials,
    *,
    begin: Callable[[KerberosCredentials], KerberosContext] | None = None,
) -> SaslExchange:
    """The exchange: tokens until both sides are proven, then the choice of no further layer below TLS."""
    begin = GssapiContext.begin if begin is None else begin
    context: KerberosContext = yield from _made(credentials, partial(begin, credentials))
    made = yield from _made(credentials, partial(context.step, None))
    while not made.is_complete:
        challenge: bytes = yield made.token
        if not challenge:
            _fail("it sent no proof")
        made = yield from _made(credentials, partial(context.step, challenge), of_broker=True)
    if not made.is_proven:
        _fail("the exchange ended without its proof")
    offer: bytes = yield from _made(credentials, partial(context.unwrap, (yield made.token)), of_broker=True)
    if len(offer) != _OFFER_BYTES:
        _fail("its offer of security layers is not one of RFC 4752")
    if not offer[0] & _NO_LAYER:
        _fail("it requires a security layer of Kerberos; encryption is that of TLS")
    rest: bytes = yield (
        yield from _made(credentials, partial(context.wrap, _CHOICE + made.principal.encode()))
    )
    if rest:
        _fail("it continues after GSSAPI is complete")


def _made(
    credentials: KerberosCredentials, function: Callable[[], T], *, of_broker: bool = False
) -> Compute[T]:
    """A step of the dialogue. `of_broker`: it reads what the broker sent."""

    def called() -> T:
        try:
            return function()
        except (AuthenticationError, ConfigurationError):
            raise
        except Exception as error:  # noqa: BLE001  # gssapi has more kinds than it documents
            # The error is replaced: it may hold a token.
            failure = failure_of(error, credentials, of_broker=of_broker)
        raise failure

    return Compute("Kerberos (a ticket of the KDC)", called)


def _fail(why: str) -> NoReturn:
    text = f"the broker did not prove its identity by Kerberos: {why}"
    raise AuthenticationError(text, reason="server", mechanism=_NAME)


@attrs.frozen
class GssapiContext:
    """A security context of the package gssapi. It is used in one thread at a time."""

    _context: Any = attrs.field(repr=False)
    _needed: Any = attrs.field(repr=False)

    @classmethod
    def begin(cls, credentials: KerberosCredentials) -> GssapiContext:
        """Read the ticket cache. With a key table, the KDC is asked where the tickets in memory have ended."""
        library = _Library.loaded()
        found = library.held(credentials)
        if credentials.keytab is not None:
            if found is None or library.left(found) < _LEAST_LEFT:
                of_kdc = library.of_kdc(credentials)
                library.put(of_kdc, credentials)
                # Where tickets of brokers are added to it.
                found = library.held(credentials) or of_kdc
            credentials.on_use(library.left(found))
        return cls.towards(library, credentials.service_at_host, found)

    @classmethod
    def towards(cls, library: _Library, service_at_host: str, found: Any) -> GssapiContext:
        """A context for this service, with these credentials of the library."""
        gssapi = library.gssapi
        flags = gssapi.RequirementFlag
        needed = flags.mutual_authentication | flags.integrity
        context = gssapi.SecurityContext(
            name=gssapi.Name(service_at_host, gssapi.NameType.hostbased_service),
            creds=found,
            usage="initiate",
            mech=gssapi.MechType.kerberos,
            flags=needed | flags.replay_detection,
        )
        return cls(context, needed)

    def step(self, token: bytes | None) -> KerberosStep:
        """Take a token of the broker."""
        context = self._context
        answer = context.step(token) or b""
        if not context.complete:
            return KerberosStep(answer, is_complete=False)
        is_proven = context.actual_flags & self._needed == self._needed
        return KerberosStep(
            answer, is_complete=True, is_proven=is_proven, principal=str(context.initiator_name)
        )

    def unwrap(self, message: bytes) -> bytes:
        """The content of a message of the broker."""
        return bytes(self._context.unwrap(message).message)

    def wrap(self, message: bytes) -> bytes:
        """A signed message, not encrypted."""
        return bytes(self._context.wrap(message, False).message)


def renew_tickets(credentials: KerberosCredentials, services: Iterable[str], left: float) -> None:
    """Ask the KDC for tickets that last longer than `left` seconds, and for those of the services.

    They are put into the store of these credentials. It blocks. AuthenticationError: the KDC gives none, and why.
    """
    try:
        library = _Library.loaded()
        found = library.of_kdc(credentials, left)
        # Otherwise the next authentications would ask the KDC for them.
        for service in services:
            if not library.has_ticket_for(service, found):
                break
        library.put(found, credentials)
    except (AuthenticationError, ConfigurationError):
        raise
    except Exception as error:  # noqa: BLE001  # gssapi has more kinds than it documents
        # The error is replaced: it may hold a token.
        failure = failure_of(error, credentials, of_broker=False)
    else:
        return
    raise failure


@attrs.frozen
class _Library:
    """The package gssapi, and the calls of it that get tickets."""

    gssapi: Any

    @classmethod
    def loaded(cls) -> _Library:
        """The package; ConfigurationError where it cannot be imported."""
        try:
            import gssapi  # noqa: PLC0415  # an extra, which loads the system's library
        except ImportError as error:
            raise ConfigurationError(
                f"{_NOT_INSTALLED}: importing it failed: {printable(str(error))}"
            ) from None
        return cls(gssapi)

    def held(self, credentials: KerberosCredentials) -> Any:
        """The tickets in the cache. None: the KDC has to be asked with the key table first."""
        try:
            return self._acquired(credentials, credentials.store)
        except self.gssapi.exceptions.GSSError:
            if credentials.keytab is None:
                raise
            return None

    def of_kdc(self, credentials: KerberosCredentials, left: float = 0.0) -> Any:
        """Tickets of the key table that last longer than `left` seconds."""
        store = dict(credentials.store_of_kdc)
        found = self._acquired(credentials, store)
        if self.left(found) <= left:
            # The tickets of before hide why the KDC gives no other ones.
            store["ccache"] = f"MEMORY:aioproducer-{secrets.token_hex(16)}"
            found = self._acquired(credentials, store)
        return found

    def put(self, found: Any, credentials: KerberosCredentials) -> None:
        """Copy tickets into the cache."""
        held = self.held(credentials)
        # Another producer may have copied and use them.
        if held is None or abs(self.left(found) - self.left(held)) > _SAME:
            store = {"ccache": credentials.store["ccache"]}
            mech = self.gssapi.MechType.kerberos
            found.store(store=store, usage="initiate", mech=mech, overwrite=True)

    def has_ticket_for(self, service_at_host: str, found: Any) -> bool:
        """Get a ticket for this service, which stays in the cache; whether there is one."""
        try:
            GssapiContext.towards(self, service_at_host, found).step(None)
        except self.gssapi.exceptions.GSSError:
            return False
        return True

    def left(self, found: Any) -> float:
        """Seconds that the tickets last."""
        try:
            lifetime = found.lifetime
        except self.gssapi.exceptions.ExpiredCredentialsError:
            return 0.0
        return math.inf if lifetime is None else float(lifetime)

    def _acquired(self, credentials: KerberosCredentials, store: Mapping[str, str]) -> Any:
        gssapi, own = self.gssapi, None
        if credentials.principal is not None:
            own = gssapi.Name(credentials.principal, gssapi.NameType.kerberos_principal)
        return gssapi.Credentials(
            name=own, usage="initiate", mechs=[gssapi.MechType.kerberos], store=dict(store) or None
        )
