"""`allowed_brokers`: which advertised addresses may be dialed (S23)."""

from __future__ import annotations

import ipaddress
from functools import partial
from typing import Any

import pytest

from aioproducer import ConfigurationError, ProducerConfig, ProtocolError
from aioproducer._state.connecting.allowed import require_allowed
from aioproducer._state.connecting.endpoint import BrokerEndpoint

BOOTSTRAP = "first.example:9092"


def refusal(allowed: Any, host: str, port: int = 9092, by: str | None = None) -> str:
    """The error about an advertised address; empty if it is allowed."""
    config = ProducerConfig(BOOTSTRAP, allowed_brokers=allowed)
    endpoint = BrokerEndpoint.advertised(host, port, 3, by)
    try:
        require_allowed(endpoint, config.allowed_brokers, config.bootstrap_servers)
    except ProtocolError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("allowed", "host", "is_allowed"),
    [
        ("*.kafka.example", "b-1.kafka.example", True),
        ("*.kafka.example", "B-1.Kafka.Example.", True),
        ("*.Kafka.example.", "b-1.kafka.example", True),
        ("*.kafka.example", "kafka.example", False),
        ("*.kafka.example", "b-1.kafka.example.evil.test", False),
        ("kafka-?.example", "kafka-1.example", None),
        ("a.example, b.example", "b.example", True),
        (["a.example", "10.0.0.0/8"], "10.1.2.3", True),
        ("10.0.0.0/8", "::ffff:10.1.2.3", True),
        ("10.0.0.0/8", "169.254.169.254", False),
        ("10.0.0.0/8", "::ffff:169.254.169.254", False),
        ("10.0.0.0/8", "ten.example", False),
        ("10.1.2.3", "10.1.2.3", True),
        ("10.1.2.3", "10.1.2.4", False),
        ("fd00::/8", "fd00::1", True),
        ("fd00::/8", "fd00::1%eth0", True),
        ("fd00::/8", "fe80::1", False),
        (ipaddress.ip_network("10.0.0.0/8"), "10.0.0.1", True),
        (lambda host, port: (host, port) == ("x", 9092), "x", True),
        (lambda host, port: False, "x", False),
        ([lambda host, port: False, "x"], "x", True),
        (None, "anything", True),
        ("x", "first.example", True),
    ],
)
def test_which_brokers_are_allowed(allowed: Any, host: str, is_allowed: bool | None) -> None:
    """Patterns match names, networks match addresses; the bootstrap servers are always allowed."""
    if is_allowed is None:
        with pytest.raises(ConfigurationError, match="host name or network that cannot be"):
            refusal(allowed, host)
        return
    assert (refusal(allowed, host) == "") is is_allowed


def test_a_bootstrap_server_is_an_address() -> None:
    """Another port of its host is not one of them; an endpoint of the settings itself is not checked."""
    assert refusal("x", "first.example", 9093) != ""
    require_allowed(BrokerEndpoint.bootstrap("other", 1), ("x",), ())


def test_the_error_names_both_brokers() -> None:
    """The one that is refused, and the one that advertised it."""
    text = refusal("x", "evil.test", by="first.example:9092 (id 1)")
    assert text.startswith(
        "allowed_brokers does not allow evil.test:9092; it is advertised by first.example:9092 (id 1)"
    )


def test_a_function_that_fails() -> None:
    """The broker is refused, and the text of the error is not shown."""

    def fails(host: str, port: int) -> bool:
        raise ValueError("canary-7")

    text = refusal(fails, "x")
    assert text.startswith("allowed_brokers raised ValueError for x:9092")
    assert "canary-7" not in text


async def later(host: str, port: int) -> bool:
    """A function that cannot be awaited."""
    return True


class Later:
    """An object that is called like that."""

    async def __call__(self, host: str, port: int) -> bool:
        return False


@pytest.mark.parametrize(
    "allowed", [[], "", ",", 5, [5], "a b", "10.0.0.1/8", b"x", later, Later(), partial(later), [str]]
)
def test_values_that_cannot_be(allowed: Any) -> None:
    """They are refused with the forms that are accepted."""
    with pytest.raises(ConfigurationError, match="allowed_brokers"):
        ProducerConfig(BOOTSTRAP, allowed_brokers=allowed)


def test_a_file_does_not_decide() -> None:
    """A properties file cannot allow the brokers that it leads to."""
    with pytest.raises(ConfigurationError, match="an argument only, no property"):
        ProducerConfig.from_properties({"bootstrap.servers": BOOTSTRAP, "allowed.brokers": "*"})
    config = ProducerConfig.from_properties({"bootstrap.servers": BOOTSTRAP}, allowed_brokers="*.example")
    assert config.evolve(linger_ms=1).allowed_brokers == ("*.example",)
