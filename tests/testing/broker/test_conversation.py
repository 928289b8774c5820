"""A connection without a socket, on a clock that only the test moves."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioproducer._wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from aioproducer._wire.messages.metadata import MetadataRequest
from aioproducer.testing import EmbeddedKafka
from aioproducer.testing.broker.conversation import Conversation
from aioproducer.testing.broker.effects import Close, Effect, Write
from tests.contract.batches import plain
from tests.contract.client import WireClient, produce_request


class Silent:
    """A cluster that listens nowhere, and its clock."""

    def __init__(self) -> None:
        self.now = 0.0
        self.kafka = EmbeddedKafka(clock=lambda: self.now)
        self.kafka._cluster.broker_up(1)
        self.kafka.create_topic("t")
        self.broker = self.kafka._sockets._brokers[1]

    def connect(self) -> Conversation:
        """A new connection."""
        return Conversation(self.broker)


@pytest.fixture
def silent() -> Silent:
    return Silent()


PRODUCE = WireClient.frame(produce_request("t", plain()), 12, 1)
ASK = WireClient.frame(MetadataRequest([]), 9, 2)


def _answers(effects: list[Effect]) -> list[int]:
    """The correlation ids of the written answers."""
    return [int.from_bytes(effect.data[4:8], "big") for effect in effects if isinstance(effect, Write)]


@given(cuts=st.lists(st.integers(0, len(PRODUCE + ASK)), max_size=8))
def test_bytes_may_come_in_any_pieces(cuts: list[int]) -> None:
    """Each request is answered when its last byte arrives, however the bytes are split."""
    talk, data = Silent().connect(), PRODUCE + ASK
    places = [0, *sorted(cuts), len(data)]
    effects = [talk.receive(data[start:end]) for start, end in itertools.pairwise(places)]
    assert [one for piece in effects for one in _answers(piece)] == [1, 2]
    done = sum(
        len(_answers(piece)) for piece, end in zip(effects, places[1:], strict=True) if end < len(PRODUCE)
    )
    assert done == 0


def test_a_delay_ends_when_the_clock_says(silent: Silent) -> None:
    """No answer is written before the deadline; at the deadline it is, and then the next request is handled."""
    silent.kafka.faults.delay(2.5)
    talk = silent.connect()
    assert talk.receive(PRODUCE + ASK) == []
    assert (talk.waits, talk.deadline) == (True, 2.5)
    silent.now = 2.49
    assert talk.wake() == []
    silent.now = 2.5
    assert _answers(talk.wake()) == [1, 2]
    assert (talk.waits, talk.deadline) == (False, None)


def test_throttling_mutes_the_connection(silent: Silent) -> None:
    """The answer goes at once; the next request is not read before the time is over."""
    silent.kafka.faults.throttle(30_000)
    talk = silent.connect()
    assert _answers(talk.receive(PRODUCE + ASK)) == [1]
    assert len(silent.kafka.requests) == 1
    silent.now = 30.0
    assert _answers(talk.wake()) == [2]


def test_a_long_poll_ends_when_records_come(silent: Silent) -> None:
    """The fetch waits without a timer of its own; an append by another connection answers it."""
    asked = FetchTopic("", silent.kafka.topic_id("t"), [FetchPartition(0, partition_max_bytes=1000)])
    fetch = WireClient.frame(FetchRequest(max_wait_ms=500, min_bytes=1, topics=[asked]), 17, 3)
    reader, writer = silent.connect(), silent.connect()
    assert reader.receive(fetch) == []
    assert reader.deadline == 0.5
    writer.receive(PRODUCE)
    assert _answers(reader.wake()) == [3]


def test_a_waiting_connection_takes_in_only_so_much(silent: Silent) -> None:
    """While an answer is held the broker stops reading at about one mebibyte, as a busy broker does."""
    hold = silent.kafka.faults.delay()
    talk = silent.connect()
    reads = []
    for step in (
        lambda: talk.receive(PRODUCE),
        lambda: talk.receive(ASK * (1 + (1 << 20) // len(ASK))),
        hold.release,
        talk.wake,
    ):
        step()
        reads.append(talk.reads)
    assert reads == [True, False, False, True]


def test_nothing_is_done_after_the_end(silent: Silent) -> None:
    """Bytes that arrive after the connection was closed are not handled."""
    silent.kafka.faults.cut()
    talk = silent.connect()
    assert talk.receive(PRODUCE + PRODUCE) == [Close(reset=True)]
    assert (talk.receive(PRODUCE), talk.reads) == ([], False)
    assert silent.kafka.high_watermark("t") == 1


@given(data=st.binary(max_size=200))
def test_garbage_is_ended_or_waited_for(data: bytes) -> None:
    """On any input the broker closes the connection or waits for more; no exception leaves it."""
    effects = Silent().connect().receive(data)
    assert effects in ([], [Close()]) or all(isinstance(effect, Write | Close) for effect in effects)


def test_an_answer_that_trickles(silent: Silent) -> None:
    """Each piece goes when the pause behind the last one is over; the next request waits for the last piece."""
    silent.kafka.faults.trickle(10, pause=0.5)
    talk = silent.connect()
    written = [talk.receive(PRODUCE + ASK)]
    while talk.waits:
        assert len(silent.kafka.requests) == 1
        silent.now += 0.25
        assert talk.wake() == []
        silent.now += 0.25
        written.append(talk.wake())
    pieces = [effect.data for effects in written for effect in effects if isinstance(effect, Write)]
    *trickled, other = pieces
    assert {len(piece) for piece in trickled[:-1]} == {10}
    answer = b"".join(trickled)
    assert len(answer) == 4 + int.from_bytes(answer[:4], "big")
    assert (answer[4:8], other[4:8]) == ((1).to_bytes(4, "big"), (2).to_bytes(4, "big"))


def test_pieces_that_cannot_be(silent: Silent) -> None:
    """A piece has a byte at least, and a pause is no negative number."""
    with pytest.raises(ValueError, match="a number of bytes from 1"):
        silent.kafka.faults.trickle(0)
    with pytest.raises(ValueError, match="a number from 0"):
        silent.kafka.faults.trickle(pause=-1.0)
