"""The advice about an advertised address tells the situations apart."""

from __future__ import annotations

import errno

import pytest

from aioproducer._state.diagnosing.advertised import Identity, broker_finding, mute_finding, unresolved
from aioproducer._state.diagnosing.facts import Opening, Peer, Step
from aioproducer._state.diagnosing.finding import Finding, Status
from aioproducer._wire.error_codes import ErrorCode
from aioproducer.errors import AuthenticationError, BrokerUnavailableError, ProtocolError
from tests.state.diagnosing.openings import NOW, PLAIN, SASL, TLS, advertised, failed, opened, untrusted

REFUSED = ConnectionRefusedError(errno.ECONNREFUSED, "x")
LOCAL = ("127.0.0.1", "localhost")


def of(opening: Opening, host: str, came_by: tuple[str, ...] = ("kafka.example",)) -> Finding:
    """The finding of broker 3, of which this is the only address."""
    return broker_finding(advertised(host, came_by), [opening], None, PLAIN, cluster_id="c", now=NOW)


def advice(opening: Opening, host: str, came_by: tuple[str, ...] = ("kafka.example",)) -> str:
    """The advice for broker 3."""
    found = of(opening, host, came_by)
    assert found.status is Status.FAIL
    assert found.advice is not None
    return found.advice


def test_a_name_that_only_the_brokers_know() -> None:
    """The name, and both ways to mend it."""
    error = BrokerUnavailableError("the broker's host name cannot be resolved: Name or service not known")
    found = unresolved(advertised("kafka-3.internal"), error)
    assert (found.status, found.detail["step"]) == (Status.FAIL, "dns")
    assert '"kafka-3.internal", a name that is not known to this machine' in (found.advice or "")
    assert "advertised.listeners" in (found.advice or "")


@pytest.mark.parametrize(
    "host", ["localhost", "127.0.0.1", "127.0.1.1", "::1", "kafka.localhost", "LOCALHOST."]
)
def test_loopback_for_a_client_that_came_from_elsewhere(host: str) -> None:
    """It is this machine, where no broker is."""
    told = advice(failed(Step.TCP, REFUSED, host), host)
    assert told == (
        f'The cluster tells that broker 3 is at "{host}", which here is this machine. '
        "Set its advertised.listeners to a name that clients can reach."
    )


@pytest.mark.parametrize("came_by", LOCAL)
def test_loopback_for_a_client_that_came_by_loopback(came_by: str) -> None:
    """The address is right, and nothing listens there."""
    told = advice(failed(Step.TCP, REFUSED, "localhost"), "localhost", (came_by,))
    assert "Nothing listens there" in told
    assert "this machine." not in told


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
@pytest.mark.parametrize("came_by", ["kafka.example", "127.0.0.1"])
def test_the_address_of_all_interfaces(host: str, came_by: str) -> None:
    """It is no address of a broker, wherever the client came from."""
    assert "belongs into listeners only" in advice(failed(Step.TCP, REFUSED, host), host, (came_by,))


def test_loopback_that_speaks_another_protocol() -> None:
    """A program of this machine answers, and no broker."""
    opening = failed(Step.PROTOCOL, ProtocolError("x"), "localhost", peer=Peer.HTTP)
    assert "which here is this machine" in advice(opening, "localhost")


def test_refused() -> None:
    """The port, or the broker."""
    assert "Nothing listens there" in advice(failed(Step.TCP, REFUSED), "kafka-3.example")


def test_timed_out() -> None:
    """A firewall."""
    assert "firewalls" in advice(failed(Step.TCP, TimeoutError("x")), "kafka-3.example")


def test_a_name_that_the_certificate_does_not_cover() -> None:
    """Another certificate, or another advertised name."""
    opening = untrusted(62, ("kafka.example",), "kafka-3.internal")
    found = broker_finding(advertised("kafka-3.internal"), [opening], None, TLS, cluster_id="c", now=NOW)
    assert "it covers kafka.example" in found.summary
    assert "a name that its certificate does not cover" in (found.advice or "")


@pytest.mark.parametrize(
    ("peer", "told"),
    [
        (Peer.TLS, "Set security.protocol to SSL"),
        (Peer.HTTP, "belongs to a web server"),
        (Peer.SILENT, "a broker that hangs"),
    ],
)
def test_another_protocol_there(peer: Peer, told: str) -> None:
    """It is named, and that it may be the port of another listener."""
    text = advice(failed(Step.PROTOCOL, ProtocolError("x"), peer=peer), "kafka-3.example")
    assert told in text
    assert "the port of another listener" in text


def test_an_address_that_the_settings_do_not_allow() -> None:
    """Nothing was dialed."""
    error = ProtocolError("allowed_brokers does not allow kafka-3.example:9092")
    opening = failed(Step.DNS, error, "kafka-3.example")
    assert advice(opening, "kafka-3.example").startswith("Add kafka-3.example:9092 to allowed_brokers")
    impossible = ProtocolError("the broker's address cannot be used: port 0 is not 1-65535")
    assert "Correct the advertised.listeners" in (unresolved(advertised("kafka"), impossible).advice or "")


def identified(identity: Identity | None) -> Finding:
    """The finding of a broker that gives these answers about itself."""
    return broker_finding(advertised("kafka-3.example"), [opened()], identity, PLAIN, cluster_id="c", now=NOW)


def test_this_cluster_and_this_node() -> None:
    """A broker that may not be asked for its id is believed."""
    assert identified(Identity("c", ErrorCode.NONE)).status is Status.OK
    assert identified(Identity("c", ErrorCode.CLUSTER_AUTHORIZATION_FAILED)).status is Status.OK
    assert identified(None).status is Status.OK


def test_another_cluster() -> None:
    """The address leads elsewhere."""
    found = identified(Identity("other", ErrorCode.NONE))
    assert (found.status, "another cluster, other" in found.summary) == (Status.FAIL, True)


def test_another_node() -> None:
    """Such as a load balancer that all brokers advertise."""
    found = identified(Identity("c", ErrorCode.INVALID_REQUEST, "Unexpected broker id, expected 1"))
    assert (found.status, "another broker than 3" in found.summary) == (Status.FAIL, True)
    assert "load balancer" in (found.advice or "")


def test_one_of_several_addresses_fails() -> None:
    """The broker can be reached: a warning, with the address that delays connections."""
    openings = [failed(Step.TCP, REFUSED), opened()]
    found = broker_finding(advertised("kafka-3.example"), openings, None, PLAIN, cluster_id="c", now=NOW)
    assert found.status is Status.WARN
    assert "192.0.2.10:9092: connection refused" in found.summary


def test_credentials_that_were_refused_elsewhere() -> None:
    """Nothing is known about this broker."""
    opening = opened(sasl_skipped="refused elsewhere")
    found = broker_finding(advertised("kafka-3.example"), [opening], None, SASL, cluster_id="c", now=NOW)
    assert found.status is Status.SKIP


def test_credentials_that_are_refused_here() -> None:
    """The advice is that of the step."""
    opening = failed(Step.SASL, AuthenticationError("refused", reason="credentials"), "localhost")
    found = broker_finding(advertised("localhost"), [opening], None, SASL, cluster_id="c", now=NOW)
    assert "Check the user name" in (found.advice or "")


def test_a_broker_that_does_not_answer() -> None:
    """It was reached, and ended the connection at the first question."""
    assert mute_finding(advertised("kafka-3.example"), BrokerUnavailableError("x")).status is Status.FAIL
