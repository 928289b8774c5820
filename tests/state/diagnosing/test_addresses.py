"""The findings of one address: what failed, and what to do."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from aioproducer._state.connecting.opening import BrokerVersions
from aioproducer._state.diagnosing.addresses import (
    Settings,
    address_findings,
    findings,
    nameless_finding,
    own_certificate,
)
from aioproducer._state.diagnosing.facts import Opening, Peer, Step, Tls
from aioproducer._state.diagnosing.finding import Status
from aioproducer._state.diagnosing.versions import features_text
from aioproducer.errors import AuthenticationError, BrokerUnavailableError, ProtocolError
from tests.state.diagnosing.openings import (
    NOW,
    PLAIN,
    SASL,
    TLS,
    VERSIONS,
    certificate,
    failed,
    opened,
    untrusted,
)


def statuses(opening: Opening, settings: Settings) -> dict[str, str]:
    """The status of each step."""
    return {str(step): str(found.status) for step, found in findings(opening, settings, NOW).items()}


def test_the_steps_depend_on_the_protocol() -> None:
    """TLS and SASL are examined where the settings have them."""
    assert statuses(opened(), PLAIN) == {"tcp": "ok", "protocol": "ok"}
    assert statuses(opened(), TLS) == {"tcp": "ok", "tls": "ok", "protocol": "ok"}
    assert statuses(opened(), SASL) == {"tcp": "ok", "tls": "ok", "protocol": "ok", "sasl": "ok"}


def test_the_steps_behind_a_failure_are_skipped() -> None:
    """Those before it are fine."""
    opening = failed(Step.PROTOCOL, BrokerUnavailableError("closed"), peer=Peer.CLOSING)
    assert statuses(opening, SASL) == {"tcp": "ok", "tls": "ok", "protocol": "fail", "sasl": "skip"}


def test_nothing_is_tried_with_settings_that_cannot_be_used() -> None:
    """The address itself was reached."""
    opening = Opening("h", 1, "192.0.2.1", unusable="the configuration cannot be used")
    assert statuses(opening, TLS) == {"tcp": "ok", "tls": "skip", "protocol": "skip"}


@pytest.mark.parametrize(
    ("error", "summary", "advice"),
    [
        (
            ConnectionRefusedError(errno.ECONNREFUSED, "x"),
            "connection refused",
            "Nothing listens at 192.0.2.10:9092",
        ),
        (TimeoutError("no connection"), "timed out: no answer to the attempt to connect", "firewalls"),
        (OSError(errno.EHOSTUNREACH, "x"), "no route to host", "no route to 192.0.2.10"),
        (OSError(errno.ENETUNREACH, "x"), "network is unreachable", "no route to 192.0.2.10"),
    ],
)
def test_no_connection(error: OSError, summary: str, advice: str) -> None:
    """Refused, dropped and unreachable have different findings."""
    found = findings(failed(Step.TCP, error), PLAIN, NOW)[Step.TCP]
    assert (found.status, found.summary) == (Status.FAIL, summary)
    assert found.advice is not None
    assert advice in found.advice


def test_another_address_of_the_name_works() -> None:
    """The producer would use that one: a warning."""
    opening = failed(Step.TCP, ConnectionRefusedError(errno.ECONNREFUSED, "x"))
    assert address_findings(opening, PLAIN, NOW, is_reached=False)[Step.TCP].status is Status.FAIL
    found = address_findings(opening, PLAIN, NOW, is_reached=True)[Step.TCP]
    assert found.status is Status.WARN
    assert "Another address of the name works" in (found.advice or "")


def test_a_name_without_an_address() -> None:
    """It fails where no other name has one."""
    error = BrokerUnavailableError("x")
    assert nameless_finding("kafka", error, is_only=True).status is Status.FAIL
    assert nameless_finding("kafka", error, is_only=False).status is Status.WARN


@pytest.mark.parametrize(
    ("peer", "settings", "summary", "advice"),
    [
        (Peer.TLS, PLAIN, "speaks TLS", "Set security.protocol to SSL"),
        (Peer.TLS, TLS, "speaks TLS", "Look at the program that listens there"),
        (Peer.HTTP, PLAIN, "a web server", "belongs to a web server"),
        (Peer.HTTPS, TLS, "a web server", "belongs to a web server"),
        (Peer.KAFKA, TLS, "Kafka without TLS", "Set security.protocol to PLAINTEXT"),
        (Peer.SILENT, PLAIN, "never answered", "a broker that hangs"),
        (Peer.CLOSING, PLAIN, "closed without an answer", "the log of the program"),
        (Peer.OTHER, PLAIN, "another protocol", "Another program may listen there"),
    ],
)
def test_another_protocol(peer: Peer, settings: Settings, summary: str, advice: str) -> None:
    """The finding names the protocol, and what to change."""
    step = Step.TLS if peer is Peer.KAFKA else Step.PROTOCOL
    found = findings(failed(step, ProtocolError("x"), peer=peer), settings, NOW)[step]
    assert found.status is Status.FAIL
    assert summary in found.summary
    assert advice in (found.advice or "")


def test_a_session_of_tls_without_an_answer() -> None:
    """TLS is right, and the program behind it is silent."""
    opening = failed(Step.PROTOCOL, TimeoutError("x"), peer=Peer.TLS, tls=Tls("TLSv1.3", "AES"))
    found = findings(opening, TLS, NOW)[Step.PROTOCOL]
    assert found.summary == "the session of TLS is there, and nothing answers in it"


def test_no_common_version() -> None:
    """The text has both ranges; a broker that answered is no other program."""
    opening = failed(
        Step.PROTOCOL, ProtocolError("the broker supports Produce v0-v2; this client needs v3-v13")
    )
    found = findings(opening, PLAIN, NOW)[Step.PROTOCOL]
    assert "this client needs v3-v13" in found.summary
    assert "Kafka 0.11 or later" in (found.advice or "")


@pytest.mark.parametrize("code", [62, 64])
def test_a_name_that_the_certificate_does_not_cover(code: int) -> None:
    """The finding has the covered names."""
    found = findings(untrusted(code, ("a.example", "10.0.0.1")), TLS, NOW)[Step.TLS]
    assert found.summary == (
        "the certificate does not cover the name kafka.example; it covers a.example and 10.0.0.1"
    )
    assert "subjectAltName" in (found.advice or "")
    assert found.detail["names"] == ["a.example", "10.0.0.1"]


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        (10, "Renew the certificate"),
        (9, "check the clocks"),
        (18, "Add the authority that issued it (CN=authority)"),
        (20, "ssl.truststore.location"),
    ],
)
def test_a_certificate_that_is_not_accepted(code: int, advice: str) -> None:
    """Expired, too early and not trusted have different actions."""
    assert advice in (findings(untrusted(code), TLS, NOW)[Step.TLS].advice or "")


def test_the_listener_wants_a_certificate() -> None:
    """The action is about the key store of this client."""
    error = AuthenticationError("refused", reason="client_certificate")
    found = findings(failed(Step.TLS, error, peer=Peer.TLS), TLS, NOW)[Step.TLS]
    assert "ssl.keystore.location" in (found.advice or "")


@pytest.mark.parametrize(("days", "status"), [(22, "ok"), (21.5, "ok"), (20.9, "warn"), (0.5, "warn")])
def test_a_certificate_that_expires_soon(days: float, status: str) -> None:
    """Below 21 days it is a warning, for that of the broker and for the own one."""
    tls = Tls("TLSv1.3", "AES", (certificate(days),))
    found = findings(opened(tls=tls), TLS, NOW)[Step.TLS]
    assert found.status == status
    assert found.detail["days_left"] == int(days)
    assert own_certificate(certificate(days), NOW).status == status


def test_an_own_certificate_that_has_expired() -> None:
    """The broker would refuse it."""
    assert own_certificate(certificate(-2), NOW).status is Status.FAIL
    assert "expired 2 days ago" in own_certificate(certificate(-2), NOW).summary


@pytest.mark.parametrize(
    ("reason", "advice"),
    [
        ("credentials", "Check the user name and the password"),
        ("mechanism", "Set sasl.mechanism to one that the broker offers"),
        ("token", "provider of tokens"),
        ("server", "did not prove"),
    ],
)
def test_a_refusal_of_sasl(reason: str, advice: str) -> None:
    """The finding has the broker's offer, once."""
    offer = "; it offers SCRAM-SHA-512" if reason == "mechanism" else ""
    error = AuthenticationError(f"refused{offer}", reason=reason)
    found = findings(failed(Step.SASL, error, offered=("SCRAM-SHA-512",)), SASL, NOW)[Step.SASL]
    assert advice in (found.advice or "")
    assert found.summary.count("SCRAM-SHA-512") == 1
    assert found.detail["offered"] == ["SCRAM-SHA-512"]


def test_refused_credentials_are_not_tried_again() -> None:
    """The other addresses tell that."""
    found = findings(opened(sasl_skipped="refused elsewhere"), SASL, NOW)
    assert (found[Step.PROTOCOL].status, found[Step.SASL].status) == (Status.OK, Status.SKIP)


@pytest.mark.parametrize(
    ("chosen", "settings", "missing"),
    [
        ({0: 13, 22: 5}, {}, []),
        ({0: 11, 22: 5}, {}, ["topic ids"]),
        ({0: 9, 22: 5}, {}, ["the next leader in answers", "topic ids"]),
        ({0: 6, 22: 5}, {"compression_type": "zstd"}, ["compression by zstd"]),
        ({0: 13}, {}, ["producer ids"]),
        ({0: 13, 22: 1}, {"transactional": True}, ["the detection of takeovers"]),
    ],
)
def test_features_that_are_missing(
    chosen: dict[int, int], settings: dict[str, Any], missing: list[str]
) -> None:
    """Those of docs/compatibility.md, as far as the settings need them."""
    ranges = {key: (0, version) for key, version in chosen.items()}
    opening = opened()
    opening.versions = BrokerVersions("b", chosen, ranges, {"transaction.version": 2}, 1)
    found = findings(opening, Settings("PLAINTEXT", "PLAIN", **settings), NOW)[Step.PROTOCOL]
    assert found.status is (Status.WARN if missing else Status.OK)
    assert all(feature in found.summary for feature in missing)


@pytest.mark.parametrize(
    ("features", "text"),
    [
        ({}, ""),
        (
            {"transaction.version": 2, "metadata.version": 30, "group.version": 1},
            "transaction.version 2, metadata.version 4.3-IV0",
        ),
        ({"metadata.version": 7}, "metadata.version 3.3-IV3"),
        ({"metadata.version": 6}, "metadata.version 6"),
        ({"metadata.version": 99}, "metadata.version 99"),
    ],
)
def test_the_levels_of_features(features: dict[str, int], text: str) -> None:
    """Those of metadata have Kafka's names, as far as they are known."""
    assert features_text(features) == text


def test_level_2_of_transactions() -> None:
    """It is missed by transactional producers only."""
    opening = opened()
    opening.versions = BrokerVersions("b", VERSIONS.chosen, VERSIONS.ranges, {}, -1)
    assert findings(opening, PLAIN, NOW)[Step.PROTOCOL].status is Status.OK
    transactional = Settings("PLAINTEXT", "PLAIN", transactional=True)
    assert "level 2" in findings(opening, transactional, NOW)[Step.PROTOCOL].summary
