"""The findings of the whole cluster: its id, its brokers, the clock of its controller, the metrics that it takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from aioproducer._state.connecting.opening import BrokerVersions
from aioproducer._state.diagnosing.finding import Finding, Status, counted, duration, listed
from aioproducer.errors import printable

__all__ = [
    "ClockReading",
    "MuteServer",
    "clock_finding",
    "cluster_finding",
    "mute_cluster",
    "telemetry_finding",
    "with_mute_servers",
]

_WARNS_BEYOND, _FAILS_BEYOND = 5.0, 300.0
_GET_TELEMETRY_SUBSCRIPTIONS: Final = 71


@attrs.frozen
class ClockReading:
    """The clock of the controller, and the clock here when the request was written and when the answer came; seconds."""

    controller: float
    written: float
    answered: float

    @property
    def margin(self) -> float:
        """Half of the round trip: the reading is as exact as this."""
        return (self.answered - self.written) / 2

    @property
    def offset(self) -> float:
        """How far the clock here is ahead of the controller's."""
        return (self.written + self.answered) / 2 - self.controller


def cluster_finding(
    told: Mapping[str, str | None], brokers: Mapping[int, str | None], controller: int | None
) -> Finding:
    """The finding of the cluster; `told`: the cluster id by bootstrap server, `brokers`: the rack by broker."""
    ids = sorted({one for one in told.values() if one})
    racks = sorted({rack for rack in brokers.values() if rack is not None})
    detail = {
        "cluster_id": ids[0] if len(ids) == 1 else None,
        "controller": controller,
        "brokers": sorted(brokers),
        "racks": racks,
    }
    if len(ids) > 1:
        where = "; ".join(
            f"{server} belongs to {printable(one or 'none')}" for server, one in sorted(told.items())
        )
        return Finding.fail(
            f"the bootstrap servers belong to {len(ids)} clusters: {where}",
            "Let bootstrap.servers name brokers of one cluster: a producer would use any of these.",
            **detail | {"cluster_ids": dict(told)},
        )
    parts = [printable(ids[0]) if ids else "without an id", counted(len(brokers), "broker")]
    if controller is not None and controller >= 0:
        parts.append(f"controller {controller}")
    if racks:
        parts.append(f"racks {listed([printable(rack) for rack in racks])}")
    if not brokers:
        return Finding.fail(
            ", ".join(parts), "Look at the logs of the brokers: none is registered.", **detail
        )
    return Finding.ok(", ".join(parts), **detail)


@attrs.frozen
class MuteServer:
    """A bootstrap server that tells its versions and no metadata. `offered`: the mechanisms of SASL at its listener."""

    place: str
    error: str
    offered: Sequence[str] = ()

    @property
    def reason(self) -> str:
        """The reason, as far as it is known."""
        if not self.offered:
            return self.error
        return f"the listener wants SASL; it offers {listed([printable(name) for name in self.offered])}"


def mute_cluster(servers: Sequence[MuteServer], *, has_tls: bool) -> Finding:
    """No bootstrap server tells the cluster."""
    first = next((each for each in servers if each.offered), servers[0])
    if not first.offered:
        # The errors of all of them are alike, but for the address.
        whole = "" if len(servers) == 1 else f"none of {len(servers)} bootstrap servers tells the cluster: "
        return Finding.fail(
            f"{whole}{first.reason}",
            "Look at the logs of the bootstrap servers: they were reached, and did not answer.",
        )
    is_same = len({each.reason for each in servers}) == 1
    summary = first.reason if is_same else "; ".join(f"{each.place}: {each.reason}" for each in servers)
    return Finding.fail(summary, _credentials(has_tls=has_tls), offered=list(map(printable, first.offered)))


def with_mute_servers(finding: Finding, servers: Sequence[MuteServer], *, has_tls: bool) -> Finding:
    """The finding of the cluster, with the servers that do not tell it."""
    if finding.status is not Status.OK or not servers:
        return finding
    reasons = "; ".join(f"{each.place} does not tell the cluster: {each.reason}" for each in servers)
    wants_sasl = any(each.offered for each in servers)
    advice = (
        f"For its listener: {_credentials(has_tls=has_tls)} Or remove this address from bootstrap.servers."
        if wants_sasl
        else "Look at the log of this broker, or remove its address from bootstrap.servers."
    )
    return Finding(Status.WARN, f"{finding.summary}; {reasons}", advice, finding.detail)


def _credentials(*, has_tls: bool) -> str:
    protocol = "SASL_SSL" if has_tls else "SASL_PLAINTEXT"
    return f"Set security.protocol to {protocol}, sasl.mechanism to one of these, and the credentials."


def clock_finding(reading: ClockReading) -> Finding:
    """The finding of the clock here, against the one of the controller."""
    offset, margin = reading.offset, reading.margin
    direction = "ahead of" if offset > 0 else "behind"
    within = f"± {duration(margin)}"
    detail = {"offset_seconds": round(offset, 3), "margin_seconds": round(margin, 3)}
    summary = f"{duration(abs(offset))} {direction} the controller ({within})"
    advice = (
        "Synchronize the clocks of both machines (NTP): timestamps of records, and the retention and expiry that depend on them, are "
        "off by this much."
    )
    beyond = abs(offset) - margin
    if beyond > _FAILS_BEYOND:
        return Finding.fail(summary, f"{advice} Tokens and certificates may be refused.", **detail)
    if beyond > _WARNS_BEYOND:
        return Finding.warn(summary, advice, **detail)
    return Finding.ok(summary, **detail)


def telemetry_finding(versions: Sequence[BrokerVersions]) -> Finding:
    """Whether the brokers take the metrics of clients (KIP-714)."""
    takes = any(_GET_TELEMETRY_SUBSCRIPTIONS in each.ranges for each in versions)
    return Finding.ok(
        "the cluster takes metrics of clients" if takes else "the cluster takes no metrics of clients",
        takes_metrics=takes,
    )
