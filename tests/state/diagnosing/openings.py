"""Openings of connections, as an examination leaves them."""

from __future__ import annotations

import ssl
from typing import Any, Final

from aioproducer._state.connecting.opening import BrokerVersions
from aioproducer._state.diagnosing.addresses import Settings
from aioproducer._state.diagnosing.advertised import Advertised
from aioproducer._state.diagnosing.facts import Certificate, Opening, Step

NOW: Final = 1_800_000_000.0
DAY: Final = 86_400.0
PLAIN: Final = Settings("PLAINTEXT", "GSSAPI")
TLS: Final = Settings("SSL", "GSSAPI")
SASL: Final = Settings("SASL_SSL", "PLAIN")
VERSIONS: Final = BrokerVersions("b", {0: 13, 22: 5}, {0: (3, 13), 22: (0, 5)}, {"transaction.version": 2}, 1)


def opened(host: str = "kafka.example", address: str = "192.0.2.10", **facts: Any) -> Opening:
    """An opening that succeeded."""
    seconds = {Step.TCP: 0.004, Step.PROTOCOL: 0.002}
    return Opening(host, 9092, address, seconds, versions=VERSIONS, **facts)


def failed(step: Step, error: BaseException | None, host: str = "kafka.example", **facts: Any) -> Opening:
    """An opening that failed at this step."""
    return Opening(host, 9092, "192.0.2.10", failed=step, error=error, **facts)


def untrusted(verify_code: int, names: tuple[str, ...] = (), host: str = "kafka.example") -> Opening:
    """An opening whose certificate was refused by OpenSSL with this code."""
    return failed(
        Step.TLS,
        ssl.SSLCertVerificationError("refused"),
        host,
        verify_code=verify_code,
        certificate=certificate(names=names),
    )


def certificate(days: float = 90, names: tuple[str, ...] = ("kafka.example",)) -> Certificate:
    """A certificate that is valid for so many days."""
    return Certificate("CN=kafka", "CN=authority", names, NOW - DAY, NOW + days * DAY)


def advertised(host: str, came_by: tuple[str, ...] = ("kafka.example", "192.0.2.10")) -> Advertised:
    """Broker 3 at this host."""
    return Advertised(3, host, 9092, None, came_by)
