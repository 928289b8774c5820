"""The findings of one address: each step on the way to an open connection, and the advice for the step that failed."""

from __future__ import annotations

import datetime
import errno
import os
from collections.abc import Iterator, Sequence
from typing import Any, Final

import attrs

from aioproducer._state.diagnosing.facts import Certificate, Opening, Peer, Step
from aioproducer._state.diagnosing.finding import Finding, Status, counted, duration, listed
from aioproducer._state.diagnosing.versions import features_text, gaps
from aioproducer.errors import AuthenticationError, BrokerUnavailableError, printable

__all__ = [
    "Settings",
    "address_findings",
    "advice_for",
    "findings",
    "name_finding",
    "name_problem",
    "nameless_finding",
    "own_certificate",
    "reason",
]

_HOST_NAME, _ADDRESS = 62, 64
_EXPIRED, _NOT_YET_VALID = 10, 9
_EXPIRES_SOON: Final = 21 * 86_400
_NOWHERE: Final = (errno.ENETUNREACH, errno.EHOSTUNREACH)
_CHECK_PORT: Final = "check the port, and that security.protocol is that of its listener"
_PEERS: Final = {
    Peer.TLS: "the port speaks TLS",
    Peer.HTTP: "a web server answers at this port",
    Peer.HTTPS: "a web server answers at this port, over TLS",
    Peer.KAFKA: "the port speaks Kafka without TLS",
    Peer.NO_SASL: "the listener takes no credentials",
    Peer.SILENT: "connections are accepted, and never answered",
    Peer.CLOSING: "connections are accepted, and closed without an answer",
    Peer.OTHER: "the port speaks another protocol than Kafka",
}
_PEERS_ADVICE: Final = {
    Peer.HTTP: "Use the port of a Kafka listener (often 9092); this one belongs to a web server, such as a REST proxy or a console.",
    Peer.HTTPS: "Use the port of a Kafka listener (often 9093); this one belongs to a web server, such as a REST proxy or a console.",
    Peer.SILENT: "Look at the program that listens there: it may be another service, or a broker that hangs.",
    Peer.CLOSING: f"Look at the log of the program that listens there; {_CHECK_PORT}.",
    Peer.OTHER: f"Another program may listen there: {_CHECK_PORT}.",
}
# The protocols without and with SASL, and the listener that the client looked for.
_OTHER_SECURITY: Final = {
    Peer.TLS: ("SSL", "SASL_SSL", "without"),
    Peer.KAFKA: ("PLAINTEXT", "SASL_PLAINTEXT", "with"),
}


@attrs.frozen
class Settings:
    """The settings of the client that findings depend on."""

    security_protocol: str
    sasl_mechanism: str
    compression_type: str = "none"
    enable_idempotence: bool = True
    transactional: bool = False

    @property
    def has_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self.security_protocol.endswith("SSL")

    @property
    def has_sasl(self) -> bool:
        """Whether connections are authenticated by SASL."""
        return self.security_protocol.startswith("SASL")

    def steps(self) -> tuple[Step, ...]:
        """The steps that each connection takes, without the look-up of its name."""
        steps = (Step.TCP, Step.TLS, Step.PROTOCOL, Step.SASL)
        left_out = {Step.TLS: not self.has_tls, Step.SASL: not self.has_sasl}
        return tuple(step for step in steps if not left_out.get(step))


def findings(opening: Opening, settings: Settings, now: float) -> dict[Step, Finding]:
    """The finding of each step; the steps behind a failed one are skipped."""
    found: dict[Step, Finding] = {}
    broken = False
    for step in settings.steps():
        if opening.failed is step:
            found[step], broken = _failure(opening, settings), True
        elif broken:
            found[step] = Finding.skip(f"{opening.failed} failed")
        elif step is not Step.TCP and opening.unusable is not None:
            found[step] = Finding.skip(opening.unusable)
        elif step is Step.SASL and opening.sasl_skipped is not None:
            found[step] = Finding.skip(opening.sasl_skipped)
        else:
            found[step] = _passed(step, opening, settings, now)
    return found


def address_findings(
    opening: Opening, settings: Settings, now: float, *, is_reached: bool
) -> dict[Step, Finding]:
    """The same for an address of `bootstrap.servers`; `is_reached`: an address of the same name leads to a broker."""
    found = findings(opening, settings, now)
    tcp = found[Step.TCP]
    if tcp.status is Status.FAIL and is_reached:
        found[Step.TCP] = Finding.warn(
            tcp.summary,
            f"{tcp.advice} Another address of the name works: the producer tries them in turn.",
            **tcp.detail,
        )
    return found


def name_finding(name: str, addresses: Sequence[str]) -> Finding:
    """The finding of a bootstrap name that has addresses."""
    text = "an address, not a name" if list(addresses) == [name] else ", ".join(addresses)
    return Finding.ok(text, addresses=list(addresses))


def nameless_finding(name: str, error: BaseException, *, is_only: bool) -> Finding:
    """The finding of a bootstrap name without an address; `is_only`: no other name has one either."""
    advice = f'Check the name "{printable(name)}" in bootstrap.servers, and the name server of this machine.'
    text = name_problem(error)
    return Finding.fail(text, advice) if is_only else Finding.warn(text, advice)


def name_problem(error: BaseException) -> str:
    """The reason for which a name has no address, in the words of the resolver."""
    told = getattr(error.__cause__, "strerror", None)
    return f"cannot be resolved: {told}" if told else str(error)


def _failure(opening: Opening, settings: Settings) -> Finding:
    """The finding of the step that failed."""
    detail: dict[str, Any] = {}
    if opening.peer is not None:
        detail["peer"] = opening.peer.name.lower()
    if opening.certificate is not None:
        detail["names"] = list(opening.certificate.names)
    if opening.offered:
        detail["offered"] = [printable(name) for name in opening.offered]
    return Finding.fail(reason(opening), advice_for(opening, settings), **detail)


# ------------------------------------------------------------------------------------------ words of a failure


def reason(opening: Opening) -> str:
    """The reason of the failure, in a few words."""
    error = opening.error
    if opening.verify_code is not None:
        return _certificate_problem(opening)
    if opening.failed is Step.SASL and opening.peer is None:
        return _sasl_problem(opening)
    if opening.peer is Peer.TLS and opening.tls is not None:
        return "the session of TLS is there, and nothing answers in it"
    if opening.peer is not None and not isinstance(error, AuthenticationError):
        return _PEERS[opening.peer]
    return _network_problem(error, opening.failed)


def _network_problem(error: BaseException | None, step: Step | None) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    if isinstance(error, TimeoutError) and step is Step.TCP:
        return "timed out: no answer to the attempt to connect"
    number = getattr(error, "errno", None)
    if isinstance(error, OSError) and isinstance(number, int) and number > 0:
        return os.strerror(number).lower()
    return str(error) or type(error).__name__


def _certificate_problem(opening: Opening) -> str:
    certificate = opening.certificate
    if opening.verify_code in (_HOST_NAME, _ADDRESS):
        covered = "none" if certificate is None else listed(certificate.names)
        return f"the certificate does not cover the name {printable(opening.host)}; it covers {covered}"
    if opening.verify_code == _EXPIRED and certificate is not None:
        return (
            f"a certificate has expired: that of the broker ({certificate.subject or 'without a name'}) is valid until "
            f"{_day(certificate.not_after)}, issued by {certificate.issuer or 'nobody named'}"
        )
    return str(opening.error)


def _day(epoch: float) -> str:
    return f"{datetime.datetime.fromtimestamp(epoch, datetime.UTC):%Y-%m-%d %H:%M} UTC"


def _sasl_problem(opening: Opening) -> str:
    error = opening.error
    offered = (
        f"; the broker offers {listed(list(map(printable, opening.offered)))}" if opening.offered else ""
    )
    is_told = isinstance(error, AuthenticationError) and error.reason == "mechanism"
    return f"{error}{'' if is_told else offered}"


def advice_for(opening: Opening, settings: Settings) -> str:
    """The action against the failure of a connection to an address of `bootstrap.servers`, or to any address."""
    error = opening.error
    match opening.failed:
        case Step.DNS:
            return "Correct the address, or the setting allowed_brokers."
        case Step.TCP:
            return _tcp_advice(opening)
        case Step.TLS if opening.peer is None or isinstance(error, AuthenticationError):
            return _tls_advice(opening)
        case Step.SASL:
            return _sasl_advice(opening, settings)
    return _protocol_advice(opening.peer, settings)


def _protocol_advice(peer: Peer | None, settings: Settings) -> str:
    if peer is None:
        return "Use a broker of Kafka 0.11 or later; the listener of a controller takes no records."
    if peer is Peer.TLS and settings.has_tls:
        return f"Look at the program that listens there; {_CHECK_PORT}."
    if peer in (Peer.TLS, Peer.KAFKA, Peer.NO_SASL):
        return _security_advice(peer, settings)
    return _PEERS_ADVICE[peer]


def _security_advice(peer: Peer, settings: Settings) -> str:
    """The action for a listener whose security is another one."""
    if peer is Peer.NO_SASL:
        protocol = "SSL" if settings.has_tls else "PLAINTEXT"
        return f"Set security.protocol to {protocol}, or use the port of a listener with SASL."
    plain, with_sasl, port = _OTHER_SECURITY[peer]
    protocol = (
        with_sasl if settings.has_sasl else f"{plain}, or {with_sasl} where the listener wants credentials"
    )
    return f"Set security.protocol to {protocol}, or use the port of a listener {port} TLS."


def _tcp_advice(opening: Opening) -> str:
    number = getattr(opening.error, "errno", None)
    if isinstance(opening.error, ConnectionRefusedError):
        return f"Nothing listens at {opening.place}: check the port, and that the broker runs."
    if isinstance(opening.error, TimeoutError):
        return (
            f"Packets to {opening.place} are dropped, or the machine is down: "
            "check firewalls and security groups on the way, and the address."
        )
    if number in _NOWHERE:
        return f"This machine has no route to {opening.address}: check its network, or the VPN."
    return f"Check that {opening.place} can be reached from this machine."


def _tls_advice(opening: Opening) -> str:
    error, certificate = opening.error, opening.certificate
    if isinstance(error, AuthenticationError) and error.reason == "client_certificate":
        return (
            "The listener wants a certificate that it trusts: set ssl.keystore.location to this client's key and certificate, "
            "and check the trust store of the broker."
        )
    match opening.verify_code:
        case 62 | 64:
            return (
                "Issue a certificate whose subjectAltName has this name, or use one of the names that it covers "
                "(for an advertised address: in advertised.listeners)."
            )
        case 10:
            return (
                "Renew the certificate of the broker. If it is valid still, that of its authority has expired, or the clock of this "
                "machine is wrong."
            )
        case 9:
            return "The certificate is not valid yet: check the clocks of both machines."
        case None:
            return f"Check the versions and ciphers of TLS on both sides; {_CHECK_PORT}."
    issuer = "" if certificate is None else f" ({certificate.issuer})"
    return f"Add the authority that issued it{issuer} to the file of ssl.truststore.location."


# By the reason of the refusal.
_REFUSALS = {
    "mechanism": "Set sasl.mechanism to one that the broker offers, or enable it in the broker's sasl.enabled.mechanisms.",
    "token": "Check the provider of tokens, or the token endpoint.",
    "server": "The broker did not prove that it knows the password: check that this is the right broker.",
}


def _sasl_advice(opening: Opening, settings: Settings) -> str:
    error = opening.error
    if opening.peer is Peer.NO_SASL:
        return _protocol_advice(opening.peer, settings)
    if isinstance(error, AuthenticationError) and error.reason in _REFUSALS:
        return _REFUSALS[error.reason]
    if isinstance(error, AuthenticationError) and error.reason == "credentials":
        return _refusal_advice(settings.sasl_mechanism)
    if isinstance(error, BrokerUnavailableError | TimeoutError):
        return (
            "Services such as Azure Event Hubs close the connection, or do not answer, in place of a refusal. "
            f"{_refusal_advice(settings.sasl_mechanism)} Otherwise, look at the log of the broker."
        )
    return "Look at the log of the broker for the reason; check that the listener supports SASL."


def _refusal_advice(mechanism: str) -> str:
    if mechanism == "OAUTHBEARER":
        return (
            "Compare issuer, audience, scope and end of the token with those that the broker expects. For Amazon MSK, check the "
            "region, and that a policy allows kafka-cluster:Connect to the identity that `aws sts get-caller-identity` prints."
        )
    if mechanism == "GSSAPI":
        return "Check the principal (klist), its key table, and that the broker has a rule and permissions for it."
    text = f"Check the user name and the password (sasl.jaas.config), and that the broker knows this user for {mechanism}."
    if mechanism != "PLAIN":
        return text
    return f"{text} Confluent Cloud takes an API key of the cluster, Azure Event Hubs the user name $ConnectionString."


# ------------------------------------------------------------------------------------------ steps that were passed


def _passed(step: Step, opening: Opening, settings: Settings, now: float) -> Finding:
    match step:
        case Step.TLS:
            return _tls(opening, now)
        case Step.SASL:
            return _sasl(opening, settings)
        case Step.PROTOCOL:
            return _protocol(opening, settings)
    return Finding.ok(
        f"{opening.place} ({duration(opening.seconds.get(step, 0.0))})", address=opening.address
    )


def _tls(opening: Opening, now: float) -> Finding:
    tls = opening.tls
    if tls is None:
        return Finding.ok("encrypted")
    summary = f"{tls.version}, {tls.cipher}"
    detail: dict[str, Any] = {"version": tls.version, "cipher": tls.cipher}
    if not tls.chain:
        return Finding.ok(summary, **detail)
    own = tls.chain[0]
    detail |= {
        "names": list(own.names),
        "subject": own.subject,
        "chain": [each.issuer for each in tls.chain],
        "days_left": int((own.not_after - now) // 86_400),
    }
    summary += f"; {listed(own.names)}, issued by {own.issuer or 'nobody named'}, {_left(own, now)}"
    soon = next(_expiring(tls.chain, now), None)
    if soon is None:
        return Finding.ok(summary, **detail)
    return Finding.warn(
        f"{summary}; {soon.subject or 'a certificate'} expires soon",
        "Renew the certificate before it expires: afterwards no client can connect.",
        **detail,
    )


def own_certificate(certificate: Certificate, now: float) -> Finding:
    """The finding of the certificate of this client."""
    summary = (
        f"own certificate: {certificate.subject}, issued by {certificate.issuer}, {_left(certificate, now)}"
    )
    detail = {"subject": certificate.subject, "days_left": int((certificate.not_after - now) // 86_400)}
    if certificate.not_after <= now:
        return Finding.fail(summary, "Renew the certificate of this client in its key store.", **detail)
    if certificate.not_before > now:
        return Finding.fail(
            summary, "The certificate is not valid yet: check the clock of this machine.", **detail
        )
    if next(_expiring((certificate,), now), None) is not None:
        return Finding.warn(summary, "Renew the certificate of this client before it expires.", **detail)
    return Finding.ok(summary, **detail)


def _expiring(chain: tuple[Certificate, ...], now: float) -> Iterator[Certificate]:
    return (each for each in chain if each.not_after - now < _EXPIRES_SOON)


def _left(certificate: Certificate, now: float) -> str:
    days = (certificate.not_after - now) / 86_400
    if certificate.not_before > now:
        return "not valid yet"
    return (
        f"valid for {counted(int(days), 'day')}" if days >= 0 else f"expired {counted(int(-days), 'day')} ago"
    )


def _sasl(opening: Opening, settings: Settings) -> Finding:
    lifetime = opening.session_lifetime
    ends = "sessions do not end" if lifetime is None else f"sessions last {duration(lifetime)}"
    return Finding.ok(
        f"{settings.sasl_mechanism}, {ends} ({duration(opening.seconds.get(Step.SASL, 0.0))})",
        mechanism=settings.sasl_mechanism,
        session_seconds=lifetime,
    )


def _protocol(opening: Opening, settings: Settings) -> Finding:
    versions = opening.versions
    if versions is None:
        return Finding.ok("Kafka")
    features = features_text(versions.features)
    took = duration(opening.seconds.get(Step.PROTOCOL, 0.0))
    summary = f"Kafka, {counted(len(versions.chosen), 'API')} in common{'; ' if features else ''}{features} ({took})"
    detail = {
        "apis": {name: list(each) for name, each in versions.named_ranges().items()},
        "features": {printable(name): level for name, level in versions.features.items()},
    }
    missing = list(
        gaps(
            versions,
            settings.compression_type,
            idempotent=settings.enable_idempotence,
            transactional=settings.transactional,
        )
    )
    if not missing:
        return Finding.ok(summary, **detail)
    return Finding.warn(
        f"{summary}; without {', '.join(gap.feature for gap in missing)}",
        " ".join(f"{gap.consequence} ({gap.needs})." for gap in missing),
        **detail,
    )
