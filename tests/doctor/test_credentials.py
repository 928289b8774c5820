"""SASL in examinations, and secrets, which are in no report."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from aioproducer.testing import Allow, EmbeddedKafka, unsecured_token
from tests.doctor.support import bad, examined, of, one

CANARY = "canary-7"
USERS = {"alice": CANARY}


def settings(password: str = CANARY, mechanism: str = "SCRAM-SHA-512") -> dict[str, Any]:
    """The settings of alice."""
    return {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_username": "alice",
        "sasl_password": password,
        "allow_plaintext_credentials": True,
    }


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
async def test_credentials_that_are_accepted(mechanism: str) -> None:
    """The mechanism, and the end of the session."""
    async with EmbeddedKafka(brokers=2, users=USERS, session_lifetime=60.0) as kafka:
        report = await examined(kafka.bootstrap_servers, **settings(mechanism=mechanism))
    assert bad(report) == {}
    check = of(report, "sasl")[0]
    assert (check.detail["mechanism"], check.detail["session_seconds"]) == (mechanism, 60.0)


async def test_credentials_that_are_refused() -> None:
    """They are tried once, and not at each broker: more attempts may lock the account."""
    async with EmbeddedKafka(brokers=3, users=USERS) as kafka:
        report = await examined(kafka.bootstrap_servers, **settings("wrong"))
        tried = [request for request in kafka.requests if request.api == "SaslAuthenticate"]
    assert sorted(check.status for check in of(report, "sasl")) == ["fail", "skip", "skip"]
    assert {check.status for check in of(report, "protocol")} == {"ok"}
    refused = next(check for check in of(report, "sasl") if check.status == "fail")
    assert "the broker offers PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 and OAUTHBEARER" in refused.summary
    assert len(tried) <= 2  # the messages of one exchange


async def test_refused_credentials_are_tried_once_however_long_that_takes() -> None:
    """No other broker is asked before the answer of the first one is known."""
    async with EmbeddedKafka(brokers=3, users=USERS, mechanisms=["PLAIN"]) as kafka:
        kafka.faults.delay(0.9, api="SaslAuthenticate", before=True, times=None)
        report = await examined(kafka.bootstrap_servers, timeout=1.2, **settings("wrong", "PLAIN"))
        tried = [request for request in kafka.requests if request.api == "SaslAuthenticate"]
    assert sorted(check.status for check in of(report, "sasl")) == ["fail", "skip", "skip"]
    assert len(tried) == 1


async def test_a_broker_that_does_not_answer_the_credentials() -> None:
    """The others are tried after it, one after the other, until one has answered."""
    async with EmbeddedKafka(brokers=3, users=USERS, mechanisms=["PLAIN"]) as kafka:
        kafka.faults.silence(api="SaslAuthenticate", times=1)
        report = await examined(kafka.bootstrap_servers, timeout=0.6, **settings(CANARY, "PLAIN"))
    assert sorted(check.status for check in of(report, "sasl")) == ["fail", "ok", "ok"]
    assert {check.status for check in of(report, "brokers")} == {"ok"}


async def test_a_listener_without_sasl() -> None:
    """Kafka is there, and takes no credentials: the password is not sent."""
    async with EmbeddedKafka() as kafka:
        report = await examined(kafka.bootstrap_servers, **settings())
        assert "SaslAuthenticate" not in {request.api for request in kafka.requests}
    check = one(report, "sasl")
    assert (check.status, check.summary) == ("fail", "the listener takes no credentials")
    assert check.advice == "Set security.protocol to PLAINTEXT, or use the port of a listener with SASL."
    assert one(report, "protocol").status == "ok"


@pytest.mark.parametrize("how", ["closed", "silent"])
async def test_a_service_that_does_not_say_that_it_refuses(how: str) -> None:
    """Azure Event Hubs closes the connection: the finding names the step, and the advice is about the credentials."""
    async with EmbeddedKafka(users=USERS) as kafka:
        if how == "closed":
            kafka.faults.cut(before=True, reset=False, api="SaslAuthenticate", times=None)
        else:
            kafka.faults.silence(api="SaslAuthenticate")
        report = await examined(kafka.bootstrap_servers, timeout=1.0, **settings(mechanism="PLAIN"))
    check = one(report, "sasl")
    assert check.status == "fail"
    assert "SaslAuthenticate" in check.summary
    assert check.advice is not None
    assert "in place of a refusal. Check the user name and the password" in check.advice
    assert CANARY not in json.dumps(report.as_dict())


async def test_a_token_that_is_refused() -> None:
    """The advice is about tokens and policies, not about a password."""
    given: dict[str, Any] = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_token_provider": lambda: unsecured_token("alice", 600.0),
        "allow_plaintext_credentials": True,
    }
    async with EmbeddedKafka(users=USERS) as kafka:
        kafka.faults.sasl(1, times=None)
        report = await examined(kafka.bootstrap_servers, **given)
    check = one(report, "sasl")
    assert check.advice is not None
    assert "kafka-cluster:Connect" in check.advice
    assert "password" not in check.advice


async def test_a_mechanism_that_is_not_offered() -> None:
    """The finding has the offer."""
    async with EmbeddedKafka(users=USERS, mechanisms=["SCRAM-SHA-256"]) as kafka:
        report = await examined(kafka.bootstrap_servers, **settings())
    check = one(report, "sasl")
    assert (check.status, check.detail["offered"]) == ("fail", ["SCRAM-SHA-256"])
    assert "it offers SCRAM-SHA-256" in check.summary


async def test_no_credentials_for_a_listener_that_wants_them() -> None:
    """The listener answers the question for its versions, and nothing else."""
    async with EmbeddedKafka(users=USERS, mechanisms=["PLAIN"]) as kafka:
        report = await examined(kafka.bootstrap_servers)
    check = one(report, "cluster")
    assert (check.status, check.summary) == ("fail", "the listener wants SASL; it offers PLAIN")
    assert check.advice == (
        "Set security.protocol to SASL_PLAINTEXT, sasl.mechanism to one of these, and the credentials."
    )


async def test_a_password_that_cannot_be_read() -> None:
    """It is a problem of the configuration, before anything is dialed."""
    from aioproducer import SecretFile

    async with EmbeddedKafka(users=USERS) as kafka:
        given = settings() | {"sasl_password": SecretFile("/missing/password")}
        report = await examined(kafka.bootstrap_servers, **given)
    assert (report.exit_code, "sasl_password" in one(report, "config").summary) == (2, True)


async def test_permissions() -> None:
    """Denied topics, producer ids and transactional ids name their ACLs."""
    acls = {"alice": [Allow("DESCRIBE", topic="seen")]}
    async with EmbeddedKafka(users=USERS, acls=acls, auto_create_topics=False) as kafka:
        for topic in ("seen", "hidden"):
            kafka.create_topic(topic)
        report = await examined(
            kafka.bootstrap_servers, "seen", "hidden", transactional_id="shop", probe=True, **settings()
        )
    found = [(check.id, check.status, check.summary, check.advice) for check in report.checks if check.advice]
    grant, suffices = "Grant this principal the ACL", " (from Kafka 2.8 on that suffices)"
    assert found == [
        (
            "idempotence",
            "fail",
            "not authorized to get a producer id",
            f"{grant} WRITE on a topic{suffices} or IDEMPOTENT_WRITE on the cluster, or set enable.idempotence=false.",
        ),
        (
            "transactions",
            "fail",
            "shop: not authorized",
            f"{grant}s DESCRIBE and WRITE on the transactional id shop.",
        ),
        ("topic", "fail", "not writable by this principal", f"{grant} WRITE on the topic."),
        ("topic", "fail", "not authorized to see it", f"{grant}s WRITE and DESCRIBE on the topic."),
    ]
    assert [check.status for check in of(report, "probe")] == ["skip", "skip"]


@pytest.mark.parametrize("password", [CANARY, f"{CANARY}-wrong"])
async def test_no_secret_is_in_a_report(password: str, caplog: pytest.LogCaptureFixture) -> None:
    """Not in words, not in details, not in the log."""
    caplog.set_level(logging.DEBUG)
    async with EmbeddedKafka(users=USERS, mechanisms=["PLAIN"]) as kafka:
        report = await examined(kafka.bootstrap_servers, "orders", **settings(password, "PLAIN"))
    assert CANARY not in json.dumps(report.as_dict())
    assert CANARY not in repr(report)
    assert CANARY not in caplog.text
