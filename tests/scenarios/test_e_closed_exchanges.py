"""E21: a broker closes the connection in the middle of an authentication, at the opening and on a live connection.

Every scenario is judged: no loss, no copy, no disorder, no late outcome.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

import pytest

from aioproducer import BrokerUnavailableError, Delivery, MetadataTimeoutError, Outcome, Producer
from aioproducer.testing import certificates
from aioproducer.testing.broker.rules import Fault
from tests.scenarios.support import TOPIC, all_acked, numbers, send
from tests.scenarios.test_e_security import new_connections
from tests.simulation.access import USER, Access
from tests.simulation.world import World, simulate

SESSION: Final = 4.0
TOKEN: Final = 3_600.0
LIMIT: Final = 60.0
AUTHORITY: Final = certificates()
HINT: Final = "during the authentication, at {}; some services do so in place of a refusal"

Where = dict[str, Any]
Cut = Callable[[World, Where], Fault]
HANDSHAKE: Final[Where] = {"api": "SaslHandshake"}


def message(step: int) -> Where:
    """A message of the mechanism."""
    return {"api": "SaslAuthenticate", "step": step}


STEPS: Final[tuple[tuple[str, Where], ...]] = (
    ("PLAIN", HANDSHAKE),
    ("PLAIN", message(1)),
    ("SCRAM-SHA-256", HANDSHAKE),
    ("SCRAM-SHA-256", message(1)),
    ("SCRAM-SHA-256", message(2)),
    ("SCRAM-SHA-512", message(1)),
    ("SCRAM-SHA-512", message(2)),
    ("OAUTHBEARER", HANDSHAKE),
    ("OAUTHBEARER", message(1)),
)
CUTS: Final[dict[str, Cut]] = {
    "unread": lambda world, where: world.kafka.faults.cut_request(world.rng.randrange(8, 40), **where),
    "unanswered": lambda world, where: world.kafka.faults.cut(before=True, reset=False, **where),
    "answered to nobody": lambda world, where: world.kafka.faults.cut(reset=False, **where),
    "reset": lambda world, where: world.kafka.faults.cut(before=True, **where),
    "in the answer": lambda world, where: world.kafka.faults.cut_answer(
        world.rng.randrange(1, 14), reset=world.rng.random() < 0.5, **where
    ),
    "behind the answer": lambda world, where: world.kafka.faults.half_close(**where),
}
LONGEST: Final = ("SCRAM-SHA-512", (HANDSHAKE, message(1), message(2)))
UNFINISHED: Final = [
    *((mechanism, where, "unanswered") for mechanism, where in STEPS),
    *((LONGEST[0], where, how) for where in LONGEST[1] for how in CUTS if how != "behind the answer"),
]
"""Each step of each mechanism, and each way at each step of the longest."""
ALL: Final = [*UNFINISHED, *((LONGEST[0], where, "behind the answer") for where in LONGEST[1])]


def each(cuts: list[tuple[str, Where, str]]) -> pytest.MarkDecorator:
    """A test for each of these."""
    names = [f"{mechanism} {where['api']} {where.get('step', 0)} {how}" for mechanism, where, how in cuts]
    return pytest.mark.parametrize(("mechanism", "where", "how"), cuts, ids=names)


async def created(world: World, **settings: Any) -> Producer[Any, Any]:
    """A topic, whose partitions have a leader each, and a producer that is not started."""
    world.kafka.create_topic(TOPIC, 3, min_insync_replicas=2)
    return world.producer(linger_ms=0, **settings)


async def sent_until(world: World, producer: Producer[Any, Any], fault: Fault, hits: int) -> list[Delivery]:
    """Records without a pause, until the fault has happened so often, and for a second behind that."""
    sent: list[Delivery] = []
    end = world.now + LIMIT
    while world.now < end:
        for partition in range(3):
            sent += await send(world, producer, 1, partition=partition)
        await asyncio.sleep(0.02)
        if fault.hits >= hits:
            end = min(end, world.now + 1.0)
    assert fault.hits >= hits
    return sent


def authentications(world: World) -> int:
    """The exchanges that were begun."""
    return sum(request.api == "SaslHandshake" for request in world.kafka.requests)


@each(UNFINISHED)
@pytest.mark.seeded(1)
def test_e21_at_the_opening_the_error_and_the_log_name_the_step(
    mechanism: str, where: Where, how: str, seed: int
) -> None:
    """It is no AuthenticationError, since a network may do it as well; each attempt ends in it, and the next one is made.

    One WARNING says so (S57), and no secret is in it.
    """
    access = Access(mechanism, None, TOKEN, 0.0)

    async def play(world: World) -> None:
        producer = await created(world, reconnect_backoff_ms=100)
        fault = CUTS[how](world, {**where, "times": None})
        await producer.start()
        with pytest.raises(MetadataTimeoutError) as caught:
            await producer.ready(4.0)
        cause = caught.value.cause
        assert isinstance(cause, BrokerUnavailableError)
        hint = "in the middle of an answer" if how == "in the answer" else HINT.format(where["api"])
        assert hint in str(cause)
        for line in world.warnings():
            assert hint in line
            assert access.password not in line
        assert len(world.warnings()) == len(world.kafka.brokers)
        assert fault.hits > len(world.kafka.brokers)
        fault.heal()
        await producer.ready(10.0)
        await all_acked(await send(world, producer, 3))

    simulate(play, seed, access=access)


@each(ALL)
@pytest.mark.seeded(1)
def test_e21_accepted_records_wait_for_the_next_opening(
    mechanism: str, where: Where, how: str, seed: int
) -> None:
    """The connections end under load, and the next ones are cut as well: each record is written once, in its order."""

    async def play(world: World) -> None:
        producer = await created(world)
        await producer.start(wait_ready=5)
        await all_acked(await send(world, producer, 3))
        fault = CUTS[how](world, {**where, "times": 5})
        new_connections(world)
        sent = await sent_until(world, producer, fault, 5)
        await all_acked(sent)
        assert sorted(numbers(world)) == list(range(3 + len(sent)))

    simulate(play, seed, access=Access(mechanism, None, TOKEN, 0.0), history=100_000)


@each(UNFINISHED)
@pytest.mark.seeded(1)
def test_e21_in_a_reauthentication_behind_requests_in_flight(
    mechanism: str, where: Where, how: str, seed: int
) -> None:
    """The broker has answered the requests before it closes: no batch is in doubt, none is sent again, none fails.

    The line about the end of the connection names the step. The failure is counted.
    """
    # Five of them take less than the time for which nothing is written before a session ends.
    slow = 0.05

    async def play(world: World) -> None:
        producer = await created(world, max_in_flight_requests_per_connection=1 if how == "reset" else 5)
        await producer.start(wait_ready=5)
        for partition in range(3):
            await all_acked(await send(world, producer, 1, partition=partition))
        world.kafka.faults.delay(slow, before=True, times=None)
        before = authentications(world)
        fault = CUTS[how](world, {**where, "times": 2})
        sent = await sent_until(world, producer, fault, 2)
        await all_acked(sent)
        stats = producer.stats()
        assert (stats.records_retried, stats.records_failed, stats.records_unknown) == (0, 0, 0)
        assert authentications(world) > before
        ends = world.lines("the connection to a broker ended")
        assert ends
        if how != "in the answer":
            assert HINT.format(where["api"]) in ends[0]
        assert sum(one.authentication_failures for one in stats.connections) >= 1
        assert sorted(numbers(world)) == list(range(3 + len(sent)))

    simulate(play, seed, access=Access(mechanism, SESSION, TOKEN, 0.0), history=100_000)


@pytest.mark.parametrize(("mechanism", "where"), [("PLAIN", HANDSHAKE), ("SCRAM-SHA-512", message(2))])
@pytest.mark.seeded(2)
def test_e21_answers_that_are_lost_with_the_connection(mechanism: str, where: Where, seed: int) -> None:
    """The broker has written batches, and its answers and the exchange behind them are lost: they are sent again, and recognized."""

    async def play(world: World) -> None:
        producer = await created(world)
        await producer.start(wait_ready=5)
        await all_acked(await send(world, producer, 3))
        slow = world.kafka.faults.delay(1.0, times=None)
        fault = CUTS["unanswered"](world, {**where, "times": 1})
        sent = []
        end = world.now + 3 * SESSION
        while world.now < end:
            sent += await send(world, producer, 3)
            if world.rng.random() < 0.02:
                new_connections(world)
            await asyncio.sleep(0.05)
        slow.heal()
        await all_acked(sent)
        assert fault.hits == 1
        assert producer.stats().records_retried > 0
        assert producer.stats().records_unknown == 0
        assert sorted(numbers(world)) == list(range(3 + len(sent)))

    simulate(play, seed, access=Access(mechanism, SESSION, TOKEN, 0.0), history=100_000)


@pytest.mark.parametrize(("mechanism", "where"), [("PLAIN", message(1)), ("SCRAM-SHA-512", message(2))])
@pytest.mark.parametrize("how", ["unanswered", "reset", "in the answer"])
@pytest.mark.seeded(1)
def test_e21_without_answers(mechanism: str, where: Where, how: str, seed: int) -> None:
    """acks=0: the broker has read all that stands before the exchange, and the rest waits behind the gate: each is there once."""

    async def play(world: World) -> None:
        producer = await created(world, acks=0, enable_idempotence=False)
        await producer.start(wait_ready=5)
        fault = CUTS[how](world, {**where, "times": 2})
        sent = await sent_until(world, producer, fault, 2)
        await producer.flush()
        await asyncio.sleep(1.0)
        assert sorted(numbers(world)) == list(range(len(sent)))
        for partition in range(3):
            assert numbers(world, partition) == sorted(numbers(world, partition))

    simulate(play, seed, access=Access(mechanism, SESSION, TOKEN, 0.0), history=100_000)


@pytest.mark.parametrize(("mechanism", "where"), [("OAUTHBEARER", HANDSHAKE), ("SCRAM-SHA-256", message(1))])
@pytest.mark.parametrize("how", ["unanswered", "reset", "behind the answer"])
@pytest.mark.seeded(1)
def test_e21_transactions_go_on(mechanism: str, where: Where, how: str, seed: int) -> None:
    """At the coordinator and the leaders: each transaction commits, or tells its caller, and none is in doubt."""

    async def play(world: World) -> None:
        producer = await created(world, transactional_id="shop")
        await producer.start(wait_ready=5)
        await producer.init_transactions()
        fault = CUTS[how](world, {**where, "times": 4})
        count, end = 0, world.now + LIMIT
        while fault.hits < 4:
            assert world.now < end
            await producer.begin_transaction()
            await send(world, producer, 3)
            await producer.commit_transaction()
            count += 3
            await asyncio.sleep(0.1)
        assert producer.stats().transactions.unknown == 0
        assert producer.stats().records_unknown == 0
        assert sorted(numbers(world)) == list(range(count))

    simulate(play, seed, access=Access(mechanism, SESSION, TOKEN, 0.0), history=100_000)


@pytest.mark.parametrize("where", [HANDSHAKE, message(1), message(2)], ids=["handshake", "first", "second"])
@pytest.mark.seeded(1)
def test_e21_over_tls(where: Where, seed: int) -> None:
    """The opening and the sessions of SASL_SSL are cut, with and without close_notify, and so is the handshake of TLS."""

    async def play(world: World) -> None:
        producer = await created(
            world,
            security_protocol="SASL_SSL",
            ssl_truststore_certificates=AUTHORITY.authority,
            sasl_mechanism="SCRAM-SHA-512",
            sasl_username=USER,
            sasl_password="first",
        )
        await producer.start(wait_ready=5)
        sent = await send(world, producer, 3)
        for cut in (
            world.kafka.faults.cut(before=True, reset=False, times=2, **where),
            world.kafka.faults.close_without_notify(before=True, times=2, **where),
        ):
            sent += await sent_until(world, producer, cut, 2)
        world.kafka.faults.cut_handshake(world.rng.randrange(1_500), times=3)
        new_connections(world)
        sent += await send(world, producer, 3)
        await all_acked(sent)
        assert producer.stats().records_unknown == 0
        assert sorted(numbers(world)) == list(range(len(sent)))
        assert any(HINT.format(where["api"]) in line for line in world.lines())

    simulate(
        play,
        seed,
        tls=AUTHORITY.broker_context(),
        users={USER: "first"},
        mechanisms=("SCRAM-SHA-512",),
        session_lifetime=SESSION,
        history=100_000,
    )


@pytest.mark.parametrize("at_byte", [0, 1, 200, 600])
@pytest.mark.seeded(1)
def test_e21_in_the_handshake_of_tls_the_log_names_it(at_byte: int, seed: int) -> None:
    """A broker that stops closes there as well: the words are not only those of a plaintext listener."""

    async def play(world: World) -> None:
        producer = await created(
            world, security_protocol="SSL", ssl_truststore_certificates=AUTHORITY.authority
        )
        fault = world.kafka.faults.cut_handshake(at_byte, times=None)
        await producer.start()
        with pytest.raises(MetadataTimeoutError, match="closed the connection in the TLS handshake"):
            await producer.ready(3.0)
        for line in world.warnings():
            assert "may be a plaintext listener, or a broker that stops" in line
        fault.heal()
        await all_acked(await send(world, producer, 3))

    simulate(play, seed, tls=AUTHORITY.broker_context())


@pytest.mark.parametrize("mechanism", ["PLAIN", "OAUTHBEARER"])
@pytest.mark.seeded(1)
def test_e21_a_service_that_closes_in_place_of_a_refusal(mechanism: str, seed: int) -> None:
    """For a minute: each address is dialed once a second at most, and accepted records wait to be written."""

    async def play(world: World) -> None:
        producer = await created(world, delivery_timeout_ms=120_000)
        await producer.start(wait_ready=5)
        await all_acked(await send(world, producer, 3))
        fault = CUTS["unanswered"](world, {**message(1), "times": None})
        new_connections(world)
        accepted = await send(world, producer, 3)
        began, before = world.now, fault.hits
        await asyncio.sleep(60.0)
        assert fault.hits - before <= len(world.kafka.brokers) * (world.now - began + 5)
        assert all(one.outcome is Outcome.PENDING for one in accepted)
        assert len(world.warnings()) <= len(world.kafka.brokers) * 7 + 3
        fault.heal()
        await all_acked(accepted)

    simulate(play, seed, access=Access(mechanism, None, TOKEN, 0.0), history=100_000)
