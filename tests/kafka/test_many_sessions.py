"""Sessions of five seconds at a real Kafka: hundreds of re-authentications under every kind of work, and another user."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import attrs
import pytest

from aioproducer import Delivery, Producer
from aioproducer.auth import Token
from aioproducer.testing import unsecured_token
from tests.effort import PROOF
from tests.kafka.reading import by_partition, read_all
from tests.kafka.secured import OTHER_USER, USER, SecuredKafka
from tests.kafka.sending import LIMIT, Sender, sending, until
from tests.kafka.test_secured_producer import MECHANISMS, settings

pytestmark = pytest.mark.kafka
REAUTHENTICATIONS: Final = 2_000 if PROOF else 60
OF_EACH_KIND: Final = 2
BURST: Final = 5
REFUSAL: Final = "Cannot change principals during re-authentication from User."
PAUSE: Final = 0.2


@pytest.fixture
def kafka(secured_kafka: SecuredKafka) -> SecuredKafka:
    return secured_kafka


@attrs.define(eq=False)
class Work:
    """A producer that writes to a partition of its own."""

    producer: Producer[Any, Any]
    topic: str
    partition: int
    committed: list[bytes] = attrs.field(factory=list)
    deliveries: list[Delivery] = attrs.field(factory=list)
    _bursts: int = 0

    async def run(self, step: Callable[[Work], Awaitable[None]], ended: asyncio.Event) -> None:
        """Repeat this step."""
        async with self.producer:
            await self.producer.ready(LIMIT)
            if self.producer.config.transactional_id is not None:
                await self.producer.init_transactions()
            while not ended.is_set():
                await step(self)
                await asyncio.sleep(PAUSE)  # the pace of the application
            await self.producer.flush()

    async def send(self) -> None:
        """Some records."""
        self.committed += await self._burst()

    async def transact(self) -> None:
        """A transaction; each second one is aborted."""
        await self.producer.begin_transaction()
        values = await self._burst()
        if self._bursts % 2:
            await self.producer.commit_transaction()
            self.committed += values
        else:
            await asyncio.gather(*self.deliveries[-BURST:])
            await self.producer.abort_transaction()

    async def _burst(self) -> list[bytes]:
        values = [b"%d-%d" % (self._bursts, index) for index in range(BURST)]
        self._bursts += 1
        for value in values:
            self.deliveries.append(await self.producer.send(self.topic, value, partition=self.partition))
        return values

    @property
    def reauthentications(self) -> int:
        """Those of all connections, also of closed ones."""
        return sum(one.reauthentications for one in self.producer.stats().connections)

    async def judge(self, found: list[bytes]) -> None:
        """Each record is there once and in order.

        Without answers that holds for one connection. A busy machine may lose it: then records may be lost and change their
        order (docs/guarantees.md), and none is doubled.
        """
        connections = [one for one in self.producer.stats().connections if one.broker == "1"]
        if self.producer.config.acks != 0 or sum(one.connects for one in connections) == 1:
            assert found == self.committed
        assert len(found) == len(set(found))
        assert set(found) <= set(self.committed)
        await asyncio.gather(*self.deliveries)
        stats = self.producer.stats()
        assert (stats.records_failed, stats.records_unknown, stats.transactions.unknown) == (0, 0, 0)


KINDS: Final[tuple[tuple[dict[str, Any], Callable[[Work], Awaitable[None]]], ...]] = (
    ({"max_in_flight_requests_per_connection": 1}, Work.send),
    ({"max_in_flight_requests_per_connection": 5}, Work.send),
    ({"acks": 0, "enable_idempotence": False}, Work.send),
    ({"transactional_id": "many-sessions"}, Work.transact),
)


async def test_many_reauthentications(kafka: SecuredKafka, tmp_path: Path) -> None:
    """With each mechanism and each kind of work, no record is lost, doubled, reordered, failed or in doubt."""
    kinds = list(itertools.product(MECHANISMS, KINDS, range(OF_EACH_KIND)))
    topic = await asyncio.to_thread(kafka.create_topic, "many-sessions", len(kinds))
    ended = asyncio.Event()
    works: list[Work] = []
    running: list[asyncio.Future[None]] = []
    for partition, (mechanism, (given, step), _) in enumerate(kinds):
        own = {"linger_ms": 0, **settings(kafka, mechanism, tmp_path), **given}
        if "transactional_id" in own:
            own["transactional_id"] += f"-{partition}"
        works.append(Work(Producer(f"localhost:{kafka.sasl_port}", **own), topic, partition))
        running.append(asyncio.ensure_future(works[-1].run(step, ended)))

    def is_enough() -> bool:
        again = sum(one.reauthentications for one in works)
        return again >= REAUTHENTICATIONS or any(one.done() for one in running)

    await until(is_enough, REAUTHENTICATIONS)
    ended.set()
    await asyncio.gather(*running)
    read = await asyncio.to_thread(read_all, kafka.bootstrap_servers, topic, isolation="read_committed")
    found = by_partition(read)
    for work in works:
        await work.judge([one.value or b"" for one in found[work.partition]])
    again = sum(one.reauthentications for one in works)
    closed = sum(one.failures for work in works for one in work.producer.stats().connections)
    print(
        f"{len(works)} producers, {again} re-authentications, {len(read)} records, {closed} connections lost"
    )


async def test_another_user(kafka: SecuredKafka, caplog: pytest.LogCaptureFixture) -> None:
    """A broker does not let a connection change its user: a new one has the new user, and no record is lost by it."""
    users = [USER]

    async def provide() -> Token:
        # Each authentication asks for another one.
        return Token(unsecured_token(users[-1]), time.time() + 0.5)

    given = {
        "bootstrap_servers": f"localhost:{kafka.sasl_port}",
        "linger_ms": 0,
        "security_protocol": "SASL_SSL",
        "ssl_truststore_location": str(kafka.authority.own.certificate),
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_token_provider": provide,
    }
    async with sending(kafka, "another-user", **given) as sender:
        await until(sender.authentications)
        # On a busy machine a connection may end before its renewal: the next one has the new user, and needs another.
        for user in itertools.cycle((OTHER_USER, USER)):
            users.append(user)
            connected = connects(sender)
            await until(lambda connected=connected: REFUSAL in caplog.text or connects(sender) > connected)  # type: ignore[misc]
            if REFUSAL in caplog.text:
                break
        sent = len(sender.deliveries)
        await until(lambda: sender.producer.stats().records_acked > sent)
    warnings = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
    assert sum(REFUSAL in one for one in warnings) == 1


def connects(sender: Sender) -> int:
    """The connections to the broker so far."""
    return sum(one.connects for one in sender.producer.stats().connections if one.broker == "1")
