"""Metadata answers in few words, for the tests of the view."""

from __future__ import annotations

from collections.abc import Sequence

from aioproducer._state.backoff import Backoff
from aioproducer._state.cluster.facts import Update
from aioproducer._state.cluster.metadata import MetadataView
from aioproducer._wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

ID_A = b"A" * 16
ID_B = b"B" * 16
NO_ID = bytes(16)
MAX_AGE = 300.0
MAX_IDLE = 600.0
BACKOFF = Backoff(0.1, 1.0)


class Middle:
    """Chance without jitter."""

    def random(self) -> float:
        return 0.5


def view(*, rebootstrap_after: float | None = 300.0) -> MetadataView:
    return MetadataView(
        max_age=MAX_AGE, max_idle=MAX_IDLE, backoff=BACKOFF, rebootstrap_after=rebootstrap_after
    )


def broker(node_id: int, port: int = 9092) -> MetadataResponseBroker:
    return MetadataResponseBroker(node_id, f"host-{node_id}", port, None)


def partition(index: int, leader: int = 1, epoch: int = 5) -> MetadataResponsePartition:
    return MetadataResponsePartition(0, index, leader, epoch, [1, 2], [1], [2])


def topic(
    name: str | None,
    partitions: Sequence[MetadataResponsePartition] = (),
    topic_id: bytes = ID_A,
    error: int = 0,
) -> MetadataResponseTopic:
    return MetadataResponseTopic(error, name, topic_id, False, partitions)


def answer(
    *topics: MetadataResponseTopic, brokers: Sequence[int] = (1, 2, 3), error: int = 0
) -> MetadataResponse:
    return MetadataResponse(brokers=[broker(id_) for id_ in brokers], topics=list(topics), error_code=error)


def applied(known: MetadataView, response: MetadataResponse, now: float) -> Update:
    """The update by a whole answer, without a pause."""
    reading = known.answering(response, now)
    while True:
        try:
            next(reading)
        except StopIteration as end:
            update: Update = end.value
            return update


def knowing(
    *topics: MetadataResponseTopic, brokers: Sequence[int] = (1, 2, 3), now: float = 0.0
) -> MetadataView:
    """A view that has asked for these topics and got this answer."""
    known = view()
    for each in topics:
        assert each.name is not None
        known.want(each.name, now)
    assert known.due(now) is not None
    applied(known, answer(*topics, brokers=brokers), now)
    return known
