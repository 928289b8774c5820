"""The end of a task's input, on a connection like that of Spark's worker to its executor."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from typing import IO, Any

import pytest

from aioproducer import StateError
from aioproducer.spark.shipping.whole_input import whole

Kind = Callable[[], tuple[socket.socket, socket.socket]]


def tcp() -> tuple[socket.socket, socket.socket]:
    """Both ends of a connection over loopback."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        executor = socket.create_connection(server.getsockname())
        return executor, server.accept()[0]


@pytest.fixture(params=[tcp, socket.socketpair], ids=["TCP", "Unix"])
def ends(request: pytest.FixtureRequest) -> Iterator[tuple[socket.socket, socket.socket]]:
    """The executor's end of a connection, and the worker's."""
    executor, worker = request.param()
    with executor, worker:
        yield executor, worker


def main(infile: IO[bytes], batches: list[str]) -> list[Any]:
    """As Spark's worker: this function alone knows the connection."""
    return list(whole(batches))


def test_an_executor_that_is_there(ends: tuple[socket.socket, socket.socket]) -> None:
    """It sends the rest of its messages, or waits for the answer of the worker."""
    executor, worker = ends
    with worker.makefile("rb") as infile:
        assert main(infile, ["a", "b"]) == ["a", "b"]
        executor.sendall(b"the end of the stream")
        assert main(infile, ["a", "b"]) == ["a", "b"]
        assert infile.read(3) == b"the"


@pytest.mark.parametrize("how", ["close", "shutdown", "reset"])
def test_an_executor_that_is_gone(ends: tuple[socket.socket, socket.socket], how: str) -> None:
    """The rows that came are not all."""
    executor, worker = ends
    match how:
        case "close":
            executor.close()
        case "shutdown":
            executor.shutdown(socket.SHUT_WR)
        case "reset":
            executor.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            executor.close()
    with (
        worker.makefile("rb") as infile,
        pytest.raises(StateError, match="before all rows of the task had come"),
    ):
        main(infile, ["a"])


def test_rows_without_a_connection() -> None:
    """Outside of a worker there is nothing to look at."""
    assert list(whole(["a"])) == ["a"]
