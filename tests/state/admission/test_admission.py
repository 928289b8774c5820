"""The calls that have to wait: for their topic, for their partition, for memory. No call is passed or forgotten."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from aioproducer._core import NO_ROOM_NOW, Delivery
from aioproducer._state.admission.ready import ReadyRecord
from aioproducer.errors import (
    BufferFullError,
    KafkaError,
    MetadataTimeoutError,
    RecordError,
    RecordTooLargeError,
    StateError,
)
from tests.state.machines import DELIVERY_TIMEOUT, LIMITS, LINGER, Call, Machines, values_of

ROOMY = attrs.evolve(LIMITS, batch_size=100)


def full(memory: int = 600) -> Machines:
    """A producer whose memory is almost full: there is room for a small record, not for one of 150 bytes;
    its batch is on its way to broker 1."""
    m = Machines(ROOMY, memory=memory).introduced(1, 2, 1)
    m.append(bytes(memory - memory // 8 - 180), partition=0)
    m.accumulator.flush(m.now)
    m.only()
    return m


def release(m: Machines) -> None:
    """The oldest batch is written, and its memory free."""
    m.acknowledge(next(iter(m.accumulator.live)))


def test_what_a_withdrawn_record_took_is_given_on_when_its_batch_leaves() -> None:
    """The batch is written without it, and only then is smaller: a call that waits for memory gets it before the answer."""
    m = Machines(attrs.evolve(LIMITS, batch_size=400), memory=600).introduced(1)
    large = m.append(bytes(200), partition=0)
    m.append(bytes(100), partition=0)
    call = m.call(bytes(160), partition=0)
    assert call.delivery is None
    assert large.try_cancel()
    assert call.delivery is None
    assert len(m.drain()) == 1
    assert call.delivery is not None


# -- the line of a topic


def test_a_call_waits_for_its_topic() -> None:
    """The topic is asked for; when it is known the record is appended."""
    m = Machines()
    call = m.call(b"v", partition=0)
    assert m.wanted == ["t"]
    assert not call.ended
    m.learn(1)
    assert call.delivery is not None
    assert m.admission.calls.waiting == 0


def test_the_line_of_a_topic_keeps_its_order() -> None:
    """Records are appended in the order of the calls."""
    m = Machines()
    for value in (b"a", b"b", b"c"):
        m.call(value, partition=0)
    m.learn(1)
    m.later(LINGER)
    assert values_of(m.only()) == (b"a", b"b", b"c")


def test_a_serializer_holds_up_those_behind_it() -> None:
    """A call whose record is not ready keeps its place; later calls for the same topic wait."""
    m = Machines().introduced(1)
    slow = m.call(None, partition=0)
    quick = m.call(b"quick", partition=0)
    assert not quick.ended
    assert slow.waiting is not None
    slow.waiting.record = ReadyRecord(None, b"slow", None, None, 0)
    m.admission.advance("t", m.now)
    m.later(LINGER)
    assert values_of(m.only()) == (b"slow", b"quick")


def test_the_fast_path_is_closed_while_a_call_waits() -> None:
    """The compiled path sees that a call waits for the topic, and may be used again afterwards."""
    m = Machines().introduced(1)
    slow = m.call(None, partition=0)
    assert m.accumulator.cluster.topics["t"].waiting == 1
    m.admission.calls.refuse(slow.waiting, RecordError("bad"))  # type: ignore[arg-type]
    m.admission.advance("t", m.now)
    assert m.accumulator.cluster.topics["t"].waiting == 0
    assert not m.admission.has_line("t")


def test_topics_do_not_wait_for_each_other() -> None:
    """An unknown topic delays no other topic."""
    m = Machines().introduced(1)
    waits = m.call(b"v", topic="unknown")
    goes = m.call(b"v", topic="t", partition=0)
    assert not waits.ended
    assert goes.delivery is not None


def test_a_partition_that_is_not_there_yet_is_waited_for() -> None:
    """An explicit partition beyond the known ones asks for metadata, and is used when it appears."""
    m = Machines().introduced(1)
    call = m.call(b"v", partition=1)
    assert not call.ended
    assert m.wanted == ["t"]
    m.learn(1, 2)
    assert call.delivery is not None
    assert call.delivery.partition == 1


def test_a_record_that_can_never_fit_is_refused() -> None:
    """Larger than max_request_size: the error names the size and the limit; those behind it go on."""
    m = Machines()
    large = m.call(bytes(5000), partition=0)
    behind = m.call(b"v", partition=0)
    m.learn(1)
    assert isinstance(large.error, RecordTooLargeError)
    assert behind.delivery is not None


def test_a_partitioner_that_fails_refuses_its_record_only() -> None:
    """The next call of the line is asked for its own partition."""
    m = Machines()

    def fail(record: ReadyRecord, topic: Any) -> int:
        raise RecordError("no partition for you")

    bad, good = m.call(b"bad"), m.call(b"good")
    assert bad.waiting is not None
    bad.waiting.choose = fail
    m.learn(1)
    assert isinstance(bad.error, RecordError)
    assert good.delivery is not None


def test_a_topic_that_cannot_be_used_refuses_all_that_wait_for_it() -> None:
    """Each call gets its error, and the line is gone."""
    m = Machines()
    calls = [m.call(b"v") for _ in range(3)]
    m.admission.refuse_topic("t", lambda call: StateError("denied"))
    assert all(isinstance(call.error, StateError) for call in calls)
    assert not m.admission.has_line("t")
    assert m.is_clean()


# -- the line for memory


def test_room_is_handed_to_the_first() -> None:
    """The first waiting call is served first, in the same step that freed the memory."""
    m = full()
    calls = [m.call(bytes(150), partition=0) for _ in range(3)]
    assert not any(call.ended for call in calls)
    release(m)
    assert [call.ended for call in calls] == [True, True, False]


def test_memory_of_a_batch_that_ends_in_the_same_moment() -> None:
    """A call whose time ends with that of the records that hold the memory is accepted."""
    m = full()
    call = m.call(bytes(150), partition=0, max_block=DELIVERY_TIMEOUT)
    m.later(DELIVERY_TIMEOUT)
    assert call.delivery is not None, call.error


def test_a_small_record_does_not_pass_a_large_one() -> None:
    """Within a share memory is FIFO: what would fit waits behind what does not."""
    m = full()
    large, small = m.call(bytes(300), partition=0), m.call(b"", partition=0)
    assert not small.ended
    release(m)
    assert large.ended
    assert small.ended


def test_new_records_do_not_pass_those_that_wait() -> None:
    """The compiled path refuses a record of a share with waiting calls, though the record would fit."""
    m = full()
    m.call(bytes(300), partition=0)
    assert m.offer(b"", partition=2)[0] == NO_ROOM_NOW


def test_other_shares_are_not_held_up() -> None:
    """A broker that does not answer fills its own line only."""
    m = full()
    m.call(bytes(300), partition=0)
    assert m.call(b"", partition=1).ended


def test_the_share_of_dead_brokers_is_not_all_memory() -> None:
    """Half of the memory stays free for brokers that answer."""
    m = Machines(ROOMY, memory=1100).introduced(1, 2)
    m.accumulator.cluster.share_memory({1})
    dead = [m.call(bytes(150), partition=0) for _ in range(5)]
    alive = [m.call(bytes(150), partition=1) for _ in range(2)]
    assert [call.ended for call in dead] == [True, True, False, False, False]
    assert all(call.ended for call in alive)
    assert m.node(1).share.used <= 550


def test_a_broker_that_froze_a_moment_ago_cannot_take_all_memory() -> None:
    """An eighth is kept back, in equal parts, for brokers below their part: no broker is known to be dead yet."""
    m = Machines(ROOMY, memory=8_000).introduced(1, 2)
    frozen = [m.call(bytes(400), partition=0) for _ in range(20)]
    taken = m.node(1).share.used
    assert 6_400 < taken <= 7_000
    assert not frozen[-1].ended
    assert [m.call(bytes(400), partition=1).ended for _ in range(3)] == [True, True, False]
    assert m.node(1).share.used == taken


def test_alone_a_broker_may_take_all_memory() -> None:
    """Nothing is kept back without other brokers."""
    m = Machines(ROOMY, memory=8_000).introduced(1, 1)
    assert m.node(1).share.room_for(8_000)
    m.node(1).share.charge(7_900)
    assert m.node(1).share.room_for(100)
    assert not m.node(1).share.room_for(101)


def test_losing_the_leader_frees_no_memory_for_more() -> None:
    """A dead broker's records that wait may not take the other half when its partition has no leader any more."""
    m = Machines(ROOMY, memory=1100).introduced(1, 2)
    m.accumulator.cluster.share_memory({1})
    dead = [m.call(bytes(150), partition=0) for _ in range(5)]
    m.learn(-1, 2)
    assert [call.ended for call in dead] == [True, True, False, False, False]
    assert all(m.call(bytes(150), partition=1).ended for _ in range(2))


def test_the_record_waits_for_the_partition_it_was_given() -> None:
    """A record without a key has its partition when it starts to wait, and keeps it."""
    m = full()
    call = m.call(bytes(300))
    assert call.waiting is not None
    waited_for = call.waiting.queue
    release(m)
    assert call.delivery is not None
    assert waited_for is not None
    assert call.delivery.partition == waited_for.index


def test_the_time_of_a_record_is_that_of_its_acceptance() -> None:
    """Its delivery time begins when the wait is over."""
    m = full()
    call = m.call(bytes(300), partition=2)
    m.later(5.0)
    release(m)
    assert call.delivery is not None
    assert call.delivery.timings.accepted == m.now


# -- leaving a line


def test_withdrawing_the_first_serves_the_next() -> None:
    """A cancelled call that was too large for the room there is does not keep it from those behind it."""
    m = full()
    large, small = m.call(bytes(300), partition=0), m.call(b"", partition=0)
    assert large.waiting is not None
    assert m.admission.withdraw(large.waiting, m.now)
    assert small.ended


def test_an_expired_first_serves_the_next() -> None:
    """So does one that waited for max_block."""
    m = full()
    large = m.call(bytes(300), partition=0, max_block=1.0)
    small = m.call(b"", partition=0)
    m.later(1.0)
    assert isinstance(large.error, BufferFullError)
    assert small.delivery is not None


def test_withdrawing_the_first_of_a_topic_serves_the_next() -> None:
    """A cancelled call whose serializer hangs does not hold up those behind it."""
    m = Machines().introduced(1)
    slow, quick = m.call(None), m.call(b"v")
    assert slow.waiting is not None
    m.admission.withdraw(slow.waiting, m.now)
    assert quick.delivery is not None


@pytest.mark.parametrize("keep", [0, 3, 9])
def test_no_wake_up_is_lost_by_cancellations(keep: int) -> None:
    """The remaining calls are served when there is room, whichever of the others went away."""
    m = full()
    calls = [m.call(bytes(300), partition=0) for _ in range(10)]
    for number, call in enumerate(calls):
        if number != keep:
            assert call.waiting is not None
            m.admission.withdraw(call.waiting, m.now)
    release(m)
    assert calls[keep].delivery is not None
    assert m.node(1).share.waiting == m.queue(0).waiting == m.admission.calls.waiting == 0


def test_a_call_that_was_accepted_cannot_be_withdrawn() -> None:
    """The answer says so."""
    m = Machines().introduced(1)
    call = m.call(b"v")
    assert call.waiting is not None
    assert not m.admission.withdraw(call.waiting, m.now)


def test_calls_behind_one_whose_partition_does_not_come() -> None:
    """All end at the same moment: each says that metadata was waited for, as there was room for every record."""
    m = Machines().introduced(1)
    calls = [m.call(b"v", partition=partition, max_block=1.0) for partition in (1, 0, 0)]
    m.later(1.0)
    assert [type(call.error) for call in calls] == [MetadataTimeoutError] * 3
    assert "an earlier record waits for its partition" in str(calls[1].error)


@pytest.mark.parametrize(("value", "expected"), [(None, BufferFullError), (b"v", MetadataTimeoutError)])
def test_max_block_ends_a_wait(value: bytes | None, expected: type[KafkaError]) -> None:
    """The error names what the call waited for."""
    m = Machines()
    call = m.call(value, max_block=2.0)
    m.later(1.9)
    assert not call.ended
    m.later(0.1)
    assert type(call.error) is expected
    assert m.is_clean()


def test_the_reason_why_no_metadata_came_is_told() -> None:
    """A call that waited for a topic in vain gets the reason: the state of the brokers."""
    m = Machines()
    m.machines.reach.present_error = StateError("on fire")
    call = m.call(max_block=2.0)
    m.later(2.0)
    assert call.error is not None
    assert str(call.error.cause) == "on fire"
    assert "on fire" in str(call.error)


def test_what_ended_keeps_no_record() -> None:
    """A cancelled call may stay in a line and in a heap for a while; its record does not."""
    m = Machines()
    m.call(None)
    call = m.call(bytes(1000))
    assert call.waiting is not None
    m.admission.withdraw(call.waiting, m.now)
    assert call.waiting.record is None


# -- records of send_nowait that wait for their topic


def test_calls_that_end_behind_one_that_waits_for_long_are_dropped() -> None:
    """In the line of a topic and in one for memory: one patient caller keeps nothing of ten thousand others."""
    m = Machines()
    for first in (m.call(b"patient", max_block=3600.0), m.call(b"patient", topic="u", max_block=3600.0)):
        assert first.waiting is not None
        line = m.admission.topic_lines[first.waiting.topic]
        for _ in range(100):
            for each in [m.call(topic=first.waiting.topic) for _ in range(100)]:
                assert m.admission.withdraw(each.waiting, m.now)  # type: ignore[arg-type]
        assert line.first() is first.waiting
        assert len(line.calls) < 400
    m = Machines(memory=1_000).introduced(1)
    m.fill(bytes(850))
    patient = m.call(bytes(300), partition=0, max_block=3600.0)
    (line,) = m.admission.memory.lines.values()
    for _ in range(100):
        for each in [m.call(partition=0) for _ in range(100)]:
            assert m.admission.withdraw(each.waiting, m.now)  # type: ignore[arg-type]
    assert line.first() is patient.waiting
    assert len(line.calls) < 400


def test_a_queued_record_holds_memory() -> None:
    """It is held from the beginning, and no more of it once the record has its place."""
    m = Machines()
    call = m.call(bytes(100), partition=0, held=True)
    assert m.used > 100
    m.learn(1)
    assert call.delivery is not None
    assert m.used == m.queue().queue[0].charged


def test_queued_records_need_no_more_than_they_hold() -> None:
    """When all of the memory is held by queued records, they still get their places once their topic is known."""
    m = Machines(LIMITS, memory=1000)
    calls: list[Call] = []
    while m.admission.calls.unrouted_memory.room_for(120):
        calls.append(m.call(bytes(100), partition=0, held=True))
    assert len(calls) > 5
    m.learn(1)
    for _ in calls:
        m.later(LINGER)
        m.acknowledge(*m.drain())
    assert all(call.delivery is not None for call in calls)
    assert m.is_clean()


def test_memory_of_a_queued_record_goes_to_those_who_wait() -> None:
    """A queued record that is given up makes room for a call that waits."""
    m = Machines(LIMITS, memory=400).introduced(1)
    queued = m.call(bytes(200), topic="unknown", max_block=1.0, held=True)
    waits = m.call(bytes(200), partition=0)
    assert not waits.ended
    m.later(1.0)
    assert queued.error is not None
    assert waits.delivery is not None


def test_queued_records_do_not_block_who_waits_before_them() -> None:
    """A call that waits first needs the memory that queued records behind it hold: it gets it."""
    m = Machines(LIMITS, memory=700).introduced(1)
    queued = [m.call(bytes(100), topic="late", partition=0, held=True) for _ in range(5)]
    large = m.call(bytes(400), partition=0)
    m.learn(1, topic="late")
    for _ in range(6):
        m.later(LINGER)
        m.acknowledge(*m.drain())
    assert large.delivery is not None
    assert all(call.delivery is not None for call in queued)


# -- leaders move


def test_calls_move_with_their_partition() -> None:
    """They wait in the new leader's line, and are served from there, in their order."""
    m = full()
    moving = [m.call(bytes(150), partition=0) for _ in range(2)]
    m.lead(m.queue(0), 2)
    assert (m.node(1).share.waiting, m.node(2).share.waiting) == (0, 2)
    release(m)
    assert all(call.delivery is not None for call in moving)


def test_who_stays_behind_is_served() -> None:
    """When the first of a line moves away, the next one may fit."""
    m = full()
    m.call(bytes(300), partition=0)
    small = m.call(b"", partition=2)
    assert not small.ended
    m.lead(m.queue(0), 2)
    assert small.ended


def test_arriving_calls_make_their_new_share_sendable() -> None:
    """Batches that linger in the share to which waiting calls come leave at once."""
    m = Machines(LIMITS, memory=700).introduced(1, 2)
    for partition in (0, 1):
        m.append(bytes(200), partition=partition)
    m.call(bytes(200), partition=0)
    assert not m.accumulator.drainer.has_ready(m.node(2), m.now)
    m.lead(m.queue(0), 2)
    assert m.accumulator.drainer.has_ready(m.node(2), m.now)


# -- callbacks that come back


def test_a_refusal_may_send_again() -> None:
    """A callback that sends to the same topic from within its refusal is served like any other call."""
    m = Machines()
    again: list[Call] = []
    large = m.call(bytes(5000), partition=0)
    assert large.waiting is not None
    large.waiting.on_refused = lambda error: again.append(m.call(b"v", partition=0))
    m.learn(1)
    assert again[0].delivery is not None
    assert m.admission.calls.waiting == 0


def test_an_acceptance_may_wait_again() -> None:
    """A callback that opens a new line of the topic from within its acceptance keeps its place in it."""
    m = Machines()
    first = m.call(b"v", partition=0)
    again: list[Call] = []

    def accepted(delivery: Delivery) -> None:
        again.append(m.call(None, partition=0))

    assert first.waiting is not None
    first.waiting.on_accepted = accepted
    m.learn(1)
    assert m.admission.has_line("t")
    assert again[0].waiting is not None
    again[0].waiting.record = ReadyRecord(None, b"w", None, None, 0)
    m.admission.advance("t", m.now)
    assert again[0].delivery is not None


# -- the end


def test_the_end_refuses_everybody() -> None:
    """Those in the lines of topics and those in the lines for memory."""
    m = full()
    calls = [m.call(bytes(300), partition=0), m.call(b"v", topic="other"), m.call(None)]
    m.admission.refuse_all(lambda call: StateError("closed"))
    assert all(isinstance(call.error, StateError) for call in calls)
    assert m.admission.calls.waiting == 0


def test_closing_spares_queued_records() -> None:
    """A record that send_nowait accepted is still sent when the producer closes; a call that merely waits is refused."""
    m = Machines()
    queued = m.call(b"v", partition=0, held=True)
    waits = m.call(b"w", partition=0)
    m.admission.refuse_all(lambda call: StateError("closing"), but_queued=True)
    assert waits.error is not None
    m.learn(1)
    assert queued.delivery is not None


# -- cost


class Counting:
    """A send path that counts how often it is asked."""

    def __init__(self, path: Any) -> None:
        self.path = path
        self.asked = 0

    def _append_checked(self, *record: Any) -> Any:
        self.asked += 1
        return self.path._append_checked(*record)


def attempts_per_call(waiting: int) -> float:
    m = Machines(attrs.evolve(LIMITS, batch_size=100), memory=600).introduced(1)
    m.append(bytes(500))
    m.accumulator.flush(m.now)
    counting = Counting(m.path)
    m.admission.calls.appender = counting
    for _ in range(waiting):
        m.call(bytes(300), partition=0, max_block=1e6)
    while m.admission.calls.waiting:
        m.acknowledge(*m.drain())
    return counting.asked / waiting


def test_a_waiting_call_costs_the_same_among_10_and_among_10_000() -> None:
    """Joining, being served and leaving do not depend on how many others wait."""
    few, many = attempts_per_call(10), attempts_per_call(10_000)
    assert many <= few + 0.5
    assert many < 4
