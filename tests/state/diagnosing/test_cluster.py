"""The findings of the whole cluster, of identities, and of the record that is sent."""

from __future__ import annotations

import pytest

from aioproducer._state.connecting.opening import BrokerVersions
from aioproducer._state.diagnosing.cluster import (
    ClockReading,
    MuteServer,
    clock_finding,
    cluster_finding,
    mute_cluster,
    telemetry_finding,
    with_mute_servers,
)
from aioproducer._state.diagnosing.configured import config_finding
from aioproducer._state.diagnosing.finding import Status, counted, duration, listed
from aioproducer._state.diagnosing.identity import (
    TransactionFacts,
    coordinator_refused,
    idempotence_finding,
    transaction_finding,
)
from aioproducer._state.diagnosing.probing import ProbeFacts, failed_probe, probe_finding
from aioproducer._wire.error_codes import ErrorCode
from aioproducer.errors import AuthorizationError, BrokerError, BrokerUnavailableError
from aioproducer.outcome import Outcome
from tests.state.diagnosing.openings import NOW


def test_the_cluster() -> None:
    """Its id, the brokers, the controller, the racks."""
    found = cluster_finding({"a:1": "id", "b:1": "id"}, {1: "r1", 2: "r2", 3: None}, 2)
    assert (found.status, found.summary) == (Status.OK, "id, 3 brokers, controller 2, racks r1 and r2")


def test_bootstrap_servers_of_two_clusters() -> None:
    """Each is named with its cluster."""
    found = cluster_finding({"a:1": "one", "b:1": "two"}, {1: None}, None)
    assert found.status is Status.FAIL
    assert "a:1 belongs to one; b:1 belongs to two" in found.summary


def test_a_server_that_does_not_know_its_cluster() -> None:
    """It contradicts no other server."""
    assert cluster_finding({"a:1": "one", "b:1": None}, {1: None}, None).status is Status.OK


def test_a_listener_for_sasl() -> None:
    """The settings to change, with what it offers."""
    wants = MuteServer("a:1", "closed", ["PLAIN", "SCRAM-SHA-512"])
    found = mute_cluster([wants], has_tls=True)
    assert found.summary == "the listener wants SASL; it offers PLAIN and SCRAM-SHA-512"
    assert (
        found.advice
        == "Set security.protocol to SASL_SSL, sasl.mechanism to one of these, and the credentials."
    )
    hung = MuteServer("b:1", "closed")
    assert mute_cluster([hung], has_tls=True).summary == "closed"
    assert mute_cluster([hung, MuteServer("c:1", "out of time")], has_tls=True).summary == (
        "none of 2 bootstrap servers tells the cluster: closed"
    )
    both = mute_cluster([hung, wants], has_tls=False)
    assert both.summary == f"b:1: closed; a:1: {found.summary}"
    assert (both.advice or "").startswith("Set security.protocol to SASL_PLAINTEXT")


def test_a_server_that_does_not_tell_its_cluster() -> None:
    """It is a warning beside one that does, and no second one beside a failure."""
    fine = cluster_finding({"a:1": "one"}, {1: None}, None)
    hung = MuteServer("b:1", "closed")
    assert with_mute_servers(fine, [], has_tls=False) is fine
    found = with_mute_servers(fine, [hung], has_tls=False)
    assert (found.status, found.summary) == (
        Status.WARN,
        f"{fine.summary}; b:1 does not tell the cluster: closed",
    )
    assert found.advice == "Look at the log of this broker, or remove its address from bootstrap.servers."
    wants = with_mute_servers(fine, [MuteServer("b:1", "closed", ["PLAIN"])], has_tls=False)
    assert "the listener wants SASL; it offers PLAIN" in wants.summary
    assert "SASL_PLAINTEXT" in (wants.advice or "")
    failed = cluster_finding({"a:1": "one", "b:1": "two"}, {1: None}, None)
    assert with_mute_servers(failed, [hung], has_tls=False) is failed


@pytest.mark.parametrize(
    ("offset", "round_trip", "status"),
    [
        (0.0, 0.01, Status.OK),
        (4.9, 0.0, Status.OK),
        (5.1, 0.0, Status.WARN),
        (-5.1, 0.0, Status.WARN),
        (5.9, 2.0, Status.OK),
        (299.0, 0.0, Status.WARN),
        (301.0, 0.0, Status.FAIL),
        (-301.0, 0.0, Status.FAIL),
        (301.0, 4.0, Status.WARN),
    ],
)
def test_the_clock(offset: float, round_trip: float, status: Status) -> None:
    """Beyond 5 s and 5 min; within half of the round trip nothing is known."""
    written = 1000.0 + offset
    reading = ClockReading(1000.0 + round_trip / 2, written, written + round_trip)
    found = clock_finding(reading)
    assert found.status is status
    assert found.detail["offset_seconds"] == pytest.approx(offset)
    assert ("ahead" in found.summary) is (offset > 0)


def test_telemetry() -> None:
    """It never fails."""
    takes = BrokerVersions("b", {}, {71: (0, 0)})
    assert telemetry_finding([takes]).detail == {"takes_metrics": True}
    assert telemetry_finding([BrokerVersions("b")]).status is Status.OK


def test_producer_ids() -> None:
    """A refusal names the ACL."""
    assert idempotence_finding(0).status is Status.OK
    found = idempotence_finding(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    assert (found.status, "IDEMPOTENT_WRITE" in (found.advice or "")) == (Status.FAIL, True)
    assert idempotence_finding(ErrorCode.UNKNOWN_SERVER_ERROR).status is Status.FAIL


def transaction(code: int = 0, state: str = "") -> TransactionFacts:
    """The answer of a coordinator about a transaction that began a minute ago."""
    return TransactionFacts(code, "1 b:9092", state, NOW - 60, 120, 3)


@pytest.mark.parametrize(
    ("facts", "status", "told"),
    [
        (transaction(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND), Status.OK, "not in use"),
        (transaction(state="CompleteCommit"), Status.OK, "CompleteCommit"),
        (transaction(state="Ongoing"), Status.WARN, "Ongoing for 60.0 s, in 3 partitions"),
        (transaction(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED), Status.FAIL, "not authorized"),
        (transaction(ErrorCode.COORDINATOR_NOT_AVAILABLE), Status.FAIL, "COORDINATOR_NOT_AVAILABLE"),
    ],
)
def test_transactional_ids(facts: TransactionFacts, status: Status, told: str) -> None:
    """An open transaction is a warning, with its age."""
    found = transaction_finding("shop", facts, NOW)
    assert (found.status, told in found.summary) == (status, True)


def test_no_coordinator() -> None:
    """Denied and missing have different advice."""
    denied = coordinator_refused("shop", ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    assert "ACLs DESCRIBE and WRITE on the transactional id shop" in (denied.advice or "")
    assert "__transaction_state" in (coordinator_refused("shop", 15).advice or "")


@pytest.mark.parametrize(
    ("facts", "status"),
    [
        (ProbeFacts(0, 5, 0.01, 0.01, 0.05), Status.OK),
        (ProbeFacts(0, 5, 0.5, 0.3, 0.3), Status.WARN),
        (ProbeFacts(0, None, 0.01, 0.01, 0.05, throttled=0.2), Status.WARN),
    ],
)
def test_a_probe(facts: ProbeFacts, status: Status) -> None:
    """Beyond a second, and where the broker throttles, it is a warning."""
    found = probe_finding(facts)
    assert found.status is status
    assert found.detail["offset"] == facts.offset


def test_a_failed_probe() -> None:
    """The error with its outcome, once."""
    error = BrokerError("x", code=19, name="NOT_ENOUGH_REPLICAS", topic="orders", outcome=Outcome.NOT_WRITTEN)
    found = failed_probe(error)
    assert (found.status, found.detail["outcome"]) == (Status.FAIL, "NOT_WRITTEN")
    assert found.summary.count("it was not written") == 1
    unknown = failed_probe(BrokerUnavailableError("x", outcome=Outcome.UNKNOWN))
    assert "it may have been written" in unknown.summary
    assert "ACL WRITE" in (failed_probe(AuthorizationError("x")).advice or "")


def test_a_configuration() -> None:
    """The finding names the settings; a secret is not among the arguments."""
    found = config_finding("SSL", acks=-1, idempotent=True, compression_type="zstd", transactional_id="shop")
    assert found.summary == "SSL, acks=all, idempotent, zstd, transactional id shop"


def test_words() -> None:
    """Lists, counts and durations."""
    assert [listed([]), listed([1]), listed([1, 2]), listed([1, 2, 3])] == [
        "none",
        "1",
        "1 and 2",
        "1, 2 and 3",
    ]
    assert [counted(1, "broker"), counted(2000, "broker")] == ["1 broker", "2,000 brokers"]
    assert [duration(each) for each in (0.0004, 0.012, 3.41, 300, 7200)] == [
        "0.4 ms",
        "12 ms",
        "3.4 s",
        "5 min",
        "2 h",
    ]
