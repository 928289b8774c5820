"""The endpoint of a broker: the host name and port that the producer dials."""

from __future__ import annotations

import enum
from typing import Self

import attrs

from aioproducer.errors import ProtocolError, printable

__all__ = ["BrokerEndpoint", "Origin", "address_text"]

_LONGEST_HOST = 255


class Origin(enum.Enum):
    """Where an endpoint comes from."""

    BOOTSTRAP = "bootstrap_servers"
    ADVERTISED = "advertised.listeners"


@attrs.frozen
class BrokerEndpoint:
    """Where a broker listens, by the name that was given for it.

    `host` is never one of the addresses that the name resolves to: a TLS certificate is issued to the name.
    """

    host: str
    port: int
    node_id: int | None
    origin: Origin
    # The broker whose answer has this endpoint, for errors.
    advertised_by: str | None = attrs.field(default=None, eq=False)

    @classmethod
    def bootstrap(cls, host: str, port: int) -> Self:
        """An endpoint of `bootstrap_servers`; its node id is not known."""
        return cls(host, port, None, Origin.BOOTSTRAP)

    @classmethod
    def advertised(cls, host: str, port: int, node_id: int, by: str | None = None) -> Self:
        """The endpoint that the cluster advertises for a node, in an answer of the broker `by`."""
        return cls(host, port, node_id, Origin.ADVERTISED, by)

    @property
    def address(self) -> tuple[str, int]:
        """Host and port: endpoints with the same address share one pause between attempts."""
        return self.host, self.port

    @property
    def server_name(self) -> str:
        """The name that the certificate of the broker must have; it is also sent to the broker (SNI)."""
        # A trailing dot marks a name as absolute for the resolver. Certificates do not have it.
        return self.host.removesuffix(".")

    @property
    def name(self) -> str:
        """The name of the broker in logs and errors."""
        place = address_text(self.host, self.port)
        return place if self.node_id is None else f"{place} (id {self.node_id})"

    def require_valid(self) -> None:
        """Raise ProtocolError for an address that cannot exist: what a broker advertises is not trusted."""
        if not 1 <= self.port <= 65535:
            raise self._unusable(f"port {self.port} is not 1-65535")
        if not self.host or len(self.host) > _LONGEST_HOST:
            length = f"{len(self.host)} characters, where 1-{_LONGEST_HOST} are possible"
            raise self._unusable(f"its host name has {length}")

    def _unusable(self, why: str) -> ProtocolError:
        return ProtocolError(f"the broker's address cannot be used: {why}", broker=self.name)


def joined(host: str, port: int) -> str:
    """`host:port`, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def address_text(host: str, port: int) -> str:
    """`host:port` of a broker for people; what it advertises may have any characters."""
    return joined(printable(host, _LONGEST_HOST), port)
