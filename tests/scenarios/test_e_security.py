"""B15, E17-E19: faults of TLS and SASL under a whole producer. Every scenario is judged: no loss, no copy, no disorder, no late outcome."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

import pytest

from aioproducer import AuthenticationError, MetadataTimeoutError, Outcome, Producer
from aioproducer.testing import Certificate, certificates
from tests.scenarios.support import TOPIC, all_acked, dials, numbers, scenario, send, stage, stream
from tests.simulation.world import QUICK, World

AUTHORITY: Final = certificates()
HANDSHAKE: Final = 1_500
"""More bytes than a broker sends in its part of a handshake."""
RECORD: Final = 120
"""More bytes than the record of an answer has."""
over_tls = scenario(tls=AUTHORITY.broker_context())


async def staged(world: World, **settings: Any) -> Producer[Any, Any]:
    """The stage, over TLS."""
    return await stage(
        world, security_protocol="SSL", ssl_truststore_certificates=AUTHORITY.authority, **settings
    )


def new_connections(world: World) -> None:
    """All connections end, so that others are opened."""
    for broker in world.kafka.brokers:
        world.kafka.faults.drop_connections(broker.id)


@pytest.mark.parametrize(
    ("issue", "why"),
    [
        (lambda: AUTHORITY.issue(lifetime=timedelta(days=-1)), "has expired"),
        (lambda: AUTHORITY.issue(hosts=["kafka.example"]), "is not for the address"),
        (lambda: certificates().issue(), "unknown authority"),
    ],
    ids=["expired", "another host", "another authority"],
)
@over_tls
async def test_e17_e18_a_wrong_certificate_while_records_are_sent(
    world: World, issue: Callable[[], Certificate], why: str
) -> None:
    """Calls that wait learn why at once; accepted records wait, and are written once the certificate is right again."""
    producer = await staged(world)
    await all_acked(await send(world, producer, 3))
    wrong = world.kafka.faults.certificate(AUTHORITY.broker_context(issue()))
    new_connections(world)
    accepted = await send(world, producer, 3)
    began, seen = world.now, len(world.kafka.requests)
    with pytest.raises(AuthenticationError, match=why) as caught:
        await producer.send("unknown-topic", b"never")
    assert caught.value.reason == "certificate"
    assert world.now - began < 2.0
    await asyncio.sleep(3.0)
    assert len(world.kafka.requests) == seen
    # Nothing changes within a second: an address is dialed that often at most.
    assert all(dials(world, broker.port, began, 3.0) <= 4 for broker in world.kafka.brokers)
    assert all(delivery.outcome is Outcome.PENDING for delivery in accepted)
    wrong.heal()
    await all_acked(accepted)


@over_tls
async def test_e19_handshakes_are_cut(world: World) -> None:
    """At any byte, by an end or a reset: the next attempt opens the connection, and the error is none of an identity."""
    producer = await staged(world)
    sent = []
    for _ in range(4):
        world.kafka.faults.cut_handshake(
            world.rng.randrange(HANDSHAKE), reset=world.rng.random() < 0.5, times=world.rng.randrange(1, 4)
        )
        new_connections(world)
        sent += await send(world, producer, 3)
        await all_acked(sent)
    assert world.lines("refused") == []


@over_tls
async def test_e19_records_are_cut(world: World) -> None:
    """The broker has written the batch, and its answer does not arrive: the repetition is recognized."""
    producer = await staged(world)
    for _ in range(4):
        world.kafka.faults.cut_record(
            world.rng.randrange(RECORD), reset=world.rng.random() < 0.5, times=world.rng.randrange(1, 3)
        )
        await all_acked(await send(world, producer, 3))
    assert sorted(numbers(world)) == list(range(12))


@pytest.mark.parametrize("before", [False, True])
@over_tls
async def test_e19_tls_ends_without_close_notify(world: World, *, before: bool) -> None:
    """An end of TCP is no proof that the broker has sent everything: the batch is repeated."""
    producer = await staged(world)
    fault = world.kafka.faults.close_without_notify(before=before, times=4)
    await all_acked(await stream(world, producer, 2.0, 0.1))
    assert fault.hits == 4
    count = len(world.ledger.entries)
    assert sorted(numbers(world)) == list(range(count))


@pytest.mark.parametrize("api", ["Produce", "Metadata", "ApiVersions"])
@over_tls
async def test_e19_answers_trickle(world: World, api: str) -> None:
    """A few bytes at a time, each in a record of its own: within the time for an answer it counts, and later it does not."""
    producer = await staged(world)
    world.kafka.faults.trickle(4, pause=0.01, api=api, times=3)
    new_connections(world)
    await all_acked(await send(world, producer, 3))
    endless = world.kafka.faults.trickle(1, pause=0.5, api=api, times=1)
    new_connections(world)
    await all_acked(await send(world, producer, 3))
    assert endless.hits == 1
    assert sorted(numbers(world)) == list(range(6))


MINUTE: Final = 60.0


@pytest.mark.parametrize(
    ("step", "change"),
    [
        (1, lambda token: token.replace(b"r=", b"r=x")),
        (1, lambda token: token.replace(b"i=4096", b"i=2147483647")),
        (1, lambda _: b""),
        (1, lambda _: bytes(600 * 1024)),
        (2, lambda _: b""),
        (2, lambda _: b"v=" + base64.b64encode(bytes(64))),
    ],
    ids=["nonce", "iterations", "nothing", "600 KB", "no signature", "wrong signature"],
)
@scenario(users={"alice": "secret"}, mechanisms=("SCRAM-SHA-512",))
async def test_b15_a_broker_that_cheats_for_a_minute(
    world: World, step: int, change: Callable[[bytes], bytes]
) -> None:
    """Each broker is asked once a second at most, calls learn why, and the honest broker is accepted."""
    cheating = world.kafka.faults.sasl(step, change, times=None)
    world.kafka.create_topic(TOPIC, 3, min_insync_replicas=2)
    producer = world.producer(
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="SCRAM-SHA-512",
        sasl_username="alice",
        sasl_password="secret",
    )
    began = world.now
    await producer.start()
    with pytest.raises((AuthenticationError, MetadataTimeoutError)):
        await producer.send(TOPIC, b"never")
    assert world.now - began <= QUICK["max_block_ms"] / 1000 + 0.1
    await asyncio.sleep(began + MINUTE - world.now)
    assert all(dials(world, broker.port, began, MINUTE) <= MINUTE + 1 for broker in world.kafka.brokers)
    cheating.heal()
    await producer.ready(MINUTE)
    await all_acked(await send(world, producer, 3))
