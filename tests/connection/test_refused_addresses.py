"""A host name with several addresses, some of which refuse the credentials: the others are reached."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any

import pytest

from aioproducer import AuthenticationError
from aioproducer._net.connecting.connection.connection import Connection
from aioproducer._net.connecting.dialing import dial
from aioproducer._state.connecting.endpoint import BrokerEndpoint
from tests.connection.test_authenticating import CONFIG, Broker, protocol
from tests.connection.test_pairing import Listen

ENDPOINT = BrokerEndpoint.bootstrap("kafka.example", 9092)


class Behind:
    """The network of a host name with these brokers behind it."""

    def __init__(self, *ports: int) -> None:
        self._ports = {f"10.0.0.{number}": port for number, port in enumerate(ports, 1)}
        self.tried: list[str] = []

    async def look_up(self, host: str, port: int) -> list[Any]:
        """The addresses in their order."""
        assert host == ENDPOINT.host
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in self._ports]

    async def create_connection(
        self, make: Callable[[], Connection], address: str, port: int, **tls: Any
    ) -> tuple[asyncio.BaseTransport, Connection]:
        """A connection to the broker of this address."""
        assert port == ENDPOINT.port
        self.tried.append(address[-1])
        loop = asyncio.get_running_loop()
        return await loop.create_connection(make, "127.0.0.1", self._ports[address], **tls)

    def leave(self, number: int) -> None:
        """The name does not lead to this address any more."""
        del self._ports[f"10.0.0.{number}"]


async def test_the_next_attempt_begins_with_the_next_address(listen: Listen) -> None:
    """An attempt ends with a refusal, as more of them may lock the account; the same address is not the first again."""
    first, second, third = Broker("PLAIN", refuses="credentials"), Broker("PLAIN"), Broker("PLAIN")
    network = Behind(*[(await listen(broker)).port for broker in (first, second, third)])
    refused: dict[str, None] = {}
    with pytest.raises(AuthenticationError):
        await dial(ENDPOINT, CONFIG, protocol("PLAIN"), network=network, tried_last=refused)
    for _ in range(2):
        (await dial(ENDPOINT, CONFIG, protocol("PLAIN"), network=network, tried_last=refused)).close()
    assert network.tried == ["1", "2", "2"]
    # The one that accepts cannot be reached: the one that refused is still an address.
    network.leave(2)
    network.leave(3)
    first.refuses = ""
    (await dial(ENDPOINT, CONFIG, protocol("PLAIN"), network=network, tried_last=refused)).close()
    assert network.tried[3:] == ["1"]
    assert refused == {}


async def test_addresses_that_all_refuse_are_tried_in_turn(listen: Listen) -> None:
    """Each attempt is one refusal; an address that the name does not lead to any more is forgotten."""
    brokers = [Broker("PLAIN", refuses="credentials") for _ in range(3)]
    network = Behind(*[(await listen(broker)).port for broker in brokers])
    refused: dict[str, None] = {}
    for number in range(7):
        if number == 5:
            network.leave(1)
        with pytest.raises(AuthenticationError):
            await dial(ENDPOINT, CONFIG, protocol("PLAIN"), network=network, tried_last=refused)
    assert network.tried == ["1", "2", "3", "1", "2", "3", "2"]
    assert list(refused) == ["10.0.0.3", "10.0.0.2"]
