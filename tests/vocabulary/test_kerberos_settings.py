"""Settings of Kerberos: properties of Java, and the login module in JAAS strings."""

from __future__ import annotations

import logging

import pytest

from aioproducer.config import ProducerConfig, ticket_cache
from aioproducer.errors import ConfigurationError

JAVA = {"bootstrap.servers": "localhost:9094", "security.protocol": "SASL_SSL"}
MODULE = "com.sun.security.auth.module.Krb5LoginModule required"


def of_java(**options: str) -> ProducerConfig:
    """The settings of a JAAS string with these options."""
    text = "".join(f' {name}="{value}"' for name, value in options.items())
    return ProducerConfig.from_properties({**JAVA, "sasl.jaas.config": f"{MODULE}{text};"})


def test_a_key_table() -> None:
    """Options stand for settings; those that tell Java how to keep keys have no effect."""
    config = of_java(
        useKeyTab="true", storeKey="true", keyTab="/etc/k", principal="orders@X", serviceName="kafka"
    )
    assert config.sasl_mechanism == "GSSAPI"
    assert config.sasl_kerberos_service_name == "kafka"
    assert (config.sasl_kerberos_principal, config.sasl_kerberos_keytab) == ("orders@X", "/etc/k")
    assert ticket_cache(config.sasl_jaas_config) is None


def test_a_ticket_cache() -> None:
    """A key table or cache counts only if the option says that it is used, as in Java."""
    config = of_java(useTicketCache="True", ticketCache="/tmp/c", keyTab="/etc/k", serviceName="kafka")
    assert config.sasl_kerberos_keytab is None
    assert ticket_cache(config.sasl_jaas_config) == "/tmp/c"
    config = of_java(ticketCache="/tmp/c", serviceName="kafka")
    assert ticket_cache(config.sasl_jaas_config) is None


def test_a_service_name_that_differs() -> None:
    """Java refuses two names of the service as well."""
    given = {**JAVA, "sasl.jaas.config": f'{MODULE} serviceName="a";', "sasl.kerberos.service.name": "b"}
    with pytest.raises(ConfigurationError, match=r"sasl_jaas_config stands for it"):
        ProducerConfig.from_properties(given)


def test_another_mechanism() -> None:
    """The login module belongs to GSSAPI."""
    given = {**JAVA, "sasl.mechanism": "PLAIN", "sasl.jaas.config": f"{MODULE};"}
    with pytest.raises(ConfigurationError, match="Krb5LoginModule requires sasl_mechanism='GSSAPI'"):
        ProducerConfig.from_properties(given)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sasl.kerberos.kinit.cmd", "/usr/bin/kinit"),
        ("sasl.kerberos.ticket.renew.jitter", "0.05"),
        ("sasl.kerberos.ticket.renew.window.factor", "0.8"),
        ("sasl.kerberos.min.time.before.relogin", "60000"),
    ],
)
def test_how_java_runs_kinit(name: str, value: str, caplog: pytest.LogCaptureFixture) -> None:
    """A warning names what has no effect."""
    with caplog.at_level(logging.WARNING, "aioproducer"):
        ProducerConfig.from_properties({**JAVA, "sasl.kerberos.service.name": "kafka", name: value})
    (record,) = caplog.records
    assert name in record.getMessage()
