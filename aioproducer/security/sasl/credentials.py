"""Credentials of a producer, checked before a request is sent."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType

import attrs

from aioproducer.config.security.sasl_texts import extension_problem, user_name_problem
from aioproducer.errors import ConfigurationError
from aioproducer.secret import Secret, is_unicode
from aioproducer.security.sasl.known_keys import KnownKeys

__all__ = [
    "KerberosCredentials",
    "PasswordCredentials",
    "TokenCredentials",
]

_TOKEN = re.compile(r"[A-Za-z0-9\-._~+/]+=*")
_LONGEST_TOKEN = 256 * 1024


def _is_user_name(_instance: object, _attribute: object, name: str) -> None:
    problem = user_name_problem(name)
    if problem is not None:
        raise ConfigurationError(f"the SASL user name {problem}")


def _is_password(_instance: object, _attribute: object, password: Secret) -> None:
    # Kafka knows no empty password: a file, or a variable, has not been filled.
    if not password.reveal():
        raise ConfigurationError("sasl_password is empty")
    if not is_unicode(password):
        raise ConfigurationError("the SASL password cannot be encoded as UTF-8")


def _is_token(_instance: object, _attribute: object, token: Secret) -> None:
    if len(token.reveal()) > _LONGEST_TOKEN:
        raise ConfigurationError(f"the OAUTHBEARER token has more than {_LONGEST_TOKEN} characters")
    if not _TOKEN.fullmatch(token.reveal()):
        raise ConfigurationError("the OAUTHBEARER token has characters that a bearer token cannot have")


def _are_extensions(_instance: object, _attribute: object, extensions: Mapping[str, str]) -> None:
    for name, value in extensions.items():
        problem = extension_problem(name, value)
        if problem is not None:
            raise ConfigurationError(problem)


def _copied(extensions: Mapping[str, str]) -> Mapping[str, str]:
    return MappingProxyType(dict(extensions))


@attrs.frozen
class PasswordCredentials:
    """A user name and its password, of PLAIN and SCRAM.

    Both are sent as UTF-8 without normalisation: Kafka refuses the normalised form. `is_token`: they are the id and the
    HMAC of a delegation token.
    """

    username: str = attrs.field(validator=_is_user_name)
    password: Secret = attrs.field(validator=_is_password)
    is_token: bool = False
    # Of SCRAM: a broker that asks for more gets no proof.
    most_iterations: int = 1_000_000
    # Of SCRAM: shared by the credentials of one user.
    keys: KnownKeys = attrs.field(factory=KnownKeys, eq=False, repr=False)


@attrs.frozen
class TokenCredentials:
    """A bearer token, of OAUTHBEARER, with the SASL extensions that belong to it."""

    token: Secret = attrs.field(validator=_is_token)
    extensions: Mapping[str, str] = attrs.field(factory=dict, validator=_are_extensions, converter=_copied)


def _nothing(_seconds: float) -> None:
    pass


@attrs.frozen
class KerberosCredentials:
    """The place of the ticket of a client, of GSSAPI, and the service that it is for.

    With `keytab`, a key table, tickets are got and renewed. Without it they are those of a ticket cache: `cache`, or the
    default one. Without `principal`, it is the first one there. `caches` counts the caches in memory that were given up,
    `renewals` the renewals of the tickets in such a cache.

    `on_use`, of a key table: called with the seconds that the tickets last, in the thread that uses them.
    """

    service: str
    host: str
    principal: str | None = None
    keytab: str | None = None
    cache: str | None = None
    caches: int = 0
    renewals: int = 0
    on_use: Callable[[float], None] = attrs.field(default=_nothing, eq=False, repr=False)

    @property
    def service_at_host(self) -> str:
        """The name of the service, as GSSAPI takes it. The host is the one that the broker advertises."""
        return f"{self.service}@{self.host}"

    @property
    def store(self) -> Mapping[str, str]:
        """The place of the tickets that are used, in the form of the library. Those of a key table stay in memory."""
        if self.keytab is None:
            return {} if self.cache is None else {"ccache": self.cache}
        # Of two places in turn: the tickets of before may be in use. With a key, the library would ask the KDC in the middle
        # of an authentication, long before the tickets end.
        place = self.cache or f"{self._in_memory}-{self.renewals % 2}"
        return {"client_keytab": "MEMORY:aioproducer-without-keys", "ccache": place}

    @property
    def store_of_kdc(self) -> Mapping[str, str]:
        """The key table, and the place in memory where the library renews the tickets that it gets with it."""
        return {"client_keytab": self.keytab or "", "ccache": f"{self._in_memory}-kdc"}

    @property
    def _in_memory(self) -> str:
        place = hashlib.sha256(f"{self.keytab}\0{self.principal}\0{self.caches}".encode()).hexdigest()[:32]
        return f"MEMORY:aioproducer-{place}"
