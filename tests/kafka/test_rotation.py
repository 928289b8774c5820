"""Secrets, certificates and users of three real nodes change while records are sent, in sessions of five seconds."""

from __future__ import annotations

import asyncio
import datetime
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final

import pytest

from aioproducer import AuthenticationError, ConfigurationError, Producer
from aioproducer.testing import unsecured_token
from tests.effort import PROOF
from tests.kafka.reading import read_all
from tests.kafka.sending import PARTITIONS, Sender, sending, until
from tests.soak.access import SCRAM, TOKENS, Access
from tests.soak.secured_nodes import PASSWORD_FILE, SESSION_SECONDS, USER, SecuredNodes
from tools.kafka_node import QUICK_START

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(400)]

ROUNDS: Final = 10 if PROOF else 1
"""Of all changes, one after the other."""
WITHOUT_USER: Final = 40.0 if PROOF else 8.0


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredNodes]:
    with SecuredNodes(3, java_options=QUICK_START, folder=tmp_path_factory.mktemp("secured")) as nodes:
        yield nodes


def access(kafka: SecuredNodes, mechanism: str) -> dict[str, Any]:
    """The settings of a producer: all secrets are in files, or come from a provider."""
    return {"linger_ms": 0, **Access(kafka.secured_servers, kafka.folder, mechanism).lasting}


async def test_e18_e20_everything_changes_while_records_are_sent(kafka: SecuredNodes) -> None:
    """Passwords, tokens, certificates of clients and brokers, and authorities: no record is lost, doubled or in doubt."""
    async with (
        sending(kafka, "by-password", **access(kafka, SCRAM)) as by_password,
        sending(kafka, "by-token", **access(kafka, TOKENS)) as by_token,
    ):
        both = (by_password, by_token)
        for number in range(ROUNDS):
            new = (number + 1) % 2
            # The file follows a second after the cluster: authentications meanwhile are refused.
            await asyncio.to_thread(kafka.change_password, 1.0)
            await authenticated_again(both)
            # A half-written file first; open connections are replaced with the new certificate.
            change = asyncio.ensure_future(asyncio.to_thread(kafka.change_client_certificate, new, 1.0))
            await until(lambda: not is_whole(kafka))
            with pytest.raises(ConfigurationError):
                await by_password.producer.reload_certificates()
            await change
            await replaced(both)
            # The authorities of brokers and clients.
            await asyncio.to_thread(kafka.change_trusted, 0, 1)
            await asyncio.to_thread(kafka.change_broker_certificates, new)
            await replaced(both)
            await asyncio.to_thread(kafka.change_trusted, new)
            await replaced(both)
            # Credentials by a call.
            by_token.producer.set_credentials(token_provider=a_token)
            await asyncio.to_thread(kafka.change_password, 0.0)
            by_password.producer.set_credentials(password=(kafka.folder / PASSWORD_FILE).read_text())
            await authenticated_again(both)
            by_password.producer.set_credentials(password=(kafka.folder / PASSWORD_FILE).read_text)
            await authenticated_again(both)


async def a_token() -> str:
    """A token that the brokers accept."""
    return unsecured_token(USER, 30.0)


def is_whole(kafka: SecuredNodes) -> bool:
    """Whether the file of the client's certificate is complete."""
    return "END CERTIFICATE" in (kafka.folder / "client.pem").read_text()


async def authenticated_again(senders: tuple[Sender, ...]) -> None:
    """All senders have authenticated with the secrets of now."""
    await asyncio.gather(*(each.authenticates_again() for each in senders))


async def replaced(senders: tuple[Sender, ...]) -> None:
    """All senders have connections with the certificates of now."""
    waiting = [asyncio.ensure_future(each.authenticates_again()) for each in senders]
    await asyncio.sleep(0)  # the counts of before are taken
    for each in senders:
        await each.producer.reload_certificates()
    await asyncio.gather(*waiting)


def time_of_day() -> float:
    """The seconds since midnight, as the logs of the brokers have them."""
    now = datetime.datetime.now().astimezone()
    return now.hour * 3600 + now.minute * 60 + now.second + now.microsecond / 1e6


REFUSED: Final = re.compile(
    r"^(\d\d):(\d\d):(\d\d),(\d{3}) .*Failed (?:re-)?authentication with", re.MULTILINE
)


def refusals(kafka: SecuredNodes, beginnings: list[int]) -> list[float]:
    """The times at which brokers refused credentials, by their own logs, behind these places."""
    found: list[float] = []
    for node, beginning in zip(kafka.nodes, beginnings, strict=True):
        text = (node.folder / "server.log").read_bytes()[beginning:].decode(errors="replace")
        for hours, minutes, seconds, thousandths in REFUSED.findall(text):
            found.append(int(hours) * 3600 + int(minutes) * 60 + int(seconds) + int(thousandths) / 1000)
    return sorted(found)


async def test_e15_a_user_is_deleted_and_comes_back(kafka: SecuredNodes) -> None:
    """Few attempts, errors at once for calls that wait, and each accepted record is written once the user is back."""
    async with sending(kafka, "deleted", **access(kafka, SCRAM)) as sender:
        producer, loop = sender.producer, asyncio.get_running_loop()
        beginnings = [(node.folder / "server.log").stat().st_size for node in kafka.nodes]
        await asyncio.to_thread(kafka.drop_user)
        # The sessions of before go on to their ends.
        await until(lambda: not producer.health().connected_brokers)
        began, late = loop.time(), list[float]()
        while loop.time() < began + WITHOUT_USER:
            with pytest.raises(AuthenticationError) as caught:
                await producer.send("unknown-topic", b"never")
            assert caught.value.reason == "credentials"
            late.append(time_of_day() - refusals(kafka, beginnings)[-1])
        times = refusals(kafka, beginnings)
        await asyncio.to_thread(kafka.change_password, 0.0)
        acked = len(sender.deliveries)
        await until(lambda: producer.stats().records_acked > acked)
    print(
        f"{len(times)} refusals in {times[-1] - times[0]:.1f} s; pauses",
        [round(later - earlier, 1) for earlier, later in pairwise(times)],
    )
    # An attempt that goes on beside the one that was refused has three seconds: it may be accepted.
    assert max(late) < 3.0 + 1.0
    assert 2 <= len(times) <= WITHOUT_USER + SESSION_SECONDS


async def test_sessions_end_under_every_kind_of_work(kafka: SecuredNodes) -> None:
    """Transactions, acks=0, and one or five requests in flight go on over the ends of sessions, on the same connections."""
    kinds: dict[str, dict[str, Any]] = {
        "one": {"max_in_flight_requests_per_connection": 1},
        "five": {"max_in_flight_requests_per_connection": 5},
        "none": {"acks": 0, "enable_idempotence": False},
    }
    seconds = 60.0 if PROOF else 2.2 * SESSION_SECONDS
    await asyncio.gather(
        *(over_sessions(kafka, name, seconds, **given) for name, given in kinds.items()),
        transactions_over_sessions(kafka, seconds),
    )


async def over_sessions(kafka: SecuredNodes, name: str, seconds: float, **given: Any) -> None:
    """Send for this time."""
    async with sending(kafka, f"sessions-{name}", **access(kafka, SCRAM), **given) as sender:
        await asyncio.sleep(seconds)  # the duration of the work
        stats = sender.producer.stats()
        assert stats.records_retried == 0
        # Far more than the metadata connection has, and few enough for a busy machine.
        busy = [one for one in stats.connections if one.requests > 30]
        assert len(busy) == PARTITIONS
        # On a busy machine an answer may not come within a part of a session: a new connection is opened before its end then.
        assert sum(one.authentication_failures for one in busy) <= PARTITIONS
        assert sum(one.reauthentications for one in busy) >= PARTITIONS
        for one in busy:
            assert one.failures == 0
            assert one.connects <= 1 + one.authentication_failures
            assert one.connects + one.reauthentications > int(seconds / SESSION_SECONDS)


async def transactions_over_sessions(kafka: SecuredNodes, seconds: float) -> None:
    """Each second transaction is committed, the others are aborted."""
    loop, topic = asyncio.get_running_loop(), "sessions-transactions"
    await asyncio.to_thread(kafka.create_topic, topic, 1)
    committed: list[bytes] = []
    async with Producer(transactional_id="sessions", **access(kafka, SCRAM)) as producer:
        await producer.init_transactions()
        until_then, number = loop.time() + seconds, 0
        while loop.time() < until_then:
            number += 1
            values = [b"%d-%d" % (number, index) for index in range(10)]
            await producer.begin_transaction()
            sent = [await producer.send(topic, value, partition=0) for value in values]
            if number % 2:
                await producer.commit_transaction()
                committed += values
            else:
                await asyncio.gather(*sent)
                await producer.abort_transaction()
        stats = producer.stats()
    assert stats.transactions.unknown == 0
    assert sum(one.reauthentications for one in stats.connections) > 1
    found = await asyncio.to_thread(read_all, kafka.bootstrap_servers, topic, isolation="read_committed")
    assert [one.value for one in found] == committed
