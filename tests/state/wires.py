"""The requests of one producer on their way to two brokers, and the logs they are written to."""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Sequence

import attrs

from aioproducer._state.queues.batches import QueuedBatch
from tests.state.machines import Machines, WrittenBatch, read_batch
from tests.state.model_broker import NOT_LEADER, OK, PartitionLog

NODES = (1, 2)
# The same few batches are written again and again.
read = functools.lru_cache(maxsize=10_000)(read_batch)


@attrs.frozen
class Fate:
    """The answer of a broker to a batch, and whether it appends the batch before."""

    code: int = OK
    appends: bool = True
    tells_offset: bool = True


WELL = Fate()


@attrs.define(eq=False)
class Part:
    """One batch of a request, as it was written."""

    batch: QueuedBatch
    view: memoryview
    written: bytes
    code: int = OK
    offset: int = -1

    @property
    def says(self) -> WrittenBatch:
        """The content of the batch."""
        return read(self.written)

    def check(self) -> None:
        """The bytes of a batch that is under way do not change."""
        assert bytes(self.view) == self.written, f"batch {self.batch.order} changed on its way"


@attrs.define(eq=False)
class Request:
    """One request on its way."""

    node: int
    parts: list[Part]
    arrived: bool = False


class Wires:
    """Connections to the brokers, and the requests that outlive a connection."""

    def __init__(self, m: Machines, partitions: int) -> None:
        self.m = m
        self.logs = [PartitionLog() for _ in range(partitions)]
        self.connections: dict[int, deque[Request]] = {node: deque() for node in NODES}
        self.strays: list[deque[Request]] = []

    def leader_of(self, partition: int) -> int:
        """The broker that appends to this partition now."""
        return self.m.queue(partition).node.node_id

    def flying(self) -> list[Part]:
        """The parts of all requests that the producer waits for."""
        return [
            part for requests in self.connections.values() for request in requests for part in request.parts
        ]

    def next_to_arrive(self, node: int) -> Request | None:
        """The oldest request that has not arrived."""
        return next((request for request in self.connections[node] if not request.arrived), None)

    def put(self, node: int, batches: Sequence[QueuedBatch]) -> None:
        """Write a request."""
        parts = [Part(batch, batch.view(), bytes(batch)) for batch in batches]
        self.connections[node].append(Request(node, parts))

    def handle(self, request: Request, fates: Sequence[Fate]) -> None:
        """The request reaches its broker; each of its batches has a fate."""
        request.arrived = True
        for part, fate in zip(request.parts, fates, strict=True):
            part.check()
            if self.leader_of(part.batch.partition) != request.node:
                part.code = NOT_LEADER
            elif not fate.appends:
                part.code = fate.code
            else:
                part.code, part.offset = self.logs[part.batch.partition].append(part.written)
                if part.code == OK:
                    part.code = fate.code
                    part.offset = part.offset if fate.tells_offset else -1

    def answer_next(self, node: int) -> bool:
        """The answer to the oldest request of the connection; False: it has not arrived."""
        requests = self.connections[node]
        if not requests or not requests[0].arrived:
            return False
        for part in requests.popleft().parts:
            part.check()
            self.m.answer(part.batch, part.code, part.offset)
        return True

    def cut(self, node: int, *, stray: bool = False) -> None:
        """The connection ends; bytes that were written to it and have not arrived may still arrive, if it strays."""
        requests, self.connections[node] = self.connections[node], deque()
        if stray:
            self.strays.append(deque(request for request in requests if not request.arrived))
        for request in requests:
            self.m.lose(*(part.batch for part in reversed(request.parts)))
