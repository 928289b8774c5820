"""The user of the secured listeners, in the settings of each client."""

from __future__ import annotations

from typing import Any, Final

USER: Final = "benchmark"
PASSWORD: Final = "a password of the benchmarks"  # noqa: S105  # of a broker that lives for one run
MECHANISM: Final = "SCRAM-SHA-512"


def own_security(authority: str) -> dict[str, Any]:
    """The settings of aioproducer for a secured listener; none for plaintext, which has no authority."""
    if not authority:
        return {}
    return {
        "security_protocol": "SASL_SSL",
        "ssl_truststore_location": authority,
        "sasl_mechanism": MECHANISM,
        "sasl_username": USER,
        "sasl_password": PASSWORD,
    }


def confluent_security(authority: str) -> dict[str, Any]:
    """The same for confluent-kafka."""
    if not authority:
        return {}
    return {
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": authority,
        "sasl.mechanisms": MECHANISM,
        "sasl.username": USER,
        "sasl.password": PASSWORD,
    }
