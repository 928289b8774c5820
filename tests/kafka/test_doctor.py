"""Examinations of a real Kafka: listeners that advertise wrong addresses, denied permissions, TLS and SASL."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import attrs
import pytest
from confluent_kafka.admin._acl import AclBinding, AclOperation
from confluent_kafka.admin._resource import ResourceType

from tests.doctor.support import bad, examined, of, one
from tests.kafka.reading import read_all
from tests.kafka.secured import PLAIN_PASSWORD, SCRAM_PASSWORD, SESSION_SECONDS, USER, SecuredKafka
from tests.kafka.test_real_permissions import AUTHORIZER, LIMIT, allowed, denied
from tests.ports import unused_port
from tools.kafka_cluster import KafkaCluster
from tools.kafka_node import QUICK_START, KafkaNode, NodePorts, hold_ports

pytestmark = pytest.mark.kafka
TIMEOUT = 20.0


@attrs.define
class MisadvertisedKafka(KafkaCluster):
    """One node with an authorizer, and two listeners whose advertised addresses are of no use to clients."""

    unused: int = attrs.field(kw_only=True)
    ports: NodePorts = attrs.field(factory=lambda: hold_ports(1)[0], init=False)

    @property
    def refused(self) -> str:
        """The listener that advertises a port without a listener."""
        return f"127.0.0.1:{self.ports.broker}"

    @property
    def nameless(self) -> str:
        """The listener that advertises a name that does not exist."""
        return f"127.0.0.1:{self.ports.controller}"

    def close(self) -> None:
        """Release all ports."""
        super().close()
        self.ports.release()

    def _own_settings(self, node: KafkaNode) -> dict[str, str]:
        own, controller = node.ports.broker, node.ports.controller
        return {
            "listeners": f"PLAINTEXT://127.0.0.1:{own},REFUSED://{self.refused},NAMELESS://{self.nameless},"
            f"CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{own},REFUSED://localhost:{self.unused},"
            "NAMELESS://kafka-1.invalid:9092",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,REFUSED:PLAINTEXT,NAMELESS:PLAINTEXT,CONTROLLER:PLAINTEXT",
        }


@pytest.fixture(scope="module")
def kafka() -> Iterator[MisadvertisedKafka]:
    """Topics to write, only to describe, without any permission and below their minimum; a denied transactional id."""
    with (
        unused_port() as port,
        MisadvertisedKafka(1, settings=AUTHORIZER, java_options=QUICK_START, unused=port) as kafka,
    ):
        for topic in ("open", "seen", "hidden"):
            kafka.create_topic(topic, 2)
        kafka.create_topic("below", 1, min_insync_replicas=2)
        rules = [
            allowed(ResourceType.TOPIC, "seen", AclOperation.DESCRIBE),
            denied(ResourceType.TOPIC, "hidden", AclOperation.DESCRIBE),
            denied(ResourceType.TRANSACTIONAL_ID, "theirs", AclOperation.DESCRIBE),
        ]
        for done in kafka.admin.create_acls(rules).values():
            done.result(LIMIT)
        yield kafka


async def test_a_node_without_a_problem(kafka: MisadvertisedKafka) -> None:
    """All that only a real Kafka has: the feature levels, the controller with its clock, the defaults of topics."""
    report = await examined(
        kafka.bootstrap_servers, "open", probe=True, transactional_id="ours", timeout=TIMEOUT, strict=True
    )
    assert (bad(report), report.exit_code) == ({}, 0)
    assert "metadata.version" in one(report, "protocol").detail["features"]
    assert one(report, "cluster").detail["controller"] == 1
    assert abs(one(report, "clock").detail["offset_seconds"]) < 1
    assert one(report, "transactions").summary.startswith("ours: not in use, coordinator 1 ")
    assert one(report, "topic").detail["configs"] == {
        "min.insync.replicas": "1",
        "max.message.bytes": "1048588",
        "cleanup.policy": "delete",
    }
    [record] = read_all(kafka.bootstrap_servers, "open")
    assert (record.value, [name for name, _ in record.headers]) == (
        b"aioproducer doctor",
        ["aioproducer.doctor"],
    )
    assert one(report, "probe").detail["partition"] == record.partition
    assert one(report, "telemetry").detail == {"takes_metrics": False}


async def test_an_advertised_address_that_is_refused(kafka: MisadvertisedKafka) -> None:
    """The leader of the topic cannot be reached either."""
    report = await examined(kafka.refused, "open", timeout=TIMEOUT)
    broker = one(report, "brokers")
    assert (broker.target, broker.summary) == (f"1 localhost:{kafka.unused}", "connection refused")
    assert "Nothing listens there" in (broker.advice or "")
    assert "partitions 0 and 1 are led by broker 1, which cannot be reached" in bad(report)["topic"]


async def test_an_advertised_name_that_nobody_knows(kafka: MisadvertisedKafka) -> None:
    """The name is in the advice."""
    report = await examined(kafka.nameless, timeout=TIMEOUT)
    assert '"kafka-1.invalid", a name that is not known' in (one(report, "brokers").advice or "")


async def test_topics(kafka: MisadvertisedKafka) -> None:
    """A denied one, one that may only be described, a missing one, and one whose minimum is above its replicas."""
    names = ("seen", "hidden", "nope", "below")
    report = await examined(kafka.bootstrap_servers, *names, probe=True, timeout=TIMEOUT)
    assert bad(report)["topic"] == [
        "not writable by this principal",
        "not authorized to see it",
        "it does not exist; the brokers create no topics by themselves",
        (
            "partition 0: 1 of 1 replica in sync; min.insync.replicas is 2, more than there are replicas: brokers before "
            "Kafka 3.7 refuse writes with acks=all, later ones count it as 1"
        ),
    ]
    # The last one is taken, as the finding says of this Kafka.
    assert [check.status for check in of(report, "probe")] == ["skip", "skip", "skip", "ok"]


async def test_a_transactional_id_that_is_denied(kafka: MisadvertisedKafka) -> None:
    """The ACL is named."""
    report = await examined(kafka.bootstrap_servers, transactional_id="theirs", timeout=TIMEOUT)
    assert one(report, "transactions").summary == "theirs: not authorized"


async def test_settings_and_clocks_that_are_denied(kafka: MisadvertisedKafka) -> None:
    """Without DESCRIBE on the cluster, nothing is claimed that is not known. It is the last test: the rule stays."""
    rules = [
        denied(ResourceType.BROKER, "kafka-cluster", AclOperation.DESCRIBE),
        denied(ResourceType.BROKER, "kafka-cluster", AclOperation.DESCRIBE_CONFIGS),
        allowed(ResourceType.TOPIC, "open", AclOperation.WRITE),
    ]
    await_all(kafka, rules)
    report = await examined(kafka.bootstrap_servers, "open", "nope", timeout=TIMEOUT)
    assert one(report, "brokers").status == "ok"
    assert one(report, "clock").status == "skip"
    assert "settings not readable" in of(report, "topic")[0].summary
    assert of(report, "topic")[1].detail["would_be_created"] is None


def await_all(kafka: KafkaCluster, rules: list[AclBinding]) -> None:
    """Create these rules."""
    for done in kafka.admin.create_acls(rules).values():
        done.result(LIMIT)


# ------------------------------------------------------------------------------------------ secured listeners


def tls(kafka: SecuredKafka) -> dict[str, Any]:
    """The trusted authority."""
    return {"ssl_truststore_location": str(kafka.authority.own.certificate), "timeout": TIMEOUT}


def credentials(kafka: SecuredKafka, mechanism: str, password: str) -> dict[str, Any]:
    """Those of a user."""
    given = {"sasl_mechanism": mechanism, "sasl_username": USER, "sasl_password": password}
    return {"security_protocol": "SASL_SSL", **given, **tls(kafka)}


async def test_a_listener_for_tls(secured_kafka: SecuredKafka) -> None:
    """It wants a certificate of the client; the report has the days of both certificates."""
    server = f"localhost:{secured_kafka.ssl_port}"
    report = await examined(server, security_protocol="SSL", **tls(secured_kafka))
    assert "ssl.keystore.location" in (one(report, "tls").advice or "")
    own = secured_kafka.authority.issue("client", "extendedKeyUsage=clientAuth", subject="/CN=alice")
    store = secured_kafka.authority.folder / "alice.pem"
    store.write_text(own.pem)
    report = await examined(
        server, security_protocol="SSL", ssl_keystore_location=str(store), **tls(secured_kafka)
    )
    assert [check.detail["days_left"] for check in of(report, "tls")] == [8, 8]
    assert (report.exit_code, one(report, "brokers").status) == (0, "warn")


async def test_a_plaintext_client_at_a_listener_for_tls(secured_kafka: SecuredKafka) -> None:
    """The port speaks TLS."""
    report = await examined(f"localhost:{secured_kafka.ssl_port}", timeout=TIMEOUT)
    assert one(report, "protocol").summary == "the port speaks TLS"


async def test_a_tls_client_at_a_plaintext_listener(secured_kafka: SecuredKafka) -> None:
    """The port speaks Kafka without TLS."""
    report = await examined(secured_kafka.bootstrap_servers, security_protocol="SSL", **tls(secured_kafka))
    assert one(report, "tls").summary == "the port speaks Kafka without TLS"


@pytest.mark.parametrize(
    ("mechanism", "password"), [("PLAIN", PLAIN_PASSWORD), ("SCRAM-SHA-512", SCRAM_PASSWORD)]
)
async def test_credentials(secured_kafka: SecuredKafka, mechanism: str, password: str) -> None:
    """Accepted with the lifetime of the session; refused once, with what the broker offers, and without the password."""
    server = f"localhost:{secured_kafka.sasl_port}"
    report = await examined(server, **credentials(secured_kafka, mechanism, password))
    assert one(report, "sasl").detail == {"mechanism": mechanism, "session_seconds": SESSION_SECONDS}
    assert report.exit_code == 0
    report = await examined(server, **credentials(secured_kafka, mechanism, f"{password}-wrong"))
    check = one(report, "sasl")
    assert (check.status, set(check.detail["offered"])) == (
        "fail",
        {"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"},
    )
    assert "canary" not in json.dumps(report.as_dict())


async def test_no_credentials_for_a_listener_that_wants_them(secured_kafka: SecuredKafka) -> None:
    """Kafka ends such a connection at the first question."""
    report = await examined(
        f"localhost:{secured_kafka.sasl_port}", security_protocol="SSL", **tls(secured_kafka)
    )
    assert "the listener wants SASL; it offers" in one(report, "cluster").summary


async def test_the_port_of_a_controller(secured_kafka: SecuredKafka) -> None:
    """It speaks Kafka, and takes no records."""
    report = await examined(f"127.0.0.1:{secured_kafka.nodes[0].ports.controller}", timeout=TIMEOUT)
    assert "a controller's listener?" in one(report, "protocol").summary


async def test_credentials_for_a_listener_without_sasl(secured_kafka: SecuredKafka) -> None:
    """Kafka refuses the handshake, before a password is sent."""
    report = await examined(
        secured_kafka.bootstrap_servers,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="SCRAM-SHA-512",
        sasl_username=USER,
        sasl_password="x",
    )
    check = one(report, "sasl")
    assert (check.status, check.summary) == ("fail", "the listener takes no credentials")
    assert check.advice == "Set security.protocol to PLAINTEXT, or use the port of a listener with SASL."
