"""Addresses that are dialed for all callers of one producer."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import pytest

from aioproducer._net.connecting.addresses import Addresses
from aioproducer._net.connecting.connection.asking import answer_to
from aioproducer._net.connecting.connection.ends import Ending
from aioproducer._state.connecting.endpoint import BrokerEndpoint
from aioproducer._wire.codec import decode_request, encode_response
from aioproducer._wire.messages.metadata import MetadataRequest, MetadataResponse
from aioproducer.config import ProducerConfig
from aioproducer.errors import BrokerUnavailableError
from tests.connection.peer import Peer, Wire, framed
from tests.net.support import until
from tests.ports import unused_port

Listen: TypeAlias = Callable[..., Awaitable[Peer]]

HINT = "this address was told by the cluster (advertised.listeners), not by bootstrap_servers"


async def serve(wire: Wire) -> None:
    """A broker that opens, and does nothing more."""
    await wire.open()
    await wire.until_closed()


def addresses_of(*bootstrap: int) -> Addresses:
    """The addresses of a producer with these bootstrap servers."""
    servers = [f"127.0.0.1:{port}" for port in bootstrap]
    config = ProducerConfig(servers, client_id="orders", reconnect_backoff_ms=1, reconnect_backoff_max_ms=1)
    return Addresses(config, asyncio.get_running_loop(), random.Random(1))


async def failure(addresses: Addresses, endpoint: BrokerEndpoint) -> str:
    """The text of the error that dialing raises."""
    with pytest.raises(BrokerUnavailableError) as raised:
        await addresses.dial(endpoint)
    return str(raised.value)


async def test_an_advertised_address_that_cannot_be_reached(
    listen: Listen, caplog: pytest.LogCaptureFixture
) -> None:
    """While a bootstrap server answers, error and log end with the hint at advertised.listeners."""
    caplog.set_level(logging.WARNING, "aioproducer")
    peer = await listen(serve)
    with unused_port() as closed:
        addresses = addresses_of(peer.port)
        connection = await addresses.dial(BrokerEndpoint.bootstrap("127.0.0.1", peer.port))
        text = await failure(addresses, BrokerEndpoint.advertised("127.0.0.1", closed, 3))
        assert text.endswith(f"(broker 127.0.0.1:{closed} (id 3)); {HINT}")
        assert [record.getMessage().endswith(HINT) for record in caplog.records] == [True]
        connection.close()


async def test_without_an_answer_of_a_bootstrap_server_there_is_no_hint(listen: Listen) -> None:
    """Before the first answer, and after a bootstrap server failed, the network may be the cause."""
    peer = await listen(serve)
    with unused_port() as closed:
        addresses = addresses_of(peer.port)
        advertised = BrokerEndpoint.advertised("127.0.0.1", closed, 3)
        assert HINT not in await failure(addresses, advertised)
        (await addresses.dial(BrokerEndpoint.bootstrap("127.0.0.1", peer.port))).close()
        assert HINT in await failure(addresses, advertised)
        lost = await addresses.dial(BrokerEndpoint.bootstrap("127.0.0.1", peer.port))
        lost.eof_received()
        assert HINT not in await failure(addresses, advertised)
        (await addresses.dial(BrokerEndpoint.bootstrap("127.0.0.1", peer.port))).close()
        assert HINT in await failure(addresses, advertised)
        await peer.stop()
        await failure(addresses, BrokerEndpoint.bootstrap("127.0.0.1", peer.port))
        assert HINT not in await failure(addresses, advertised)


async def test_an_advertised_address_that_is_also_a_bootstrap_server_has_no_hint(listen: Listen) -> None:
    """The user named that address: the cluster is not the only one to say it."""
    peer = await listen(serve)
    with unused_port() as closed:
        addresses = addresses_of(peer.port, closed)
        connection = await addresses.dial(BrokerEndpoint.bootstrap("127.0.0.1", peer.port))
        for endpoint in (
            BrokerEndpoint.advertised("127.0.0.1", closed, 3),
            BrokerEndpoint.bootstrap("127.0.0.1", closed),
        ):
            assert HINT not in await failure(addresses, endpoint)
        connection.close()


async def test_a_connection_without_answers_that_the_producer_leaves_is_no_failure(listen: Listen) -> None:
    """With acks=0 and short sessions there is never an answer: the pauses must not grow."""
    peer = await listen(serve)
    addresses = addresses_of(peer.port)
    endpoint = BrokerEndpoint.bootstrap("127.0.0.1", peer.port)
    for _ in range(3):
        (await addresses.dial(endpoint)).close()
    assert addresses.at(*endpoint.address).failures == 1


async def test_connections_that_are_replaced_have_their_answers_first(listen: Listen) -> None:
    """Each takes no further request, and is closed when its requests have their answers."""
    released = asyncio.Event()

    async def slow(wire: Wire) -> None:
        await wire.open()
        header, _ = decode_request(await wire.read())
        await released.wait()
        wire.write(framed(encode_response(MetadataResponse(), header.api_version, header.correlation_id)))
        await wire.until_closed()

    addresses = addresses_of((peer := await listen(slow)).port)
    connection = await addresses.dial(BrokerEndpoint.bootstrap("127.0.0.1", peer.port))
    request = asyncio.ensure_future(
        answer_to(connection, MetadataRequest(), MetadataResponse, timeout=30, version=5)
    )
    await asyncio.sleep(0)
    ended = asyncio.Event()
    connection.add_close_callback(lambda _: ended.set())
    addresses.renew_all(but_for=None)
    assert connection.gate.takes_requests
    await until(lambda: not connection.gate.takes_requests)
    released.set()
    async with asyncio.timeout(30):
        assert (await request).brokers == []
        await ended.wait()
    assert connection.ending is Ending.LEFT
