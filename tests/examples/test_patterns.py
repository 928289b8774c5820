"""The programs of docs/patterns.md, with real servers, sockets, files and kills."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, CloseConnection, Request, TextMessage

from aioproducer.testing import EmbeddedKafka
from tests.examples.programs import ended, example, serving, started
from tests.net.support import until

FOLDER = example("answered_request.py").parent
assert example("websocket_fan_in.py").parent == FOLDER
UVICORN = ("-m", "uvicorn", "--port", "0", "--app-dir", FOLDER)
LIMIT = 20.0


async def test_the_answer_depends_on_the_outcome(embedded_kafka: EmbeddedKafka) -> None:
    """Written, set aside, refused for another reason, and not confirmed in time."""
    for topic in ("orders", "orders.dead"):
        embedded_kafka.create_topic(topic, 1)
    async with (
        serving(embedded_kafka, *UVICORN, "answered_request:app") as (_, address),
        httpx.AsyncClient(base_url=address, timeout=LIMIT) as client,
    ):

        async def answer(body: bytes) -> int:
            return (await client.post("/orders/alice", content=body)).status_code

        assert await answer(b"2 apples") == 201
        assert await answer(bytes(2_000_000)) == 422
        embedded_kafka.faults.error("TOPIC_AUTHORIZATION_FAILED", api="Produce", topic="orders")
        assert await answer(b"3 pears") == 503
        held = embedded_kafka.faults.delay(api="Produce", topic="orders", times=None)
        assert await answer(b"4 plums") == 202
        held.release()
    assert [record.value for record in embedded_kafka.records("orders")] == [b"2 apples", b"4 plums"]
    (letter,) = embedded_kafka.records("orders.dead")
    assert letter.key == b"alice"


class Socket:
    """A client of a WebSocket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._connection = WSConnection(ConnectionType.CLIENT)
        self._arrived: list[Any] = []

    async def send(self, event: Any) -> None:
        """Send an event of the protocol."""
        self._writer.write(self._connection.send(event))
        await self._writer.drain()

    async def next(self) -> Any:
        """The next event."""
        async with asyncio.timeout(LIMIT):
            while not self._arrived:
                self._connection.receive_data(await self._reader.read(65_536) or None)
                self._arrived += self._connection.events()
        return self._arrived.pop(0)

    async def written(self) -> int:
        """The number of the next confirmation."""
        event = await self.next()
        assert isinstance(event, TextMessage), event
        return int(json.loads(event.data)["written"])


@asynccontextmanager
async def socket_of(address: str, path: str) -> AsyncIterator[Socket]:
    """An open WebSocket."""
    host, port = address.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        socket = Socket(reader, writer)
        await socket.send(Request(host=host, target=path))
        assert isinstance(await socket.next(), AcceptConnection)
        yield socket
    finally:
        writer.close()
        await writer.wait_closed()


def reading(number: int) -> TextMessage:
    """A message of a client."""
    return TextMessage(json.dumps({"number": number, "reading": f"reading {number}"}))


async def test_many_web_sockets_into_one_topic(embedded_kafka: EmbeddedKafka) -> None:
    """Each client gets its confirmations; where a record fails, its socket is closed, and it begins again."""
    embedded_kafka.create_topic("readings", 1)
    arguments = (*UVICORN, "--ws", "wsproto", "websocket_fan_in:app")
    async with serving(embedded_kafka, *arguments) as (_, address):
        async with socket_of(address, "/readings/a") as one, socket_of(address, "/readings/b") as other:
            for number in range(1, 101):
                await one.send(reading(number))
                await other.send(reading(number))
            for socket in (one, other):
                while await socket.written() < 100:
                    pass
            assert len(embedded_kafka.records("readings")) == 200
            embedded_kafka.faults.error("INVALID_RECORD", api="Produce", topic="readings")
            await one.send(reading(101))
            await asyncio.sleep(0)
            event = None
            number = 102
            while not isinstance(event, CloseConnection):
                await one.send(reading(number))
                number += 1
                try:
                    async with asyncio.timeout(0.2):
                        event = await one.next()
                except TimeoutError:
                    continue
            assert event.code == 1013
        async with socket_of(address, "/readings/a") as one:
            await one.send(reading(101))
            assert await one.written() == 101


async def test_a_file_is_followed_through_kills(embedded_kafka: EmbeddedKafka, tmp_path: Path) -> None:
    """Each line is written at least once, in order but for repetitions, and the position passes none that is not."""
    for topic in ("lines", "lines.dead"):
        embedded_kafka.create_topic(topic, 1)
    path, position = tmp_path / "app.log", tmp_path / "app.log.position"

    def written() -> list[bytes | None]:
        return [record.value for record in embedded_kafka.records("lines")]

    total = 0
    for kills in range(3):
        held = embedded_kafka.faults.delay(api="Produce", topic="lines", skip=1 + kills, times=None)
        async with started(embedded_kafka, example("follow_file.py"), path) as process:
            reached = asyncio.ensure_future(held.reached())
            # A slow machine puts many lines into one request: there are more until the request is made.
            more = 5_000
            while not reached.done():
                with path.open("ab") as file:
                    file.write(b"".join(b"line %d\n" % number for number in range(total, total + more)))
                total += more
                more = 10
                await asyncio.wait([reached], timeout=0.1)
            process.kill()
            await process.wait()
        held.release()
        passed = path.read_bytes()[: int(position.read_text()) if position.exists() else 0].splitlines()
        assert set(passed) <= set(written())
    with path.open("ab") as file:
        file.write(b"x" * 2_000_000 + b"\nthe last\n")
    size = path.stat().st_size
    async with started(embedded_kafka, example("follow_file.py"), path) as process:
        await until(lambda: position.exists() and int(position.read_text()) == size)
        process.send_signal(signal.SIGTERM)
        assert (await ended(process)).code == 0
    distinct = list(dict.fromkeys(written()))
    assert distinct == [*(b"line %d" % number for number in range(total)), b"the last"]
    assert len(embedded_kafka.records("lines.dead")) == 1
