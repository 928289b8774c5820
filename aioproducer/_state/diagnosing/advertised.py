"""The findings of an advertised address: the reasons for which a client that reached a bootstrap server fails at it."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Mapping, Sequence

import attrs

from aioproducer._state.connecting.endpoint import address_text
from aioproducer._state.diagnosing.addresses import Settings, advice_for, findings, name_problem, reason
from aioproducer._state.diagnosing.facts import Opening, Step
from aioproducer._state.diagnosing.finding import Finding, Status, duration, listed
from aioproducer._wire.error_codes import ErrorCode
from aioproducer.errors import ProtocolError, printable

__all__ = ["Advertised", "Identity", "broker_finding", "mute_finding", "unresolved"]


@attrs.frozen
class Advertised:
    """A broker as the metadata has it, and the addresses by which this client came to the cluster."""

    node_id: int
    host: str
    port: int
    rack: str | None
    came_by: Collection[str]

    @property
    def target(self) -> str:
        """`3 localhost:9092`."""
        return f"{self.node_id} {address_text(self.host, self.port)}"


@attrs.frozen
class Identity:
    """The answers of a broker about itself: the id of its cluster, and whether it has the node id that was asked for."""

    cluster_id: str | None
    node_code: int | None = None
    node_message: str | None = None


def _is_own_machine(host: str) -> bool:
    """Whether this name or address is that of any machine for itself."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host.rstrip(".").lower() == "localhost" or host.lower().endswith(".localhost")
    return address.is_loopback or address.is_unspecified


def unresolved(broker: Advertised, error: BaseException) -> Finding:
    """The name of the broker cannot be resolved here."""
    host = printable(broker.host)
    if isinstance(error, ProtocolError):
        return Finding.fail(str(error), _unusable_advice(broker, error), step="dns")
    return Finding.fail(
        f"the name {name_problem(error)}",
        f'The cluster tells that broker {broker.node_id} is at "{host}", a name that is not known to this machine; perhaps only '
        "the brokers know it. Set its advertised.listeners to a name that clients can resolve, or make the name known here "
        "(DNS, /etc/hosts).",
        step="dns",
    )


def mute_finding(broker: Advertised, error: BaseException) -> Finding:
    """The broker accepted the connection, and did not answer on it."""
    return Finding.fail(
        str(error),
        f"Look at the log of broker {broker.node_id}: it was reached, and did not answer a question for metadata.",
        step="metadata",
    )


def broker_finding(
    broker: Advertised,
    openings: Sequence[Opening],
    identity: Identity | None,
    settings: Settings,
    *,
    cluster_id: str | None,
    now: float,
) -> Finding:
    """The finding of one broker: one of its addresses can be used, and leads to this broker of this cluster."""
    opened = [each for each in openings if each.failed is None]
    if not opened:
        return _failed(broker, openings[0], settings, _steps(openings[0], settings, now))
    opening = opened[0]
    steps = _steps(opening, settings, now)
    detail = {"address": opening.place, "rack": broker.rack, "steps": steps}
    elsewhere = None if identity is None else _elsewhere(broker, identity, cluster_id)
    if elsewhere is not None:
        return Finding.fail(elsewhere, _elsewhere_advice(broker), **detail)
    if opening.sasl_skipped is not None:
        return Finding(Status.SKIP, opening.sasl_skipped, None, detail)
    warnings = [each for each in findings(opening, settings, now).values() if each.status is Status.WARN]
    others = [each for each in openings if each.failed is not None]
    took = duration(sum(opening.seconds.values()))
    where = opening.place if opening.place != opening.name else ""
    summary = f"{where} ({took})" if where else f"reachable ({took})"
    if others:
        texts = listed([f"{each.place}: {reason(each)}" for each in others])
        return Finding.warn(
            f"{summary}; {texts}",
            "The producer tries the addresses of a name in turn: each attempt at this one delays a connection.",
            **detail,
        )
    if warnings:
        return Finding(Status.WARN, f"{summary}; {warnings[0].summary}", warnings[0].advice, detail)
    rack = "" if broker.rack is None else f", rack {printable(broker.rack)}"
    return Finding(Status.OK, f"{summary}{rack}", None, detail)


def _steps(opening: Opening, settings: Settings, now: float) -> Mapping[str, object]:
    return {
        str(step): {"status": str(found.status), "summary": found.summary}
        for step, found in findings(opening, settings, now).items()
    }


def _failed(broker: Advertised, opening: Opening, settings: Settings, steps: Mapping[str, object]) -> Finding:
    detail = {"address": opening.place, "rack": broker.rack, "step": str(opening.failed), "steps": steps}
    if isinstance(opening.error, ProtocolError) and opening.failed is Step.DNS:
        return Finding.fail(str(opening.error), _unusable_advice(broker, opening.error), **detail)
    return Finding.fail(reason(opening), _advice(broker, opening, settings), **detail)


def _advice(broker: Advertised, opening: Opening, settings: Settings) -> str:
    """The action, for a client that came to the cluster by another address."""
    host, told = printable(broker.host), f"The cluster tells that broker {broker.node_id} is at"
    lost = opening.failed in (Step.TCP, Step.TLS, Step.PROTOCOL)
    if lost and _is_unspecified(broker.host):
        return (
            f'{told} "{host}", which is no address that a client can use. Set its advertised.listeners to a name that clients can '
            "reach; 0.0.0.0 belongs into listeners only."
        )
    if lost and _is_own_machine(broker.host) and not any(map(_is_own_machine, broker.came_by)):
        return f'{told} "{host}", which here is this machine. Set its advertised.listeners to a name that clients can reach.'
    match opening.failed:
        case Step.TCP:
            return (
                f"{told} {opening.name}. {_tcp_advice(opening)} If clients reach it by another address, advertised.listeners must "
                "have that one."
            )
        case Step.TLS if opening.verify_code in (62, 64):
            return (
                f'{told} "{host}", a name that its certificate does not cover. Issue a certificate whose subjectAltName has this '
                "name, or set advertised.listeners to one of the names that it covers."
            )
        case Step.TLS | Step.PROTOCOL:
            return (
                f"{told} {opening.name}. {advice_for(opening, settings)} If this is the port of another listener, correct "
                "advertised.listeners."
            )
    return advice_for(opening, settings)


def _tcp_advice(opening: Opening) -> str:
    if isinstance(opening.error, ConnectionRefusedError):
        return "Nothing listens there: check that the broker runs, and the port (a port that is mapped, for containers)."
    if isinstance(opening.error, TimeoutError):
        return "Packets are dropped on the way: check firewalls and security groups for this port."
    return f"It cannot be reached from this machine ({reason(opening)})."


def _unusable_advice(broker: Advertised, error: BaseException) -> str:
    if "allowed_brokers" in str(error):
        return (
            f"Add {address_text(broker.host, broker.port)} to allowed_brokers if it belongs to this cluster."
        )
    return f"Correct the advertised.listeners of broker {broker.node_id}."


def _is_unspecified(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


def _elsewhere(broker: Advertised, identity: Identity, cluster_id: str | None) -> str | None:
    """The address leads to another cluster, or to another broker; None where nothing tells that."""
    told = identity.cluster_id
    if cluster_id and told and told != cluster_id:
        return f"it leads to another cluster, {printable(told)}, and not to {printable(cluster_id)}"
    if identity.node_code == ErrorCode.INVALID_REQUEST:
        said = f" ({printable(identity.node_message)})" if identity.node_message else ""
        return f"it leads to another broker than {broker.node_id}{said}"
    return None


def _elsewhere_advice(broker: Advertised) -> str:
    return (
        f"The cluster tells that broker {broker.node_id} is at {address_text(broker.host, broker.port)}: correct its "
        "advertised.listeners, or the load balancer, port mapping or DNS entry that leads elsewhere. Each broker needs an address of its own."
    )
