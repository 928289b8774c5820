"""Topics with a limit of their own: a part of the memory, with lines of its own."""

from __future__ import annotations

import attrs
import pytest

from aioproducer._state.admission.ready import ReadyRecord, check_size
from aioproducer.errors import RecordTooLargeError
from tests.state.machines import LIMITS, Machines

LIMITED = attrs.evolve(LIMITS, linger=10.0, topic_buffers={"metrics": 500})


@pytest.fixture
def m() -> Machines:
    m = Machines(LIMITED, memory=2_000)
    m.learn(1, 2)
    m.learn(1, 2, topic="metrics")
    return m


def own(m: Machines) -> int:
    return m.accumulator.cluster.topic_budgets["metrics"].used


def test_a_topic_holds_no_more_than_its_limit(m: Machines) -> None:
    """Records beyond it wait; what they hold counts for the whole as well."""
    assert m.call(bytes(200), partition=0, topic="metrics").delivery
    waiting = m.call(bytes(300), partition=0, topic="metrics")
    assert not waiting.ended
    assert own(m) == m.used < 500


def test_who_waits_for_it_holds_up_nobody_else(m: Machines) -> None:
    """Other topics of the same broker, and the same partition's other topics, go on."""
    m.call(bytes(300), partition=0, topic="metrics")
    assert not m.call(bytes(300), partition=0, topic="metrics").ended
    assert m.call(bytes(300), partition=0).delivery is not None


def test_who_waits_gets_what_comes_back(m: Machines) -> None:
    """In the order of the calls, as far as the topic's limit reaches."""
    m.call(bytes(300), partition=0, topic="metrics")
    calls = [m.call(bytes(240), partition=0, topic="metrics") for _ in range(2)]
    assert [call.ended for call in calls] == [False, False]
    m.acknowledge(m.only(1))
    assert [call.ended for call in calls] == [True, False]


def test_what_the_topic_holds_on_its_way_elsewhere_becomes_sendable(m: Machines) -> None:
    """It lingers on the way to broker 1, and is what a record for broker 2 waits for."""
    m.call(bytes(300), partition=0, topic="metrics")
    assert not m.accumulator.drainer.has_ready(m.node(1), m.now)
    m.call(bytes(300), partition=1, topic="metrics")
    assert m.accumulator.drainer.has_ready(m.node(1), m.now)


def test_others_go_on_lingering(m: Machines) -> None:
    """A topic at its limit does not make batches of other topics leave half full."""
    m.append(b"other", partition=0)
    m.call(bytes(300), partition=0, topic="metrics")
    m.call(bytes(300), partition=0, topic="metrics")
    assert [batch.topic for batch in m.drain(1)] == ["metrics"]


def test_the_whole_is_a_limit_too(m: Machines) -> None:
    """A topic may not take its part when others hold everything."""
    m.append(bytes(900), partition=0)
    m.append(bytes(800), partition=1)
    assert not m.call(bytes(300), partition=0, topic="metrics").ended


def test_what_others_hold_becomes_sendable_where_the_whole_is_short(m: Machines) -> None:
    """The topic is below its limit: what it waits for lingers in other topics."""
    m.append(bytes(900), partition=0)
    m.append(bytes(800), partition=1)
    call = m.call(bytes(300), partition=0, topic="metrics")
    m.acknowledge(m.only(1))
    assert call.delivery is not None


def test_a_record_that_can_never_fit_says_which_limit_it_is() -> None:
    """Named by the setting."""
    m = Machines(LIMITED, memory=2_000)
    m.learn(1, topic="metrics")
    call = m.call(bytes(600), partition=0, topic="metrics")
    assert not call.ended
    with pytest.raises(RecordTooLargeError, match="topic_buffer_limits") as caught:
        check_size(m.accumulator, "metrics", ReadyRecord(None, bytes(600), None, None, 0))
    assert caught.value.limit == 500


def test_a_dead_broker_may_hold_half_of_the_limit(m: Machines) -> None:
    """So the topic's records for the others get through."""
    m.accumulator.cluster.share_memory({1})
    # Where the topic has nothing buffered, a record of any size has room.
    assert m.call(b"", partition=1, topic="metrics").delivery is not None
    assert not m.call(bytes(300), partition=0, topic="metrics").ended
    assert m.call(bytes(300), partition=1, topic="metrics").delivery is not None


def test_a_partition_that_moves_takes_what_it_holds_along(m: Machines) -> None:
    """From the share to one broker into the share to the other, within the same limit."""
    m.call(bytes(300), partition=0, topic="metrics")
    before = own(m)
    m.lead(m.queue(0, "metrics"), 2)
    assert own(m) == before
    assert m.queue(0, "metrics").share is m.queue(1, "metrics").share


def test_everything_is_given_back(m: Machines) -> None:
    """To the topic's part and to the whole."""
    m.call(bytes(300), partition=0, topic="metrics")
    m.accumulator.flush(m.now)
    m.acknowledge(m.only(1))
    assert (own(m), m.used) == (0, 0)


def test_queued_records_of_a_topic_that_is_not_known_count_too() -> None:
    """`send_nowait` holds memory of the topic's part before there is a partition."""
    m = Machines(LIMITED, memory=2_000)
    call = m.call(bytes(300), topic="metrics", held=True)
    assert own(m) == m.used == m.admission.calls.bytes_held > 300
    m.learn(1, topic="metrics")
    m.admission.learned("metrics", m.now)
    assert call.delivery is not None
    assert m.admission.calls.bytes_held == 0


def test_what_is_withdrawn_makes_room_when_its_batch_leaves(m: Machines) -> None:
    """The batch is written again without it, and a call that waits for the topic's limit need not wait for the answer."""
    gone = m.append(bytes(200), topic="metrics")
    m.append(bytes(100), topic="metrics")
    call = m.call(bytes(150), partition=0, topic="metrics")
    assert gone.try_cancel()
    assert not call.ended
    m.drain()
    assert call.ended
