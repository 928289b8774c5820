"""The embedded Kafka has permissions, and denies with the codes of Kafka's authorizer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from aioproducer import AuthorizationError, BrokerError, Outcome, Producer
from aioproducer.testing import Allow, EmbeddedKafka

SETTINGS: dict[str, Any] = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "PLAIN",
    "sasl_username": "alice",
    "sasl_password": "secret",
    "allow_plaintext_credentials": True,
}


@asynccontextmanager
async def guarded(*allowed: Allow) -> AsyncIterator[EmbeddedKafka]:
    """A cluster with two topics and these permissions."""
    async with EmbeddedKafka(users={"alice": "secret"}, acls={"alice": allowed}) as kafka:
        kafka.create_topic("orders")
        kafka.create_topic("secrets")
        yield kafka


async def test_a_denied_topic_holds_up_no_other() -> None:
    """29 for the one, records in the other; and a permission that is given later counts at once."""
    async with (
        guarded(Allow("WRITE", topic="orders")) as kafka,
        Producer(kafka.bootstrap_servers, **SETTINGS) as producer,
    ):
        with pytest.raises(AuthorizationError) as denied:
            await producer.send("secrets", b"1")
        assert denied.value.topic == "secrets"
        await producer.send_and_wait("orders", b"2")
        assert kafka.acls is not None
        kafka.acls["alice"] = [Allow("ALL", topic="*")]
        await producer.send_and_wait("secrets", b"3")
        assert [record.value for record in kafka.records("secrets")] == [b"3"]
        assert [record.value for record in kafka.records("orders")] == [b"2"]


async def test_a_topic_that_may_be_described_but_not_written() -> None:
    """The broker refuses the records: 29 from Produce."""
    allowed = [Allow("DESCRIBE", topic="secrets"), Allow("WRITE", topic="ord*")]
    async with (
        guarded(*allowed) as kafka,
        Producer(kafka.bootstrap_servers, **SETTINGS) as producer,
    ):
        with pytest.raises(BrokerError) as denied:
            await producer.send_and_wait("secrets", b"1")
        assert denied.value.code == 29
        cause = denied.value.cause
        assert isinstance(cause, AuthorizationError)
        assert (cause.topic, cause.outcome) == ("secrets", Outcome.NOT_WRITTEN)
        await producer.send_and_wait("orders", b"2")
        assert kafka.records("secrets") == []


async def test_a_topic_that_may_not_be_created() -> None:
    """Creation on first use needs CREATE, of the topic or of the cluster."""
    async with (
        guarded(Allow("WRITE", topic="*")) as kafka,
        Producer(kafka.bootstrap_servers, **SETTINGS) as producer,
    ):
        with pytest.raises(AuthorizationError):
            await producer.send("new", b"1")
        assert kafka.acls is not None
        kafka.acls["alice"] = [Allow("WRITE", topic="*"), Allow("CREATE", cluster=True)]
        await producer.send_and_wait("new", b"2")


@pytest.mark.parametrize(
    ("request_name", "allowed", "code"),
    [
        ("InitProducerId", (), 31),
        ("InitProducerId", (Allow("WRITE", topic="other"),), 0),
        ("InitProducerId", (Allow("IDEMPOTENT_WRITE", cluster=True),), 0),
        ("FindCoordinator", (Allow("WRITE", transactional_id="theirs"),), 53),
        ("FindCoordinator", (Allow("WRITE", transactional_id="mi*"),), 0),
    ],
)
async def test_the_codes_of_requests(request_name: str, allowed: Sequence[Allow], code: int) -> None:
    """31 without WRITE of any topic; 53 when the coordinator of a foreign transactional id is searched."""
    codes: list[int] = []

    def look(answer: Any) -> Any:
        codes.append(
            answer.coordinators[0].error_code if request_name == "FindCoordinator" else answer.error_code
        )
        return answer

    both = [*allowed, Allow("DESCRIBE", topic="orders")]
    async with guarded(*both) as kafka:
        seen = kafka.faults.alter(look, api=request_name, times=None)
        if request_name == "InitProducerId":
            async with Producer(kafka.bootstrap_servers, delivery_timeout_ms=60_000, **SETTINGS) as producer:
                producer.send_nowait("orders", b"1")
                await seen.reached()
                await producer.close(0)
        else:
            settings = {**SETTINGS, "transactional_id": "mine"}
            async with Producer(kafka.bootstrap_servers, **settings) as producer:
                with suppress(AuthorizationError):
                    await producer.init_transactions()
    assert codes[0] == code


async def test_a_foreign_transactional_id() -> None:
    """The first transaction is refused with the error of its own."""
    async with guarded(Allow("WRITE", topic="orders")) as kafka:
        with pytest.raises(AuthorizationError):
            async with (
                Producer(kafka.bootstrap_servers, transactional_id="mine", **SETTINGS) as producer,
                producer.transaction(),
            ):
                await producer.send("orders", b"1")
        assert kafka.records("orders") == []


@pytest.mark.parametrize(
    ("operations", "named"),
    [
        ((), {"topic": "a"}),
        (("WRITE",), {}),
        (("PRODUCE",), {"topic": "a"}),
        (("READ",), {"topic": "a", "group": "b"}),
    ],
)
def test_permissions_that_cannot_be(operations: tuple[str, ...], named: dict[str, Any]) -> None:
    """They are refused at once."""
    with pytest.raises(ValueError, match="Allow"):
        Allow(*operations, **named)


def test_permissions_without_users() -> None:
    """No connection would have a user."""
    with pytest.raises(ValueError, match="acls"):
        EmbeddedKafka(acls={})
