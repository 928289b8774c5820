"""A broker that, asked to write, streams bytes at its client until so many were taken; then it does what it is asked.

    python -m tests.proxy.programs.hostile_broker KIND BYTES GOOD

So many requests are answered well before it turns hostile: what a client needs at first, it has by then.

It prints its port, the bytes that were taken, and over how many connections. A thread serves each connection, so that
the client never waits for it.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from random import Random
from typing import Final

from aioproducer.testing.broker.broker import Broker
from aioproducer.testing.broker.cluster.cluster import Cluster, Node
from aioproducer.testing.broker.conversation import Conversation
from aioproducer.testing.broker.effects import Write
from aioproducer.testing.broker.faults import FaultRules
from aioproducer.testing.broker.options import Options

PRODUCE: Final = 0
_LONGEST: Final = 16 << 20
_CHUNK: Final = bytes(1 << 16)
_HEAD = struct.Struct(">ii")

Stream = Callable[[int], Iterator[bytes]]


def frame(correlation_id: int, size: int) -> bytes:
    """The beginning of an answer of this size."""
    return _HEAD.pack(size, correlation_id)


def oversized(correlation_id: int) -> Iterator[bytes]:
    """One answer that is as long as its length can say."""
    yield frame(correlation_id, 2**31 - 1)
    while True:
        yield _CHUNK


def garbage(correlation_id: int) -> Iterator[bytes]:
    """Random bytes without an end."""
    rng = Random(correlation_id)
    noise = rng.randbytes(1 << 16)
    while True:
        yield noise


def unasked(correlation_id: int) -> Iterator[bytes]:
    """The requested answer never comes: valid-looking answers to other requests."""
    while True:
        correlation_id += 1
        yield frame(correlation_id, 60_000) + _CHUNK[: 60_000 - 4]


def unasked_and_long(correlation_id: int) -> Iterator[bytes]:
    """The same, each as long as an answer may be."""
    while True:
        correlation_id += 1
        yield frame(correlation_id, _LONGEST)
        for _ in range(_LONGEST // len(_CHUNK)):
            yield _CHUNK


def long(correlation_id: int) -> Iterator[bytes]:
    """The answer that was asked for, as long as one may be, and without meaning."""
    yield frame(correlation_id, _LONGEST)
    while True:
        yield _CHUNK


STREAMS: Final[dict[str, Stream]] = {
    "oversized": oversized,
    "garbage": garbage,
    "unasked": unasked,
    "unasked_and_long": unasked_and_long,
    "long": long,
}


class Hostile:
    """The state that all connections share."""

    def __init__(self, stream: Stream, wanted: int, good: int) -> None:
        self.stream = stream
        self.wanted = wanted
        self.taken = 0
        self.connections = 0
        self.good = good
        self.lock = threading.Lock()
        node = Node(1, "127.0.0.1")
        self.cluster = Cluster(Options(), {1: node})
        self.broker = Broker(self.cluster, node, FaultRules())
        self.listening = socket.create_server(("127.0.0.1", 0), backlog=64)
        node.port = self.listening.getsockname()[1]
        self.cluster.broker_up(1)
        self.cluster.create_topic("one", 1)

    def serve_all(self) -> None:
        """Accept connections until it is killed."""
        while True:
            sock, _ = self.listening.accept()
            threading.Thread(target=self.serve, args=(sock,), daemon=True).start()

    def serve(self, sock: socket.socket) -> None:
        """One connection, to its end."""
        with sock, contextlib.suppress(ConnectionError):
            talk = Conversation(self.broker)
            while head := sock.recv(12, socket.MSG_WAITALL | socket.MSG_PEEK):
                size, key, _, correlation_id = struct.unpack(">ihhi", head)
                request = sock.recv(4 + size, socket.MSG_WAITALL)
                if key == PRODUCE and self.is_hostile():
                    self.pour(sock, correlation_id)
                    return
                with self.lock:
                    effects = talk.receive(request)
                for effect in effects:
                    if isinstance(effect, Write):
                        sock.sendall(effect.data)

    def is_hostile(self) -> bool:
        """Is this a request to be answered with a stream?"""
        with self.lock:
            self.good -= 1
            return self.good < 0 and self.taken < self.wanted

    def pour(self, sock: socket.socket, correlation_id: int) -> None:
        """Send until the client hangs up, or all is taken."""
        with self.lock:
            self.connections += 1
        for data in self.stream(correlation_id):
            sock.sendall(data)
            with self.lock:
                self.taken += len(data)
                if self.taken >= self.wanted:
                    return


def main() -> None:
    """Serve until the other end of its input is closed."""
    hostile = Hostile(STREAMS[sys.argv[1]], int(sys.argv[2]), int(sys.argv[3]))
    threading.Thread(target=hostile.serve_all, daemon=True).start()
    print(hostile.listening.getsockname()[1], flush=True)
    sys.stdin.read()
    print(hostile.taken, hostile.connections, flush=True)


if __name__ == "__main__":
    main()
