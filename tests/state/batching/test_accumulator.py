"""The moments at which batches become ready, and the batches of a request."""

from __future__ import annotations

import pytest

from aioproducer._codecs import compress
from aioproducer._state.batching.limits import Limits
from aioproducer._state.queues.batches import QueuedBatch
from aioproducer._state.queues.partition_queue import PartitionQueue
from aioproducer.outcome import Outcome
from tests.state.machines import BACKOFF, DELIVERY_TIMEOUT, LINGER, Machines, values_of


def limits(
    *,
    linger: float = LINGER,
    batch_size: int = 1000,
    max_request_size: int = 4000,
    codec: int = 0,
    linger_awaited: bool = False,
) -> Limits:
    return Limits(
        linger=linger,
        batch_size=batch_size,
        max_request_size=max_request_size,
        delivery_timeout=DELIVERY_TIMEOUT,
        codec=codec,
        linger_awaited=linger_awaited,
    )


@pytest.fixture
def m() -> Machines:
    return Machines().introduced(1, 1, 1)


def ready(m: Machines, node_id: int = 1) -> bool:
    return m.accumulator.drainer.has_ready(m.node(node_id), m.now)


# -- ready


def test_a_fresh_record_lingers(m: Machines) -> None:
    """A record in an open batch is not ready before its linger time is over."""
    m.append()
    m.later(LINGER * 0.9)
    assert not ready(m)
    m.later(LINGER * 0.2)
    assert ready(m)


def test_the_alarm_is_set_for_the_end_of_the_linger(m: Machines) -> None:
    """The end of the linger sets the timer."""
    m.append()
    assert m.accumulator.deadlines.next_deadline() == m.now + LINGER
    assert min(m.alarms) == m.now + LINGER


def test_each_batch_of_a_partition_has_its_own_linger(m: Machines) -> None:
    """The alarm of a batch that left early is not taken for the end of the next one's linger."""
    m.append()
    m.later(LINGER * 0.5)
    m.close()
    m.only()
    m.append(b"second")
    m.later(LINGER * 0.6)
    assert not ready(m)
    m.later(LINGER * 0.5)
    assert values_of(m.only()) == (b"second",)


def test_partitions_do_not_linger_behind_each_other(m: Machines) -> None:
    """A partition whose linger was set anew is due at its own time, whatever others were opened meanwhile."""
    for partition in (0, 1):
        m.append(partition=partition)
    m.later(LINGER * 0.2)
    for partition in (0, 1):
        m.close(partition)
        m.append(b"next", partition=partition)
    m.drain()
    m.later(LINGER * 0.65)
    m.append(partition=2)
    assert not ready(m)
    m.later(LINGER * 0.4)
    assert {batch.partition for batch in m.drain()} == {0, 1, 2}


def test_a_linger_that_is_set_anew_ends_before_those_that_began_later(m: Machines) -> None:
    """The alarm of a batch that left early sets that of the next batch, which ends before that of another partition."""
    m.append()
    m.later(LINGER * 0.2)
    m.close()
    m.append(b"next")
    m.drain()
    m.later(LINGER * 0.7)
    m.append(partition=1)
    m.later(LINGER * 0.2)
    assert not ready(m)
    m.later(LINGER * 0.25)
    assert [(batch.partition, values_of(batch)) for batch in m.drain()] == [(0, (b"next",)), (1, (b"v",))]


def test_all_that_lingers_leaves_with_a_batch_whose_linger_is_over(m: Machines) -> None:
    """One request has all open batches, however young; a batch that is opened later lingers for its whole time."""
    m.append(partition=0)
    m.later(LINGER * 0.25)
    m.append(partition=1)
    m.later(LINGER * 0.7)
    m.append(partition=2)
    m.later(LINGER * 0.1)
    assert [batch.partition for batch in m.drain()] == [0, 1, 2]
    m.append(partition=1)
    m.later(LINGER * 0.9)
    assert not ready(m)
    m.later(LINGER * 0.2)
    assert [batch.partition for batch in m.drain()] == [1]


def test_batches_linger_on_where_one_is_sent_again(m: Machines) -> None:
    """The end of a backoff ends no linger: partitions in trouble would make the batches of all others small."""
    m.append()
    m.later(LINGER)
    retried = m.only()
    m.lose(retried, written=False)
    m.later(retried.retry_at - m.now - LINGER * 0.7)
    m.append(partition=1)
    m.later(LINGER * 0.6)
    assert not ready(m)
    m.later(LINGER * 0.2)
    assert [batch.partition for batch in m.drain()] == [0]
    m.later(LINGER * 0.3)
    assert [batch.partition for batch in m.drain()] == [1]


def test_no_batch_leaves_with_one_that_cannot_leave(m: Machines) -> None:
    """A linger that is over where the leader is unknown makes no request, so that other batches go on lingering."""
    m.append()
    m.learn(-1, 1, 1)
    m.later(LINGER * 0.3)
    m.append(partition=1)
    m.later(LINGER * 0.8)
    assert not ready(m, 1)
    m.later(LINGER * 0.3)
    assert ready(m, 1)


@pytest.mark.timeout(30)
def test_a_batch_without_a_leader_stays_where_others_leave(m: Machines) -> None:
    """It has lingered for half of its time when the batch of another partition leaves, and leaves when it has a leader."""
    m.append(partition=1)
    m.later(LINGER * 0.3)
    m.append(partition=0)
    m.learn(-1, 1, 1)
    m.later(LINGER * 0.75)
    assert [batch.partition for batch in m.drain()] == [1]
    assert not ready(m, -1)
    m.append(partition=1)
    m.later(LINGER * 1.1)
    assert [batch.partition for batch in m.drain()] == [1]
    m.learn(1, 1, 1)
    assert [batch.partition for batch in m.drain()] == [0]


def test_a_batch_that_has_to_wait_does_not_leave_with_others() -> None:
    """Behind the first batch of its partition, which is sent alone, a batch waits for the answer, and then leaves at once."""
    m = Machines()
    m.learn(1, 1)
    m.append()
    m.later(LINGER)
    first = m.only()
    m.append(partition=1)
    m.later(LINGER * 0.25)
    m.append(b"second")
    m.later(LINGER * 0.75)
    assert [batch.partition for batch in m.drain()] == [1]
    assert not ready(m)
    m.acknowledge(first)
    assert values_of(m.only()) == (b"second",)


def test_without_linger_a_record_is_ready_at_once() -> None:
    """linger 0: the next request takes whatever there is."""
    m = Machines(limits(linger=0.0))
    m.learn(1)
    m.append()
    assert ready(m)
    assert m.signals == [m.node()]


def test_a_full_batch_does_not_linger(m: Machines) -> None:
    """The record that does not fit any more closes the batch and makes it ready."""
    m.append(bytes(800))
    assert not ready(m)
    m.append(bytes(800))
    assert ready(m)
    assert len(values_of(m.only())) == 1


def test_an_awaited_batch_does_not_linger(m: Machines) -> None:
    """A done callback, as gather and wait_for set one, makes the open batch sendable."""
    m.append().add_done_callback(print)
    assert ready(m)


def test_an_awaited_batch_does_not_linger_where_the_clock_of_the_loop_is_behind(m: Machines) -> None:
    """As that of uvloop, which counts milliseconds and stands still during a turn: its sender asks with an earlier time."""
    m.accumulator.roll(m.queue(), m.now + 0.002, awaited=True)
    m.append()
    assert m.only().record_count == 1


def test_with_linger_awaited_an_awaited_batch_lingers_too() -> None:
    """linger_awaited=True: waiting changes nothing."""
    m = Machines(limits(linger_awaited=True))
    m.learn(1)
    m.append().add_done_callback(print)
    assert not ready(m)


def test_flush_makes_everything_ready(m: Machines) -> None:
    """Records that were accepted before flush() do not linger."""
    m.append(partition=0)
    m.append(partition=1)
    m.accumulator.flush(m.now)
    assert len(m.drain()) == 2


def test_flush_does_not_hurry_later_records(m: Machines) -> None:
    """A record in a batch that was opened after flush() lingers."""
    m.append()
    m.accumulator.flush(m.now)
    m.drain()
    m.append()
    assert not ready(m)


def test_closing_makes_everything_ready_for_good(m: Machines) -> None:
    """While the producer closes nothing lingers, whenever it was accepted."""
    m.append()
    m.accumulator.drain_all(m.now)
    m.only()
    m.append()
    assert ready(m)


def test_a_call_that_waits_for_memory_makes_its_share_sendable() -> None:
    """Half-full batches of the same broker leave when a record waits for their memory; others go on lingering."""
    m = Machines(memory=600)
    m.learn(1, 2)
    m.append(bytes(200), partition=0)
    m.append(bytes(150), partition=1)
    m.call(bytes(200), partition=0)
    assert ready(m, 1)
    assert not ready(m, 2)


def test_an_old_open_batch_takes_no_more_records(m: Machines) -> None:
    """After a second a batch refuses appends, so that late records have their full delivery time."""
    slow = Machines(limits(linger=0.5))
    slow.learn(-1)
    slow.append(b"first")
    slow.later(1.01)
    slow.append(b"late")
    assert len(slow.queue().queue) == 2


def test_a_backing_off_batch_is_not_ready(m: Machines) -> None:
    """A retried batch waits for its backoff, and is ready when that is over."""
    m.fill()
    m.answer(m.only(), 6)
    assert not ready(m)
    m.later(BACKOFF * 1.2)
    assert ready(m)


def test_what_made_a_partition_ready_may_be_gone(m: Machines) -> None:
    """A record after a purge of a ready batch lingers and leaves; it is not forgotten."""
    m.append()
    m.accumulator.flush(m.now)
    m.machines.endings.purge(None, m.now)
    m.append(b"next")
    assert not ready(m)
    m.later(LINGER)
    assert values_of(m.only()) == (b"next",)


def test_a_batch_that_a_full_request_leaves_behind_lingers_no_longer() -> None:
    """It was closed for a request without room for it, and withdrawn: a call that waits for memory finds no trace of it."""
    m = Machines(limits(max_request_size=1000), memory=1900)
    m.introduced(1, 1, 2)
    for partition in (0, 1):
        m.append(bytes(700), partition=partition)
    m.accumulator.flush(m.now)
    (sent,) = m.drain()
    assert sent.partition == 0
    m.machines.endings.purge(None, m.now)
    m.append(bytes(600), partition=2)
    m.call(bytes(900), partition=2)
    assert ready(m, 2)


def test_no_leader_nothing_leaves(m: Machines) -> None:
    """Batches of a partition without a leader wait, and leave as soon as it has one."""
    m.lead(m.queue(), -1)
    m.append()
    m.later(1.0)
    assert not ready(m)
    m.lead(m.queue(), 2)
    assert ready(m, 2)


def test_without_identity_nothing_leaves() -> None:
    """An idempotent producer sends nothing before it has its id, and everything due then."""
    m = Machines(identity=None)
    m.learn(1)
    m.append()
    m.later(LINGER)
    assert m.drain() == []
    m.sequences.obtained(9, 0)
    m.accumulator.update_all_readiness(m.now)
    assert ready(m)


# -- drain


def test_one_batch_per_partition_and_request(m: Machines) -> None:
    """A partition with many closed batches is in a request once."""
    for partition in (0, 0, 0, 1):
        m.fill(partition=partition)
    assert sorted(batch.partition for batch in m.drain()) == [0, 1]


def test_partitions_take_turns(m: Machines) -> None:
    """When a request holds one batch only, every partition gets its turn before any gets a second one."""
    m = Machines(limits(max_request_size=1000)).introduced(1, 1, 1)
    for _ in range(2):
        for partition in (0, 1, 2):
            m.fill(bytes(700), partition=partition)
    turns = [m.only().partition for _ in range(6)]
    assert turns == [0, 1, 2, 0, 1, 2]


def test_a_request_stops_in_front_of_the_batch_that_is_too_much(m: Machines) -> None:
    """Batches are added while they fit into max_request_size; the rest is first in the next request."""
    m = Machines(limits(max_request_size=2000))
    m.learn(1, 1, 1)
    for partition in (0, 1, 2):
        m.fill(bytes(800), partition=partition)
    assert [batch.partition for batch in m.drain()] == [0, 1]
    assert [batch.partition for batch in m.drain()] == [2]


def test_an_oversize_batch_goes_alone(m: Machines) -> None:
    """A batch larger than max_request_size, as compression that did not help makes them, does not block its broker."""
    m.fill(bytes(500), partition=0)
    m.fill(bytes(500), partition=1)
    m.accumulator.drainer.max_request_size = 300
    assert [batch.partition for batch in m.drain()] == [0]
    assert [batch.partition for batch in m.drain()] == [1]


def test_draining_closes_the_open_batch(m: Machines) -> None:
    """A record after the drain opens a new batch."""
    m.append(b"first")
    m.accumulator.flush(m.now)
    first = m.only()
    m.append(b"second")
    assert values_of(first) == (b"first",)
    assert len(m.queue().queue) == 1


def test_a_batch_waits_for_its_compression(m: Machines) -> None:
    """A batch in the hands of a compressor is not sent, and is the first to leave when it comes back."""
    compressing: list[QueuedBatch] = []
    m = Machines(limits(codec=1))
    m.compress = compressing.append
    m.learn(1)
    m.append(bytes(500))
    m.accumulator.flush(m.now)
    assert m.drain() == []
    assert not ready(m)
    (batch,) = compressing
    m.accumulator.compressed(batch, compress(batch.plain_records(), 1), m.now)
    assert m.only() is batch
    assert batch.size < 150
    assert values_of(batch) == (bytes(500),)


def test_order_is_kept_while_an_earlier_batch_is_compressed(m: Machines) -> None:
    """A batch that came back from the compressor waits for the one in front of it."""
    compressing: list[QueuedBatch] = []
    m = Machines(limits(codec=1))
    m.compress = compressing.append
    m.learn(1)
    m.fill(b"first")
    m.fill(b"second")
    m.accumulator.compressed(compressing[1], None, m.now)
    assert m.drain() == []
    m.accumulator.compressed(compressing[0], None, m.now)
    assert values_of(m.only()) == (b"first",)


def test_the_time_of_the_first_drain_is_kept(m: Machines) -> None:
    """`timings.drained` tells when the batch left the queue for the first time, whatever retries follow."""
    delivery = m.append()
    m.accumulator.flush(m.now)
    drained_at = m.now
    m.answer(m.only(), 6)
    m.wait_for_retry()
    m.acknowledge(m.only())
    assert delivery.timings.drained == drained_at


# -- leaders


def test_a_new_leader_gets_what_is_ready(m: Machines) -> None:
    """With its leader a partition moves from one broker's ready queue to the other's, and is in one only."""
    m.fill()
    m.lead(m.queue(), 2)
    assert list(m.node(1).ready) == []
    assert list(m.node(2).ready) == [m.queue()]


def test_the_same_leader_again_changes_nothing(m: Machines) -> None:
    """Metadata without changes does not put a partition into the ready queue twice."""
    m.fill()
    m.learn(1, 1, 1)
    assert list(m.node(1).ready) == [m.queue()]


def test_a_new_leader_is_tried_at_once(m: Machines) -> None:
    """A backoff belongs to the leader that failed (KIP-951)."""
    m.fill()
    m.answer(m.only(), 6)
    m.lead(m.queue(), 2)
    assert ready(m, 2)


def test_back_to_the_old_leader_the_backoff_holds(m: Machines) -> None:
    """A leader that comes back at once is the one that failed."""
    m.fill()
    m.answer(m.only(), 6)
    m.lead(m.queue(), -1)
    m.lead(m.queue(), 1)
    assert not ready(m, 1)


def test_new_partitions_are_added_to_a_topic(m: Machines) -> None:
    """A topic may grow; batches of the old partitions stay queued."""
    m.append()
    m.learn(1, 1, 1, 2)
    m.append(partition=3)
    assert len(m.queue(0).queue) == len(m.queue(3).queue) == 1


def test_only_an_unused_topic_is_forgotten(m: Machines) -> None:
    """A topic with buffered records stays, whatever the metadata does."""
    m.append()
    m.accumulator.cluster.forget("t")
    assert "t" in m.accumulator.cluster.topics
    m.machines.endings.purge(None, m.now)
    m.accumulator.cluster.forget("t")
    assert "t" not in m.accumulator.cluster.topics


def test_dead_brokers_may_hold_half_of_the_memory(m: Machines) -> None:
    """While another broker is alive, the shares of those that do not answer are limited; otherwise they are not."""
    m.learn(1, 2)
    half = m.memory // 2
    m.accumulator.cluster.share_memory({1})
    m.node(2).share.charge(1)
    assert (m.node(1).share.room_for(half), m.node(1).share.room_for(half + 1)) == (True, False)
    m.node(2).share.release(1)
    assert m.node(2).share.room_for(m.memory)
    m.accumulator.cluster.share_memory({1, 2})
    assert m.node(1).share.room_for(m.memory)


def test_a_broker_that_has_left_is_none_that_is_alive(m: Machines) -> None:
    """When the last one is forgotten that did answer, those that do not may hold all of the memory."""
    m.learn(1, 2)
    m.accumulator.cluster.share_memory({1})
    m.learn(1, 1)
    m.node(1).share.charge(1)
    assert not m.node(1).share.room_for(m.memory - 1)
    assert m.accumulator.cluster.unused_nodes({1}) == [2]
    m.accumulator.cluster.drop_node(2)
    assert m.node(1).share.room_for(m.memory - 1)


def test_a_large_record_has_room_at_a_dead_broker_where_nothing_is_buffered(m: Machines) -> None:
    """Brokers are dialed for their records: one that refuses each record would be dead for the producer without end."""
    m.learn(1, 2)
    m.accumulator.cluster.share_memory({1})
    assert m.node(1).share.room_for(m.memory)
    m.node(1).share.charge(m.memory // 2 + 1)
    assert not m.node(1).share.room_for(1)
    assert m.node(2).share.room_for(m.memory // 4)


def test_dead_brokers_share_their_half(m: Machines) -> None:
    """Two that do not answer, and what has no leader, hold no more together than one alone."""
    m.learn(1, 2, 3, -1)
    m.accumulator.cluster.share_memory({1, 2})
    half = m.memory // 2
    m.node(1).share.charge(half)
    assert [m.node(other).share.room_for(1) for other in (1, 2, -1, 3)] == [False, False, False, True]
    m.accumulator.cluster.share_memory({2})
    assert all(m.node(other).share.room_for(m.memory // 4) for other in (1, 2, -1, 3))
    assert m.accumulator.budget.stuck == 0


def test_memory_moves_with_the_leader(m: Machines) -> None:
    """The bytes of a partition count for the broker that leads it now, also in open and in sent batches."""
    m.learn(1, 2)
    m.append(partition=0)
    m.drain(1)
    m.append(partition=0)
    held = m.node(1).share.used
    assert held > 0
    m.learn(2, 2)
    assert (m.node(1).share.used, m.node(2).share.used) == (0, held)


# -- the sticky partition


def test_the_sticky_partition_has_a_leader() -> None:
    """Records without a key avoid partitions without a leader."""
    m = Machines(limits(batch_size=100))
    m.learn(-1, 1, -1)
    for _ in range(20):
        m.append(bytes(60), partition=-1)
    assert {batch.partition for batch in m.accumulator.live} == {1}


def test_the_shorter_queue_is_preferred() -> None:
    """Adaptive choice: a partition whose broker does not keep up gets less than one whose queue is empty."""
    m = Machines(limits(batch_size=100)).introduced(1, 2)
    for _ in range(200):
        m.append(bytes(60), partition=-1)
        m.acknowledge(*m.drain(2))
    stuck = sum(batch.partition == 0 for batch in m.accumulator.live)
    assert 0 < stuck < 60


def test_a_large_topic_is_not_looked_through_for_every_batch() -> None:
    """The loads of thousands of partitions are kept for a while, and looked at again after it or with new leaders."""
    m = Machines().introduced(*[1] * 2000)
    topic = m.accumulator.cluster.topics["t"]
    m.accumulator.sticky.switch(topic, m.now)
    first = topic.load
    m.accumulator.sticky.switch(topic, m.now + 0.01)
    assert topic.load is first
    m.accumulator.sticky.switch(topic, m.now + 0.03)
    second = topic.load
    assert second is not first
    m.learn(*[2] * 2000)
    m.accumulator.sticky.switch(topic, m.now)
    assert topic.load is not second


# -- memory and flush


def test_memory_is_given_back_with_the_outcome(m: Machines) -> None:
    """A batch holds its bytes until it is resolved, not until it is sent."""
    m.append(bytes(300))
    held = m.used
    assert held == m.queue().queue[0].size
    m.accumulator.flush(m.now)
    batch = m.only()
    assert m.used == held
    m.acknowledge(batch)
    assert m.is_clean()


def test_flush_waits_for_what_was_there(m: Machines) -> None:
    """A flush is done when the batches of its time are resolved; later ones do not count."""
    m.append()
    flush = m.accumulator.flush(m.now)
    batch = m.only()
    m.append()
    assert m.flushed == []
    m.acknowledge(batch)
    assert m.flushed == [flush]
    assert flush.done


def test_a_flush_of_nothing_is_done(m: Machines) -> None:
    """There is nothing to wait for."""
    assert m.accumulator.flush(m.now).done


def test_two_flushes_share_a_batch(m: Machines) -> None:
    """Each of them ends."""
    m.append()
    flushes = [m.accumulator.flush(m.now), m.accumulator.flush(m.now)]
    m.acknowledge(m.only())
    assert m.flushed == flushes


def test_failures_end_a_flush_too(m: Machines) -> None:
    """flush() waits for outcomes, not for successes."""
    delivery = m.append()
    flush = m.accumulator.flush(m.now)
    m.answer(m.only(), 29)
    assert delivery.outcome is Outcome.NOT_WRITTEN
    assert flush.done


def test_finding_work_does_not_scan_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    """A send and its drain look at one partition, however many the topic has."""
    m = Machines()
    m.learn(*[1] * 3000)
    looked: list[int] = []
    may_send = m.sequences.may_send

    def counted(queue: PartitionQueue, batch: QueuedBatch, now: float) -> bool:
        looked.append(queue.index)
        return may_send(queue, batch, now)

    # The first batch of each partition is asked for here whenever it is looked at.
    monkeypatch.setattr(m.sequences, "may_send", counted)
    m.append(partition=1234)
    m.later(LINGER)
    m.acknowledge(m.only())
    assert set(looked) == {1234}
    assert len(looked) < 10
