"""Authentications that take longer than an address has for its connection: all brokers are well, and a host has several addresses."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Callable
from typing import Any, Final

import pytest

from aioproducer.errors import AuthenticationError, TransactionTimeoutError
from tests.simulation.access import Access
from tests.simulation.refusing import (
    TOPIC,
    advertise,
    at_work,
    authentications,
    broker_of_metadata,
    clerk,
    leaders,
    patient_producer,
    recover,
    send_to_each,
    transact,
)
from tests.simulation.world import World, simulate

ANSWERED_WITHIN: Final = 30.0
"""Seconds of request_timeout_ms."""


async def first_record(world: World, addresses: int, **settings: Any) -> float:
    """The seconds until a record is acknowledged, where the bootstrap server has so many addresses of one broker."""
    names = [f"127.0.0.{number}" for number in range(1, 1 + addresses)]
    world.network.alias.update(dict.fromkeys(names[1:], "127.0.0.1"))
    world.network.names["start"] = names
    world.kafka.create_topic(TOPIC, 1)
    producer = patient_producer(world, bootstrap_servers=f"start:{world.port(1)}", **settings)
    began = world.now
    await producer.start()
    await world.ledger.send(producer, TOPIC, b"x", partition=0)
    await producer.flush()
    return world.now - began


async def at_three_brokers(world: World, **settings: Any) -> Any:
    """A producer that has written to each broker, and two topics that it knows nothing of."""
    for topic in (TOPIC, "one", "another"):
        world.kafka.create_topic(topic, 3)
    producer = patient_producer(world, **settings)
    await producer.start()
    await asyncio.gather(*await send_to_each(world, producer, range(3)))
    return producer


@pytest.mark.parametrize("takes", [3.0, 6.0, 9.5])
@pytest.mark.parametrize("addresses", [1, 3, 6])
def test_a_slow_provider_is_called_once(addresses: int, takes: float) -> None:
    """It may take ten seconds. No address is given up meanwhile, and the call is not begun anew."""
    calls = 0

    async def play(world: World) -> None:
        access = world.access
        assert access is not None
        provide = access.of_the_client(world.loop)["sasl_token_provider"]

        async def counted() -> Any:
            nonlocal calls
            calls += 1
            return await provide()

        assert await first_record(world, addresses, sasl_token_provider=counted) < takes + 1.0

    simulate(play, 1, access=Access("OAUTHBEARER", session=None, token=3_000.0, slowness=takes))
    assert calls == 1


@pytest.mark.parametrize("takes", [6.0, 12.0, 25.0])
@pytest.mark.parametrize("addresses", [1, 3, 6])
def test_a_broker_with_a_slow_directory(addresses: int, takes: float) -> None:
    """The broker asks elsewhere about the credentials. They are presented at a further address every three seconds, and not again."""

    async def play(world: World) -> None:
        world.kafka.faults.delay(takes, api="SaslAuthenticate", times=None)
        assert await first_record(world, addresses) < 2 * takes + 4.0
        assert authentications(world) <= 2 * min(addresses, 1 + takes // 3.0)
        world.kafka.faults.heal()

    simulate(play, 1, access=Access("PLAIN", session=None, token=3_000.0, slowness=0.0))


def test_an_address_that_fails_leaves_its_time_to_the_next_one() -> None:
    """One address refuses at once, and the other takes most of the time that there is for both."""

    async def play(world: World) -> None:
        connect = world.network.connect

        async def far(factory: Callable[[], Any], host: str, port: int) -> Any:
            if host == "127.0.0.1":
                raise ConnectionRefusedError(111, "Connection refused")
            await asyncio.sleep(7.0)
            return await connect(factory, host, port)

        world.network.connect = far  # type: ignore[method-assign]
        advertise(world, dict.fromkeys((1, 2, 3), "127.0.0.2"))
        assert await first_record(world, 2) < 2 * 7.0 + 1.0
        world.network.connect = connect  # type: ignore[method-assign]
        world.kafka.faults.heal()

    simulate(play, 1, access=Access("PLAIN", session=None, token=3_000.0, slowness=0.0))


@pytest.mark.parametrize(("addresses", "silent"), [(2, 1), (3, 2), (6, 3), (6, 5)])
@pytest.mark.parametrize("is_transactional", [False, True])
@pytest.mark.parametrize("patience", [1.0, 10.0])
def test_hosts_with_addresses_that_do_not_answer(
    addresses: int, silent: int, patience: float, *, is_transactional: bool
) -> None:
    """A load balancer over several zones, of which some have lost their directory. All connections are lost once."""

    async def play(world: World) -> None:
        to_zones(world, addresses)
        limits = {"socket_connection_setup_timeout_ms": int(patience * 1000)}
        producer = await clerk(world, **limits) if is_transactional else patient_producer(world, **limits)
        if is_transactional:
            await transact(producer)
        else:
            await at_work(world, producer, 3)
        connect = world.network.connect
        silence_zones(world, silent)
        for broker in (1, 2, 3):
            world.kafka.faults.drop_connections(broker)
        began = world.now
        if is_transactional:
            await transact(producer)
        else:
            await asyncio.gather(*await send_to_each(world, producer, range(3)))
        # An attempt without an answer holds up those at other brokers for three seconds.
        one_after_the_other = 1.3 * 3.0 * silent
        assert world.now - began < (2.0 if is_transactional else 1.0) * one_after_the_other + 2.0
        world.network.connect = connect  # type: ignore[method-assign]
        await producer.flush()

    simulate(play, 1, access=Access("PLAIN", session=None, token=3_000.0, slowness=0.0), history=100_000)


def to_zones(world: World, addresses: int) -> None:
    """Give all brokers one host with so many addresses."""
    names = [f"127.0.0.{number}" for number in range(11, 11 + addresses)]
    world.network.alias.update(dict.fromkeys(names, "127.0.0.1"))
    world.network.names["zones"] = names
    advertise(world, dict.fromkeys((1, 2, 3), "zones"))


def silence_zones(world: World, count: int) -> None:
    """So many addresses of this host answer the first request of each connection alone."""
    connect, zones = world.network.connect, world.network.names["zones"]
    assert isinstance(zones, list)
    silent = zones[:count]

    async def silent_in_some(factory: Callable[[], Any], host: str, port: int) -> Any:
        transport, connection = await connect(factory, host, port)
        if host in silent:
            await_versions_alone(transport)
        return transport, connection

    world.network.connect = silent_in_some  # type: ignore[method-assign]


def await_versions_alone(transport: Any) -> None:
    """Nothing but the first request of the connection reaches the broker."""
    write, writelines, requests = transport.write, transport.writelines, itertools.count()

    def written(data: Any) -> None:
        if next(requests) == 0:
            write(data)

    def lines_written(parts: Any) -> None:
        if next(requests) == 0:
            writelines(parts)

    transport.write, transport.writelines = written, lines_written


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("takes", [4.0, 8.0])
def test_a_slow_broker_that_accepts_beside_one_that_refuses(seed: int, takes: float) -> None:
    """An attempt that has begun is not given up for the refusal of another one that has begun beside it."""

    async def play(world: World) -> None:
        world.kafka.faults.delay(takes, api="SaslAuthenticate", broker=1, times=None)
        refusal = world.kafka.faults.error(58, api="SaslAuthenticate", broker=2, times=None)
        names = ["127.0.0.11", "127.0.0.12"]
        world.network.alias.update(dict.fromkeys(names, "127.0.0.1"))
        world.network.names["two"] = names
        connect = world.network.connect

        async def to_two_brokers(factory: Callable[[], Any], host: str, port: int) -> Any:
            return await connect(factory, host, world.port(1 + names.index(host)) if host in names else port)

        world.network.connect = to_two_brokers  # type: ignore[method-assign]
        world.kafka.create_topic(TOPIC, 3)
        producer = patient_producer(world, bootstrap_servers=f"two:{world.port(1)}")
        began = world.now
        await producer.start()
        assert len(await producer.partitions_for(TOPIC)) == 3
        assert world.now - began < takes + 1.0
        metadata = next(one for one in producer.stats().connections if one.broker == "metadata")
        assert metadata.address == producer._engine.control.connection.broker
        refusal.heal()
        await recover(world, producer)

    simulate(play, seed, access=Access("PLAIN", session=None, token=3_000.0, slowness=0.0), history=100_000)


@pytest.mark.parametrize("moves_after", [1.0, 5.0, 15.0])
def test_a_coordinator_moves_from_a_broker_that_does_not_answer(moves_after: float) -> None:
    """It is looked up again while the broker of the former one is waited for, with a time limit of a minute for requests."""

    async def play(world: World) -> None:
        kafka = world.kafka
        producer = await clerk(world, request_timeout_ms=60_000)
        await transact(producer)
        here = broker_of_metadata(world, producer)
        there = next(one for one in (1, 2, 3) if one != here)
        kafka.faults.move_coordinator("clerk", here)
        for partition in range(3):
            kafka.faults.move_leader(TOPIC, partition, there)
        for _ in range(3):
            await transact(producer)
        kafka.faults.silence(api="SaslAuthenticate", broker=here, times=None)
        kafka.faults.drop_connections(here)
        began = world.now
        world.loop.call_later(moves_after, lambda: kafka.faults.move_coordinator("clerk", there))
        await transact(producer)
        assert world.now - began < moves_after + 11.0
        await recover(world, producer)

    simulate(play, 1, access=Access("PLAIN", session=None, token=3_000.0, slowness=0.0), history=100_000)


@pytest.mark.parametrize("others", ["hang", "refuse", "lose their connections"])
@pytest.mark.parametrize("takes", [12.0, 15.0])
def test_a_coordinator_whose_broker_is_slow_and_accepts(takes: float, others: str) -> None:
    """The look-up beside its attempt gets no answer, or an error, and ends nothing."""

    async def play(world: World) -> None:
        kafka = world.kafka
        producer = await clerk(world, request_timeout_ms=60_000)
        await transact(producer)
        coordinator = next(one for one in (1, 2, 3) if one != broker_of_metadata(world, producer))
        leader = next(
            one for one in (1, 2, 3) if one not in (coordinator, broker_of_metadata(world, producer))
        )
        kafka.faults.move_coordinator("clerk", coordinator)
        for partition in range(3):
            kafka.faults.move_leader(TOPIC, partition, leader)
        for _ in range(3):
            await transact(producer)

        def later() -> None:
            asked = broker_of_metadata(world, producer)
            if others == "hang":
                world.network.hold(world.port(asked))
                kafka.faults.delay(takes, api="SaslAuthenticate", times=None)
                return
            for broker in {1, 2, 3} - {coordinator}:
                if others == "refuse":
                    kafka.faults.error(58, api="SaslAuthenticate", broker=broker, times=None)
                else:
                    kafka.faults.delay(takes, api="SaslAuthenticate", broker=broker, times=None)
            kafka.faults.drop_connections(asked)

        kafka.faults.delay(takes, api="SaslAuthenticate", broker=coordinator, times=None)
        kafka.faults.drop_connections(coordinator)
        began = world.now
        world.loop.call_later(5.0, later)
        await transact(producer)
        assert world.now - began < takes + 1.0
        for broker in (1, 2, 3):
            world.network.release(world.port(broker))
        await recover(world, producer)

    simulate(play, 1, access=Access("PLAIN", session=None, token=3_000.0, slowness=0.0), history=100_000)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("is_transactional", [False, True])
@pytest.mark.parametrize("is_one_address", [False, True])
def test_a_rotated_password_where_one_place_does_not_answer(
    seed: int, *, is_transactional: bool, is_one_address: bool
) -> None:
    """One broker, or one address of each. The others refuse until the program has the new one, and then nothing waits for it."""

    async def play(world: World) -> None:
        faults = world.kafka.faults
        if is_one_address:
            to_zones(world, 2)
        producer = await at_the_second_broker(world, is_transactional=is_transactional)
        connect = world.network.connect
        if is_one_address:
            silence_zones(world, 1)
        else:
            faults.silence(api="SaslAuthenticate", broker=1, times=None)
        refusals = [
            faults.error(58, api="SaslAuthenticate", broker=broker, times=None)
            for broker in ((1, 2, 3) if is_one_address else (2, 3))
        ]
        for broker in (1, 2, 3):
            faults.drop_connections(broker)
        began = world.now

        def rotate() -> None:
            for refusal in refusals:
                refusal.heal()
            producer.set_credentials(username="alice", password="first")

        world.loop.call_later(10.0, rotate)
        await use(world, producer, is_transactional=is_transactional)
        # Each of two dials may begin with the silent address.
        assert world.now - began < 10.0 + (7.0 if is_one_address else 4.0)
        world.network.connect = connect  # type: ignore[method-assign]
        await recover(world, producer)

    simulate(play, seed, access=Access("PLAIN", session=None, token=3_000.0, slowness=0.0), history=100_000)


@pytest.mark.parametrize("is_transactional", [False, True])
def test_new_credentials_where_former_ones_get_no_answer(*, is_transactional: bool) -> None:
    """They are presented at once: attempts with the former ones are not waited for."""

    async def play(world: World) -> None:
        producer = await at_the_second_broker(world, is_transactional=is_transactional)
        silence = world.kafka.faults.silence(api="SaslAuthenticate", times=None)
        for broker in (1, 2, 3):
            world.kafka.faults.drop_connections(broker)
        began = world.now

        def rotate() -> None:
            silence.heal()
            producer.set_credentials(username="alice", password="first")

        world.loop.call_later(5.0, rotate)
        await use(world, producer, is_transactional=is_transactional)
        assert world.now - began < 5.0 + 1.0
        await recover(world, producer)

    simulate(play, 1, access=Access("PLAIN", session=None, token=3_000.0, slowness=0.0), history=100_000)


@pytest.mark.parametrize("takes", [2.0, 4.0, 6.0])
@pytest.mark.parametrize("gap", [0.2, 1.3, 3.0, 5.5, 9.0])
def test_a_call_behind_new_credentials_gets_no_refusal_of_former_ones(takes: float, gap: float) -> None:
    """Former attempts go on, or were refused while no call was made. The refusals of those that are over are not told again."""

    async def play(world: World) -> None:
        kafka = world.kafka
        kafka.create_topic(TOPIC, 3)
        for topic in ("one", "another"):
            kafka.create_topic(topic, 1)
        producer = patient_producer(world)
        await producer.start()
        await asyncio.gather(*await send_to_each(world, producer, range(3)))
        kafka.faults.delay(takes, api="SaslAuthenticate", times=None)
        kafka.users["alice"] = "second"
        for broker in (1, 2, 3):
            kafka.faults.drop_connections(broker)
        with contextlib.suppress(TimeoutError, AuthenticationError):
            async with asyncio.timeout(takes - 0.5):
                await producer.partitions_for("one")
        await asyncio.sleep(gap)
        producer.set_credentials(password="second")
        began = world.now
        assert len(await producer.partitions_for("another")) == 1
        assert world.now - began < takes + 1.0
        kafka.faults.heal()

    simulate(play, 1, access=Access("PLAIN", session=None, token=3_000.0, slowness=0.0), history=100_000)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("slow", "typos"),
    [
        ({1: 2.0, 2: 2.0, 3: 2.0}, (1.5, 3.0)),
        ({1: 8.0}, (9.0,)),
        ({1: 8.0, 2: 1.0, 3: 1.0}, (9.0, 10.5)),
    ],
)
def test_the_right_password_behind_wrong_ones(
    slow: dict[int, float], typos: tuple[float, ...], seed: int
) -> None:
    """A call behind it gets none of their refusals, though a round that waits for slow brokers began with the last of them."""

    async def play(world: World) -> None:
        kafka = world.kafka
        producer = await at_three_brokers(world, sasl_password="first")
        kafka.users["alice"] = "third"
        for broker, takes in slow.items():
            kafka.faults.delay(takes, api="SaslAuthenticate", broker=broker, times=None)
        for broker in (1, 2, 3):
            kafka.faults.drop_connections(broker)
        began, before = world.now, asyncio.create_task(producer.partitions_for("one"))
        for at in typos:
            await asyncio.sleep(began + at - world.now)
            producer.set_credentials(password=f"typo at {at}")
            if before.done():
                before.exception()
                before = asyncio.create_task(producer.partitions_for("one"))
        await asyncio.sleep(3.5)
        producer.set_credentials(password="third")
        await asyncio.sleep(0.01)
        assert len(await producer.partitions_for("another")) == 3
        await asyncio.wait((before,))
        before.exception()
        kafka.faults.heal()
        producer.set_credentials(password="third")
        await producer.flush()

    simulate(play, seed, access=Access("PLAIN", session=None, token=3_000.0, slowness=0.0), history=100_000)


@pytest.mark.parametrize("seed", range(3))
def test_a_call_behind_the_right_password_that_gets_no_answer(seed: int) -> None:
    """Its error names no refusal of the former password: nothing was refused since."""

    async def play(world: World) -> None:
        kafka = world.kafka
        producer = await at_the_second_broker(world, is_transactional=False)
        kafka.users["alice"] = "second"
        kafka.faults.drop_connections(2)
        await send_to_each(world, producer, range(3))
        await asyncio.sleep(3.0)
        kafka.faults.silence(api="SaslAuthenticate", broker=2, times=None)
        producer.set_credentials(password="second")
        await asyncio.sleep(0.1)
        with pytest.raises(TransactionTimeoutError) as caught:
            await producer.fence(["clerk"], timeout=20.0)
        assert "refused" not in str(caught.value)
        assert not isinstance(caught.value.__cause__, AuthenticationError)
        kafka.faults.heal()
        await producer.flush()

    simulate(play, seed, access=Access("PLAIN", session=None, token=3_000.0, slowness=0.0), history=100_000)


def test_a_listing_that_ends_behind_the_right_password() -> None:
    """One broker has refused the former one, and another one answers long behind the change."""
    behind = 0

    async def play(world: World) -> None:
        nonlocal behind
        kafka = world.kafka
        producer = patient_producer(world)
        await at_work(world, producer, 3)
        kafka.users["alice"] = "second"
        others = {1, 2, 3} - {broker_of_metadata(world, producer)}
        for broker in others:
            kafka.faults.drop_connections(broker)
        kafka.faults.delay(5.0, api="SaslAuthenticate", broker=min(others), times=None)
        listing = asyncio.create_task(producer.list_transactions(timeout=60.0))
        await asyncio.sleep(2.0)
        if listing.done():
            # In this history all was refused before the change, as it should be.
            with pytest.raises(AuthenticationError):
                await listing
        producer.set_credentials(password="second")
        if not listing.done():
            behind += 1
            assert await listing == []
        kafka.faults.heal()
        await producer.flush()

    for seed in range(1, 9):
        simulate(
            play, seed, access=Access("PLAIN", session=None, token=3_000.0, slowness=0.0), history=100_000
        )
    assert behind


@pytest.mark.parametrize("are_others", [False, True])
@pytest.mark.parametrize("is_transactional", [False, True])
@pytest.mark.parametrize(("every", "takes"), [(2.0, 3.0), (5.0, 6.0)])
def test_credentials_that_change_more_often_than_brokers_answer(
    every: float, takes: float, *, is_transactional: bool, are_others: bool
) -> None:
    """A watcher of a secret gives the same ones again and again, or others each time. Each attempt may be accepted."""

    async def play(world: World) -> None:
        producer = await at_the_second_broker(world, is_transactional=is_transactional)
        world.kafka.faults.delay(takes, api="SaslAuthenticate", times=None)

        async def watch() -> None:
            while True:
                await asyncio.sleep(every)
                # Another function each time.
                producer.set_credentials(password=(lambda: "first") if are_others else "first")

        watching = asyncio.create_task(watch())
        for broker in (1, 2, 3):
            world.kafka.faults.drop_connections(broker)
        began = world.now
        await use(world, producer, is_transactional=is_transactional)
        assert world.now - began < 45.0
        watching.cancel()
        await recover(world, producer)

    simulate(play, 1, access=Access("PLAIN", session=None, token=3_000.0, slowness=0.0), history=100_000)


@pytest.mark.parametrize(
    ("every", "takes", "are_others"),
    [(0.5, 0.1, False), (1.0, 0.1, False), (1.0, 0.1, True)],
)
def test_wrong_credentials_that_are_given_again_and_again(
    every: float, takes: float, *, are_others: bool
) -> None:
    """Calls get the refusal, and no error of their own time limit, a minute later."""

    async def play(world: World) -> None:
        kafka = world.kafka
        producer = await at_three_brokers(world)
        kafka.faults.delay(takes, api="SaslAuthenticate", times=None)
        kafka.users["alice"] = "second"
        for broker in (1, 2, 3):
            kafka.faults.drop_connections(broker)

        async def watch() -> None:
            for number in itertools.count():
                producer.set_credentials(password=f"wrong {number}" if are_others else "wrong")
                await asyncio.sleep(every)

        watching = asyncio.create_task(watch())
        for topic in ("one", "another"):
            began = world.now
            with pytest.raises(AuthenticationError):
                await producer.partitions_for(topic)
            assert world.now - began < 4.0 + 2 * takes
        watching.cancel()
        kafka.users["alice"] = "first"
        await recover(world, producer)

    simulate(play, 1, access=Access("PLAIN", session=None, token=3_000.0, slowness=0.0), history=100_000)


@pytest.mark.parametrize("seed", range(1, 9))
@pytest.mark.parametrize("brokers", [1, 3])
@pytest.mark.parametrize("well_after", [0.0, 1.0])
def test_a_refusal_of_former_credentials_at_one_of_two_addresses(
    well_after: float, brokers: int, seed: int
) -> None:
    """A wrong password is refused at one address, while the other one is silent. The right one does not wait for that.

    Connections are well at once, or a second later. Former ones stay silent, or are reset then.
    """

    async def play(world: World) -> None:
        kafka = world.kafka
        to_zones(world, 2)
        producer = await clerk(world, bootstrap_servers=f"zones:{world.port(1)}", request_timeout_ms=60_000)
        await transact(producer)
        kafka.create_topic("another", 1)
        silent, silenced = {"127.0.0.11"}, list[Any]()
        connect = world.network.connect

        async def connected(factory: Callable[[], Any], host: str, port: int) -> Any:
            transport, connection = await connect(factory, host, port)
            if host in silent:
                await_versions_alone(transport)
                silenced.append(transport)
            return transport, connection

        world.network.connect = connected  # type: ignore[method-assign]
        kafka.users["alice"] = "second"
        for broker in range(1, brokers + 1):
            kafka.faults.drop_connections(broker)
        transaction = asyncio.create_task(transact(producer))
        await asyncio.sleep(1.0)
        producer.set_credentials(password="wrong")
        await asyncio.sleep(4.0)
        silent.add("127.0.0.12")
        await asyncio.sleep(3.0)
        if well_after == 0.0:
            silent.clear()
        producer.set_credentials(password="second")
        began = world.now
        await asyncio.sleep(well_after)
        if well_after > 0.0:
            silent.clear()
            for transport in silenced:
                transport.abort()
        assert len(await producer.partitions_for("another")) == 1
        partitions = world.now - began
        await transaction
        print(
            f"partitions {partitions:.1f} s, transaction {world.now - began:.1f} s behind the right password"
        )
        assert world.now - began < well_after + 0.5
        world.network.connect = connect  # type: ignore[method-assign]

    access = Access("PLAIN", session=None, token=3_000.0, slowness=0.0)
    simulate(play, seed, access=access, brokers=brokers, history=100_000)


@pytest.mark.parametrize("seed", range(1, 5))
def test_new_credentials_that_another_broker_accepts(seed: int) -> None:
    """One broker loses an attempt behind a change. It is not waited for when another broker has accepted the next ones."""

    async def play(world: World) -> None:
        kafka = world.kafka
        producer = await clerk(world, request_timeout_ms=60_000)
        await transact(producer)
        silence = kafka.faults.silence(api="SaslAuthenticate", broker=2, times=None)
        kafka.faults.drop_connections(2)
        transaction = asyncio.create_task(transact(producer))
        await asyncio.sleep(1.0)
        producer.set_credentials(password=lambda: "first")
        await asyncio.sleep(1.0)
        assert silence.hits > 1
        silence.heal()
        began = world.now
        producer.set_credentials(password=lambda: "first")
        await transaction
        print(f"transaction {world.now - began:.1f} s behind the change")
        assert world.now - began < 2.0

    simulate(play, seed, access=Access("PLAIN", session=None, token=3_000.0, slowness=0.0), history=100_000)


def test_one_slow_broker_where_credentials_change_more_often_than_it_answers() -> None:
    """The others accept each of them at once. It gets one attempt that none of that ends."""

    async def play(world: World) -> None:
        producer = await at_the_second_broker(world, is_transactional=True)
        world.kafka.faults.delay(6.0, api="SaslAuthenticate", broker=2, times=None)

        async def watch() -> None:
            while True:
                await asyncio.sleep(5.0)
                producer.set_credentials(password=lambda: "first")

        watching = asyncio.create_task(watch())
        world.kafka.faults.drop_connections(2)
        began = world.now
        await use(world, producer, is_transactional=True)
        print(f"transaction {world.now - began:.1f} s")
        assert world.now - began < 50.0
        watching.cancel()
        await recover(world, producer)

    simulate(play, 1, access=Access("PLAIN", session=None, token=3_000.0, slowness=0.0), history=100_000)


@pytest.mark.parametrize("turns", range(8))
def test_a_caller_that_is_cancelled_when_its_broker_has_accepted(turns: int) -> None:
    """Another caller uses the connection, in whichever turn of the loop the first one ends."""

    async def play(world: World) -> None:
        producer = await at_the_second_broker(world, is_transactional=False)
        world.kafka.faults.delay(8.0, api="SaslAuthenticate", times=None)
        control = producer._engine.control
        control.close()
        began = world.now
        first = asyncio.create_task(control.connected())
        await asyncio.sleep(0.01)
        second = asyncio.create_task(control.connected())
        addresses = control.session.addresses
        opened = addresses._opened

        def opened_and_cancelled(*arguments: Any) -> Any:
            addresses._opened = opened
            cancel_after(turns)
            return opened(*arguments)

        def cancel_after(left: int) -> None:
            if left:
                world.loop.call_soon(cancel_after, left - 1)
            else:
                first.cancel()

        addresses._opened = opened_and_cancelled
        await asyncio.wait((first, second))
        assert not second.result().closed
        assert world.now - began < 8.0 + 1.0
        world.kafka.faults.heal()

    simulate(play, 1, access=Access("PLAIN", session=None, token=3_000.0, slowness=0.0), history=100_000)


@pytest.mark.parametrize("is_of_metadata", [False, True])
def test_a_renewal_that_gets_no_answer(*, is_of_metadata: bool) -> None:
    """A firewall has lost it. A commit that waits for the session has time for another connection."""

    async def play(world: World) -> None:
        producer = await at_the_second_broker(world, is_transactional=True)
        broker = broker_of_metadata(world, producer) if is_of_metadata else 2
        silence = world.kafka.faults.silence(api="SaslAuthenticate", broker=broker, times=1)
        await asyncio.sleep(11.0)
        assert silence.hits
        began = world.now
        await transact(producer)
        assert world.now - began < 30.0 + 1.0
        await recover(world, producer)

    simulate(play, 1, access=Access("PLAIN", session=10.0, token=3_000.0, slowness=0.0), history=100_000)


@pytest.mark.parametrize("back_at", [3.0, 5.9, 8.0])
def test_a_user_who_is_made_anew_with_the_same_password(back_at: float) -> None:
    """The password is given again then. An attempt of before is refused six seconds behind it: no call gets that."""

    async def play(world: World) -> None:
        kafka = world.kafka
        producer = await at_three_brokers(world, sasl_password="first")
        kafka.faults.delay(6.0, api="SaslAuthenticate", times=None)
        kafka.users["alice"] = "nobody knows"
        for broker in (1, 2, 3):
            kafka.faults.drop_connections(broker)
        before = asyncio.create_task(producer.partitions_for("one"))
        await asyncio.sleep(back_at)
        kafka.users["alice"] = "first"
        producer.set_credentials(password="first")
        await asyncio.sleep(0.1)
        began = world.now
        assert len(await producer.partitions_for("another")) == 3
        assert world.now - began < 2 * 6.0
        await asyncio.wait((before,))
        before.exception()
        await recover(world, producer)

    simulate(play, 1, access=Access("PLAIN", session=None, token=3_000.0, slowness=0.0), history=100_000)


@pytest.mark.parametrize("is_transactional", [False, True])
def test_one_attempt_that_gets_no_answer(*, is_transactional: bool) -> None:
    """A firewall has lost one connection. It is waited for as long as for any authentication, and another one follows."""

    async def play(world: World) -> None:
        producer = await at_the_second_broker(world, is_transactional=is_transactional)
        world.kafka.faults.silence(api="SaslAuthenticate", broker=2, times=1)
        world.kafka.faults.drop_connections(2)
        began = world.now
        await use(world, producer, is_transactional=is_transactional)
        assert world.now - began < 30.0 + 1.0
        await recover(world, producer)

    simulate(play, 1, access=Access("PLAIN", session=None, token=3_000.0, slowness=0.0), history=100_000)


@pytest.mark.parametrize("seed", range(4))
def test_a_change_of_the_broker_beside_one_that_does_not_answer(seed: int) -> None:
    """The broker of the metadata ends while another one is dialed in its place. Nothing waits for a third one then."""

    async def play(world: World) -> None:
        kafka = world.kafka
        producer = await clerk(world, request_timeout_ms=60_000)
        for _ in range(2):
            await transact(producer)
        here = broker_of_metadata(world, producer)
        slow, silent = (broker for broker in (1, 2, 3) if broker != here)
        kafka.faults.delay(4.0, api="SaslAuthenticate", broker=slow, times=None)
        kafka.faults.silence(api="SaslAuthenticate", broker=silent, times=None)
        kafka.faults.move_coordinator("clerk", slow)
        for partition in range(3):
            kafka.faults.move_leader(TOPIC, partition, slow)
        producer._engine.control.change()
        producer._engine.cluster.stale(None)
        await asyncio.sleep(0.5)
        await kafka.faults.stop_broker(here)
        began = world.now
        await transact(producer)
        assert world.now - began < 13.0
        await kafka.faults.start_broker(here)
        await recover(world, producer)

    simulate(play, seed, access=Access("PLAIN", session=None, token=3_000.0, slowness=0.0), history=100_000)


async def at_the_second_broker(world: World, *, is_transactional: bool) -> Any:
    """A producer with requests of a minute, whose leaders and coordinator are there."""
    limits = {"request_timeout_ms": 60_000}
    producer = await clerk(world, **limits) if is_transactional else patient_producer(world, **limits)
    if not is_transactional:
        world.kafka.create_topic(TOPIC, 3)
        await producer.start()
    world.kafka.faults.move_coordinator("clerk", 2)
    for partition in range(3):
        world.kafka.faults.move_leader(TOPIC, partition, 2)
    for _ in range(3):
        await use(world, producer, is_transactional=is_transactional)
    return producer


async def use(world: World, producer: Any, *, is_transactional: bool) -> None:
    """Records that are acknowledged, or a transaction that is committed."""
    if is_transactional:
        await transact(producer)
    else:
        await asyncio.gather(*await send_to_each(world, producer, range(3)))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("away", [2.0, 8.0])
def test_brokers_that_are_back_beside_one_that_does_not_answer(seed: int, away: float) -> None:
    """They are asked again in the next round, while the attempt at the silent one goes on."""

    async def play(world: World) -> None:
        kafka = world.kafka
        producer = await clerk(world, request_timeout_ms=60_000)
        for _ in range(3):
            await transact(producer)
        kafka.faults.silence(api="SaslAuthenticate", broker=1, times=None)
        for broker in (2, 3):
            await kafka.faults.stop_broker(broker)
        kafka.faults.drop_connections(1)
        began = world.now

        async def come_back() -> None:
            await asyncio.sleep(away)
            for broker in (2, 3):
                await kafka.faults.start_broker(broker)
            kafka.faults.move_coordinator("clerk", 2)
            for partition in range(3):
                kafka.faults.move_leader(TOPIC, partition, 2)

        coming = asyncio.create_task(come_back())
        await transact(producer)
        assert world.now - began < away + 4.0
        await coming
        await recover(world, producer)

    simulate(play, seed, access=Access("PLAIN", session=None, token=3_000.0, slowness=0.0), history=100_000)


@pytest.mark.parametrize("seed", range(4))
def test_an_authentication_without_an_end(seed: int) -> None:
    """A broker that never answers the credentials is left for another one after request_timeout_ms."""

    async def play(world: World) -> None:
        world.kafka.create_topic(TOPIC, 3)
        silence = world.kafka.faults.silence(api="SaslAuthenticate", broker=1, times=None)
        servers = ",".join(f"127.0.0.1:{world.port(broker)}" for broker in (1, 2))
        producer = patient_producer(world, bootstrap_servers=servers)
        began = world.now
        await producer.start()
        delivery = await world.ledger.send(producer, TOPIC, b"x", partition=leaders(world, 3)[2])
        assert delivery is not None
        await delivery.wait(None)
        assert world.now - began < ANSWERED_WITHIN + 1.0
        world.kafka.faults.heal()
        assert silence.hits <= 1

    simulate(play, seed, access=Access("PLAIN", session=None, token=3_000.0, slowness=0.0))
