"""The facts that an examination collects, for the conclusions."""

from __future__ import annotations

import enum

import attrs

from aioproducer._state.connecting.endpoint import address_text, joined
from aioproducer._state.connecting.opening import BrokerVersions

__all__ = ["Certificate", "Opening", "Peer", "Step", "Tls"]


class Step(enum.StrEnum):
    """One step on the way to an open connection, in the order of the steps."""

    DNS = "dns"
    TCP = "tcp"
    TLS = "tls"
    PROTOCOL = "protocol"
    SASL = "sasl"


class Peer(enum.Enum):
    """The protocol at a port where no Kafka answered as it should: `NO_SASL` is that of a listener which wants no credentials."""

    TLS = "TLS"
    HTTP = "HTTP"
    HTTPS = "HTTPS"
    KAFKA = "Kafka without TLS"
    NO_SASL = "Kafka without SASL"
    SILENT = "nothing: connections are accepted, and never answered"
    CLOSING = "nothing: connections are accepted, and closed"
    OTHER = "something else"


@attrs.frozen
class Certificate:
    """The parts of an X.509 certificate that decide on its use; times are seconds since the epoch."""

    subject: str
    issuer: str
    names: tuple[str, ...]
    not_before: float
    not_after: float


@attrs.frozen
class Tls:
    """A session of TLS; `chain` begins with the certificate of the broker."""

    version: str
    cipher: str
    chain: tuple[Certificate, ...] = ()


@attrs.define
class Opening:
    """One attempt to open a connection to one address, with the time of each step that was passed.

    `failed` is the step that was not passed, `error` its reason; `has_answered`: the peer gave an answer of Kafka. `verify_code` is OpenSSL's reason to refuse a
    certificate, and `certificate` the one that it refused. `sasl_skipped` and `unusable` are the reasons for which SASL, or
    all steps behind the first one, were not tried.
    """

    host: str
    port: int
    address: str
    seconds: dict[Step, float] = attrs.field(factory=dict)
    tls: Tls | None = None
    versions: BrokerVersions | None = None
    session_lifetime: float | None = None
    failed: Step | None = None
    error: BaseException | None = None
    has_answered: bool = False
    verify_code: int | None = None
    certificate: Certificate | None = None
    peer: Peer | None = None
    offered: tuple[str, ...] = ()
    sasl_skipped: str | None = None
    unusable: str | None = None

    @property
    def place(self) -> str:
        """`address:port`."""
        return joined(self.address, self.port)

    @property
    def name(self) -> str:
        """`host:port`, as it was given."""
        return address_text(self.host, self.port)
