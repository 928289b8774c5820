"""Some brokers refuse what others accept: records to the others go on, and no account is locked."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from aioproducer.testing import certificates, unsecured_token
from tests.simulation.access import USER, Access
from tests.simulation.refusing import (
    TOPIC,
    at_work,
    authentications,
    patient_producer,
    recover,
    send_for,
    send_to_each,
)
from tests.simulation.world import World, simulate


@pytest.mark.parametrize(
    ("brokers", "refusing", "session"), [(3, 1, 10.0), (9, 3, 10.0), (9, 3, 60.0), (12, 1, None)]
)
def test_records_to_the_others_go_on(brokers: int, refusing: int, session: float | None) -> None:
    """Their sessions end and their connections are cut meanwhile: none waits for the pause of a broker that refuses."""
    access = Access("PLAIN", session=session, token=30.0, slowness=0.0)

    async def play(world: World) -> None:
        producer = world.producer(linger_ms=0, delivery_timeout_ms=600_000, max_block_ms=300_000)
        places = await at_work(world, producer, brokers)
        refuse = range(2, 2 + refusing)
        faults = [world.kafka.faults.sasl(1, broker=broker, times=None) for broker in refuse]
        for broker in refuse:
            world.kafka.faults.drop_connections(broker)
        longest = 0.0
        for turn in range(240):
            await send_to_each(world, producer, [places[broker] for broker in refuse])
            began = world.now
            accepted = [place for broker, place in places.items() if broker not in refuse]
            if turn % 20 == 0:
                world.kafka.faults.drop_connections(1)
            for delivery in await send_to_each(world, producer, accepted):
                await delivery
            longest = max(longest, world.now - began)
            await asyncio.sleep(0.5)
        assert longest < 10.0
        for fault in faults:
            fault.heal()
        producer.set_credentials(password="first")
        await producer.flush()

    simulate(play, 1, access=access, brokers=brokers, history=400_000)


@pytest.mark.parametrize("fault", ["failing", "hanging"])
def test_a_token_that_one_broker_refuses_is_used_for_the_others(fault: str) -> None:
    """While the provider fails or hangs as well: it is valid for an hour."""
    access = Access("OAUTHBEARER", session=10.0, token=3_600.0, slowness=0.0)

    async def play(world: World) -> None:
        producer = world.producer(linger_ms=0, delivery_timeout_ms=600_000, max_block_ms=300_000)
        places = await at_work(world, producer, 3)
        setattr(access, fault, True)
        refusing = world.kafka.faults.sasl(1, broker=2, times=None)
        world.kafka.faults.drop_connections(2)
        for _ in range(60):
            await send_to_each(world, producer, [places[2]])
            began = world.now
            for delivery in await send_to_each(world, producer, [places[1], places[3]]):
                await delivery
            assert world.now - began < (5.0 if fault == "failing" else 25.0)
            await asyncio.sleep(1.0)
        setattr(access, fault, False)
        refusing.heal()
        await producer.flush()

    simulate(play, 1, access=access, history=400_000)


def test_brokers_that_do_not_answer_hold_up_no_other() -> None:
    """Two refuse, twelve get the credentials and say nothing: the other two go on, although their sessions end."""
    access = Access("PLAIN", session=60.0, token=30.0, slowness=0.0)

    async def play(world: World) -> None:
        producer = world.producer(
            linger_ms=0, delivery_timeout_ms=600_000, max_block_ms=300_000, request_timeout_ms=30_000
        )
        places = await at_work(world, producer, 16)
        for broker in (2, 3):
            world.kafka.faults.sasl(1, broker=broker, times=None)
        for broker in range(4, 16):
            world.kafka.faults.delay(3_600.0, api="SaslAuthenticate", broker=broker, times=None)
        for broker in range(2, 16):
            world.kafka.faults.drop_connections(broker)
        for turn in range(200):
            if turn % 10 == 0:
                await send_to_each(world, producer, [places[broker] for broker in range(2, 16)])
            began = world.now
            for delivery in await send_to_each(world, producer, [places[1], places[16]]):
                await delivery
            assert world.now - began < 15.0
            await asyncio.sleep(1.0)
        await recover(world, producer)

    simulate(play, 1, access=access, brokers=16, history=400_000)


@pytest.mark.parametrize("slow", [0.1, 3.0, 8.0])
def test_a_wrong_password_is_presented_once_until_it_is_refused(slow: float) -> None:
    """Twelve brokers, which take their time for it: one of their connections is given up for it."""
    access = Access("PLAIN", session=None, token=30.0, slowness=0.0)

    async def play(world: World) -> None:
        producer = world.producer(
            linger_ms=0,
            delivery_timeout_ms=600_000,
            max_block_ms=300_000,
            socket_connection_setup_timeout_ms=10_000,
            socket_connection_setup_timeout_max_ms=30_000,
            request_timeout_ms=30_000,
        )
        await at_work(world, producer, 12)
        delayed = world.kafka.faults.delay(slow, api="SaslAuthenticate", before=True, times=None)
        before = authentications(world)
        producer.set_credentials(password="wrong")
        began = world.now
        while world.now - began < slow + 0.7:
            await send_to_each(world, producer, range(12))
            await asyncio.sleep(0.25)
        assert authentications(world) - before == 1
        assert producer.health().connected_brokers >= 10
        delayed.heal()
        producer.set_credentials(password="first")
        await producer.flush()

    simulate(play, 1, access=access, brokers=12, history=100_000)


@pytest.mark.parametrize("password", ["first", "wrong"])
def test_a_former_provider_that_hangs_does_not_delay_new_credentials(password: str) -> None:
    """Twelve connections wait for it: they take the new ones at once, one at a time until the first success."""
    access = Access("PLAIN", session=None, token=30.0, slowness=0.0)

    async def play(world: World) -> None:
        producer = world.producer(linger_ms=0, delivery_timeout_ms=600_000, max_block_ms=300_000)
        await at_work(world, producer, 12)
        before = authentications(world)
        access.hanging = True
        for broker in range(1, 13):
            world.kafka.faults.drop_connections(broker)
        deliveries = await send_to_each(world, producer, range(12))
        await asyncio.sleep(5.0)
        assert authentications(world) == before
        producer.set_credentials(password=password)
        began = world.now
        if password == "wrong":
            await asyncio.sleep(0.7)
            assert authentications(world) - before == 1
            producer.set_credentials(password="first")
        for delivery in deliveries:
            await delivery
        assert world.now - began < (0.5 if password == "first" else 2.5)

    simulate(play, 1, access=access, brokers=12, history=100_000)


def test_a_former_provider_of_tokens_that_hangs_does_not_delay_a_new_one() -> None:
    """It is asked for one token for all connections."""
    access = Access("OAUTHBEARER", session=None, token=3_600.0, slowness=0.0)

    async def play(world: World) -> None:
        world.kafka.create_topic(TOPIC, 3)
        access.hanging = True
        producer = world.producer(linger_ms=0, delivery_timeout_ms=600_000, max_block_ms=300_000)
        await producer.start()
        sending = asyncio.create_task(send_to_each(world, producer, range(3)))
        await asyncio.sleep(5.0)

        async def provide() -> str:
            return unsecured_token(USER, 60.0, now=world.loop.wall_ms() / 1000)

        producer.set_credentials(token_provider=provide)
        began = world.now
        for delivery in await sending:
            await delivery
        assert world.now - began < 0.5

    simulate(play, 1, access=access, history=100_000)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "OAUTHBEARER"])
def test_a_burst_after_a_quiet_night_presents_a_refused_password_once(mechanism: str) -> None:
    """The user was deleted meanwhile and comes back: the refusals of one moment are one, and the pause is a second."""
    access = Access(mechanism, session=None, token=3_600.0, slowness=0.0)

    async def play(world: World) -> None:
        producer = world.producer(
            linger_ms=0, delivery_timeout_ms=20_000, max_block_ms=300_000, connections_max_idle_ms=60_000
        )
        await at_work(world, producer, 12)
        await asyncio.sleep(300.0)
        assert producer.health().connected_brokers <= 1
        before = authentications(world)
        refusing = world.kafka.faults.sasl(1, times=None)
        slow = world.kafka.faults.delay(0.3, api="SaslAuthenticate", times=None)
        sending = asyncio.ensure_future(send_to_each(world, producer, range(12)))
        await asyncio.sleep(0.9)
        assert authentications(world) - before == 1
        refusing.heal()
        slow.heal()
        began = world.now
        for delivery in await sending:
            await delivery
        assert world.now - began < 2.0

    simulate(play, 1, access=access, brokers=12, history=100_000)


@pytest.mark.parametrize("seed", [1, 2, 18])
@pytest.mark.parametrize(("silent", "session"), [(12, 10.0), (12, 60.0), (30, 10.0)])
def test_a_renewal_does_not_wait_behind_brokers_that_do_not_answer(
    silent: int, session: float, seed: int
) -> None:
    """One refuses, many get the credentials and say nothing: two others are never disturbed, but for the ends of sessions."""
    access = Access("PLAIN", session=session, token=30.0, slowness=0.0)

    async def play(world: World) -> None:
        brokers = silent + 3
        producer = patient_producer(world)
        places = await at_work(world, producer, brokers)
        world.kafka.faults.sasl(1, broker=3, times=None)
        for broker in range(4, brokers + 1):
            world.kafka.faults.delay(3_600.0, api="SaslAuthenticate", broker=broker, times=None)
        for broker in range(3, brokers + 1):
            world.kafka.faults.drop_connections(broker)
        for _ in range(150):
            await send_to_each(world, producer, [places[broker] for broker in range(3, brokers + 1)])
            began = world.now
            for delivery in await send_to_each(world, producer, [places[1], places[2]]):
                await delivery
            assert world.now - began < 5.0
            await asyncio.sleep(1.0)
        await recover(world, producer)

    simulate(play, seed, access=access, brokers=silent + 3, history=400_000)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("silent", "seconds"), [(3, 10.0), (12, 12.0), (30, 22.0)])
def test_new_credentials_pass_brokers_that_do_not_answer(silent: int, seconds: float, seed: int) -> None:
    """Several in a row hold up the others ever less: all connections are lost, and none of the new ones is proven."""
    access = Access("PLAIN", session=None, token=30.0, slowness=0.0)

    async def play(world: World) -> None:
        brokers = silent + 2
        producer = patient_producer(world)
        places = await at_work(world, producer, brokers)
        for broker in range(3, brokers + 1):
            world.kafka.faults.delay(3_600.0, api="SaslAuthenticate", broker=broker, times=None)
        for broker in places:
            world.kafka.faults.drop_connections(broker)
        healthy, *_ = await send_to_each(world, producer, [places[broker] for broker in sorted(places)])
        producer.set_credentials(password="first")
        began = world.now
        await healthy
        assert world.now - began < seconds
        await recover(world, producer)

    simulate(play, seed, access=access, brokers=silent + 2, history=400_000)


@pytest.mark.parametrize("step", ["ApiVersions", "SaslHandshake", "SaslAuthenticate"])
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_a_former_password_is_not_presented_after_a_change(mechanism: str, step: str) -> None:
    """Twelve connections wait for an answer meanwhile. The step of SCRAM that proves the password is its second message."""
    access = Access(mechanism, session=None, token=30.0, slowness=0.0)

    async def play(world: World) -> None:
        producer = patient_producer(world)
        await at_work(world, producer, 12)
        before = authentications(world)
        slow = world.kafka.faults.delay(0.5, api=step, times=None)
        for broker in range(1, 13):
            world.kafka.faults.drop_connections(broker)
        deliveries = await send_to_each(world, producer, range(12))
        await asyncio.sleep(0.3)
        # These messages are on their way to a broker.
        sent = authentications(world) - before
        access.password = "second"
        world.kafka.users["alice"] = "second"
        producer.set_credentials(password="second")
        began = world.now
        for delivery in deliveries:
            await delivery
        assert world.now - began < 15.0
        slow.heal()
        refused = sum(one.authentication_failures for one in producer.stats().connections)
        on_their_way = sent if step == "SaslAuthenticate" and mechanism == "PLAIN" else 0
        assert refused <= on_their_way

    simulate(play, 1, access=access, brokers=12, history=100_000)


@pytest.mark.parametrize("quiet", [5.0, 20.0, 60.0])
def test_one_broker_that_refuses_does_not_stop_the_replacement_of_the_others(quiet: float) -> None:
    """Neither with new certificates nor with new credentials, which others accept."""
    access = Access("PLAIN", session=None, token=30.0, slowness=0.0)
    authority = certificates()

    async def play(world: World) -> None:
        producer = patient_producer(
            world, security_protocol="SASL_SSL", ssl_truststore_certificates=authority.authority
        )
        await at_work(world, producer, 12)
        refusing = world.kafka.faults.sasl(1, broker=2, times=None)
        world.kafka.faults.drop_connections(2)
        await send_for(world, producer, quiet)
        for change in ("certificates", "credentials"):
            connects = {one.broker: one.connects for one in producer.stats().connections}
            if change == "certificates":
                await producer.reload_certificates()
            else:
                producer.set_credentials(password="first")
            await send_for(world, producer, 60.0)
            now = {one.broker: one.connects for one in producer.stats().connections}
            replaced = sum(now[broker] > connects[broker] for broker in now)
            assert replaced >= 11
        refusing.heal()
        producer.set_credentials(password="first")
        await producer.flush()

    simulate(play, 1, access=access, brokers=12, history=400_000, tls=authority.broker_context())


@pytest.mark.parametrize("seconds", [2.0, 5.0])
def test_a_slow_provider_gives_no_refused_password_to_the_others(seconds: float) -> None:
    """Twelve connections wait for it at the same time, and one of them has been refused before the others present it."""
    access = Access("PLAIN", session=None, token=30.0, slowness=seconds)

    async def play(world: World) -> None:
        producer = patient_producer(world)
        await at_work(world, producer, 12)
        await asyncio.sleep(5.0)
        world.kafka.faults.sasl(1, times=None)
        world.kafka.faults.delay(0.1, api="SaslAuthenticate", before=True, times=None)
        before = authentications(world)
        for broker in range(1, 13):
            world.kafka.faults.drop_connections(broker)
        await send_to_each(world, producer, range(12))
        await asyncio.sleep(10.0)
        assert authentications(world) - before <= 4
        world.kafka.faults.heal()
        await producer.flush()

    simulate(play, 1, access=access, brokers=12, history=100_000)


@pytest.mark.parametrize("silent", [4, 6, 8])
def test_an_address_that_has_refused_does_not_wait_for_others_without_end(silent: int) -> None:
    """They do not answer the first request, and its own attempts end after two seconds."""
    access = Access("PLAIN", session=None, token=30.0, slowness=0.0)

    async def play(world: World) -> None:
        producer = world.producer(
            linger_ms=0, delivery_timeout_ms=600_000, max_block_ms=300_000, request_timeout_ms=2_000
        )
        places = await at_work(world, producer, silent + 1)
        refusing = world.kafka.faults.sasl(1, broker=1, times=None)
        for broker in range(2, silent + 2):
            world.kafka.faults.delay(3_600.0, api="ApiVersions", broker=broker, times=None)
        for broker in places:
            world.kafka.faults.drop_connections(broker)
        delivery, *_ = await send_to_each(world, producer, [places[broker] for broker in sorted(places)])
        await asyncio.sleep(3.0)
        refusing.heal()
        began = world.now
        await delivery
        assert world.now - began < 10.0
        world.kafka.faults.heal()
        await producer.flush()

    simulate(play, 1, access=access, brokers=silent + 1, history=100_000)


@pytest.mark.parametrize(("delay", "most"), [(0.1, 4), (6.0, 8)])
def test_a_user_who_is_deleted_is_asked_for_ever_less_often(delay: float, most: int) -> None:
    """The deletion reaches the brokers one after another, and they may take longer than a turn to refuse."""
    access = Access("PLAIN", session=None, token=30.0, slowness=0.0)

    async def play(world: World) -> None:
        producer = patient_producer(world)
        await at_work(world, producer, 12)
        for broker in range(1, 13):
            world.kafka.faults.sasl(1, broker=broker, times=None)
            world.kafka.faults.delay(delay, api="SaslAuthenticate", broker=broker, before=True, times=None)
            world.kafka.faults.drop_connections(broker)
            await send_for(world, producer, 3.0)
        await send_for(world, producer, 60.0)
        for _ in range(4):
            before = authentications(world)
            await send_for(world, producer, 60.0)
            assert authentications(world) - before <= most
        world.kafka.faults.heal()
        await producer.flush()

    simulate(play, 1, access=access, brokers=12, history=100_000)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("seconds", [1.0, 4.0])
def test_a_slow_provider_and_one_broker_that_refuses_hold_up_no_other(seconds: float, seed: int) -> None:
    """A refusal of one broker does not end the attempt at another one that waits for the provider meanwhile."""
    access = Access("PLAIN", session=None, token=30.0, slowness=seconds)

    async def play(world: World) -> None:
        producer = patient_producer(world)
        places = await at_work(world, producer, 2)
        world.kafka.faults.sasl(1, broker=2, times=None)
        for broker in places:
            world.kafka.faults.drop_connections(broker)
        began = world.now
        healthy, _ = await send_to_each(world, producer, [places[1], places[2]])
        await healthy
        assert world.now - began < 3.0 + 2 * seconds
        world.kafka.faults.heal()
        await producer.flush()

    simulate(play, seed, access=access, brokers=2, history=100_000)


@pytest.mark.parametrize("seed", range(5))
def test_a_leader_that_moves_away_from_a_broker_that_refuses(seed: int) -> None:
    """The pause is up to 30 seconds by then, and the records need no new connection."""
    access = Access("PLAIN", session=None, token=30.0, slowness=0.0)

    async def play(world: World) -> None:
        producer = patient_producer(world)
        places = await at_work(world, producer, 3)
        world.kafka.faults.sasl(1, broker=3, times=None)
        world.kafka.faults.drop_connections(3)
        world.kafka.faults.move_leader(TOPIC, places[1], 3)
        (delivery,) = await send_to_each(world, producer, [places[1]])
        await asyncio.sleep(60.0)
        world.kafka.faults.move_leader(TOPIC, places[1], 1)
        began = world.now
        await delivery
        assert world.now - began < 3.0
        world.kafka.faults.heal()
        await producer.flush()

    simulate(play, seed, access=access, brokers=3, history=100_000)


@pytest.mark.parametrize("seed", range(6))
def test_a_token_of_another_user_is_no_refused_token(seed: int) -> None:
    """A pool of service accounts: each token has another user, which no open connection may change to."""
    access = Access("OAUTHBEARER", session=10.0, token=10.0, slowness=0.0)
    users = itertools.cycle((USER, "bob"))

    async def play(world: World) -> None:
        async def provide() -> str:
            return unsecured_token(next(users), access.token, now=world.loop.wall_ms() / 1000)

        producer = patient_producer(world, sasl_token_provider=provide)
        places = await at_work(world, producer, 6)
        longest = 0.0
        for _ in range(240):
            began = world.now
            for delivery in await send_to_each(world, producer, places.values()):
                await delivery
            longest = max(longest, world.now - began)
            await asyncio.sleep(0.5)
        assert sum(one.authentication_failures for one in producer.stats().connections) > 10
        assert longest < 1.0

    simulate(play, seed, access=access, brokers=6, history=100_000)


@pytest.mark.parametrize("session", [None, 10.0])
def test_one_refusal_is_one_warning(session: float | None) -> None:
    """The user is gone everywhere for five minutes: the attempts that wait for the result of one are no causes of their own (S57)."""
    access = Access("SCRAM-SHA-256", session=session, token=3_000.0, slowness=0.0)

    async def play(world: World) -> None:
        producer = patient_producer(world)
        places = await at_work(world, producer, 6)
        refusal = world.kafka.faults.error(58, api="SaslAuthenticate", times=None)
        for broker in places:
            world.kafka.faults.drop_connections(broker)
        sent = []
        for _ in range(600):
            sent += await send_to_each(world, producer, places.values())
            await asyncio.sleep(0.5)
        assert 5 <= len(world.warnings()) <= 30
        refusal.heal()
        await asyncio.gather(*sent)

    simulate(play, 1, access=access, brokers=6, history=100_000)
