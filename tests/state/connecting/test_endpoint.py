"""The endpoint of a broker."""

from __future__ import annotations

import pytest

from aioproducer._state.connecting.endpoint import BrokerEndpoint, Origin
from aioproducer.errors import ProtocolError


def test_an_endpoint_tells_where_it_comes_from() -> None:
    """A bootstrap server has no node id; an advertised endpoint has one."""
    bootstrap = BrokerEndpoint.bootstrap("kafka.test", 9092)
    advertised = BrokerEndpoint.advertised("kafka.test", 9092, 3)
    assert (bootstrap.origin, bootstrap.node_id) == (Origin.BOOTSTRAP, None)
    assert (advertised.origin, advertised.node_id) == (Origin.ADVERTISED, 3)
    assert bootstrap.address == advertised.address == ("kafka.test", 9092)


@pytest.mark.parametrize(
    ("host", "node_id", "name"),
    [
        ("kafka.test", None, "kafka.test:9092"),
        ("kafka.test", 3, "kafka.test:9092 (id 3)"),
        ("::1", None, "[::1]:9092"),
        ("evil\n\x1b[31m", 0, r"evil\n\x1b[31m:9092 (id 0)"),
    ],
)
def test_name_for_logs(host: str, node_id: int | None, name: str) -> None:
    """The name has the node id, brackets around IPv6 addresses, and control characters escaped (S22)."""
    origin = Origin.BOOTSTRAP if node_id is None else Origin.ADVERTISED
    assert BrokerEndpoint(host, 9092, node_id, origin).name == name


@pytest.mark.parametrize(
    ("host", "name"),
    [("kafka.test", "kafka.test"), ("kafka.test.", "kafka.test"), ("::1", "::1"), ("1.2.3.4", "1.2.3.4")],
)
def test_name_that_a_certificate_must_have(host: str, name: str) -> None:
    """It is the advertised host without brackets and without a trailing dot (S02)."""
    assert BrokerEndpoint.advertised(host, 9092, 1).server_name == name


@pytest.mark.parametrize(("host", "port"), [("h", 0), ("h", 65536), ("h", -1), ("", 9092), ("h" * 256, 9092)])
def test_impossible_addresses_are_refused(host: str, port: int) -> None:
    """An address that a broker advertises is checked before it is used (S23)."""
    with pytest.raises(ProtocolError, match="address cannot be used"):
        BrokerEndpoint.advertised(host, port, 1).require_valid()
    BrokerEndpoint.advertised("h" * 255, 65535, 1).require_valid()
