"""The table of SASL mechanisms: a new one is a file with its exchange, and a row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import attrs

from aioproducer.security.sasl.credentials import (
    KerberosCredentials,
    PasswordCredentials,
    TokenCredentials,
)
from aioproducer.security.sasl.kerberos import kerberos
from aioproducer.security.sasl.oauthbearer import oauthbearer
from aioproducer.security.sasl.plain import plain
from aioproducer.security.sasl.scram import SCRAM_SHA_256, SCRAM_SHA_512

if TYPE_CHECKING:
    from aioproducer._state.connecting.authentication import SaslExchange

__all__ = ["MECHANISMS", "Mechanism"]


@attrs.frozen
class Mechanism:
    """A mechanism by its name in `sasl_mechanism`.

    `exchange` starts one authentication with credentials of the type `credentials`. `reveals`: the secret itself is sent to
    the broker, so an unencrypted connection needs an explicit permission.
    """

    name: str
    credentials: type
    exchange: Callable[[Any], SaslExchange]
    reveals: bool


_ROWS = (
    Mechanism("PLAIN", PasswordCredentials, plain, reveals=True),
    Mechanism(SCRAM_SHA_256.name, PasswordCredentials, SCRAM_SHA_256.exchange, reveals=False),
    Mechanism(SCRAM_SHA_512.name, PasswordCredentials, SCRAM_SHA_512.exchange, reveals=False),
    Mechanism("OAUTHBEARER", TokenCredentials, oauthbearer, reveals=True),
    Mechanism("GSSAPI", KerberosCredentials, kerberos, reveals=False),
)

MECHANISMS: Final[Mapping[str, Mechanism]] = MappingProxyType({row.name: row for row in _ROWS})
