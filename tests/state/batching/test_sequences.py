"""The partition that may send next, its identity, and the fate of numbers that were given."""

from __future__ import annotations

import pytest

from aioproducer._state.identity.own import LAST_EPOCH
from aioproducer._state.queues.batches import QueuedBatch
from aioproducer.outcome import Outcome
from tests.state.machines import DELIVERY_TIMEOUT, IDENTITY, LINGER, Machines, read_batch

NOT_LEADER, OUT_OF_ORDER, STALE_EPOCH, FORGOTTEN, DENIED = 6, 45, 47, 59, 29
NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
PRODUCER_ID, EPOCH = IDENTITY
LAST = (1 << 31) - 1


@pytest.fixture
def m() -> Machines:
    return Machines().introduced(1, 2)


def identity(batch: QueuedBatch) -> tuple[int, int, int]:
    """Producer id, epoch and sequence in the bytes of a batch."""
    written = read_batch(bytes(batch))
    return written.producer_id, written.epoch, written.sequence


def send(m: Machines, count: int) -> list[QueuedBatch]:
    """So many batches of one record to partition 0, each in a request of its own."""
    for number in range(count):
        m.fill(b"%d" % number)
    return [m.only() for _ in range(count)]


def resend(m: Machines) -> QueuedBatch:
    m.wait_for_retry()
    return m.only()


def expire(m: Machines) -> None:
    m.later(DELIVERY_TIMEOUT)


# -- numbers


def test_a_number_is_given_at_the_drain(m: Machines) -> None:
    """A batch that waits has no number; it gets one with its first request."""
    batch = m.fill(b"a", b"b")
    assert (batch.sequence, batch.identity) == (-1, None)
    m.only()
    assert identity(batch) == (PRODUCER_ID, EPOCH, 0)


def test_numbers_count_records(m: Machines) -> None:
    """The next batch begins where the one before it ends."""
    m.fill(b"a", b"b", b"c")
    m.fill(b"d")
    m.only()
    assert identity(m.only()) == (PRODUCER_ID, EPOCH, 3)


def test_partitions_count_on_their_own(m: Machines) -> None:
    """Every partition begins at 0."""
    m.fill(b"a", b"b", partition=0)
    m.fill(b"c", partition=1)
    assert identity(m.only(1)) == identity(m.only(2)) == (PRODUCER_ID, EPOCH, 0)


def test_numbers_wrap(m: Machines) -> None:
    """After 2**31 - 1 comes 0, within a batch and for the next one."""
    m.queue().next_sequence = LAST
    m.fill(b"a", b"b", b"c")
    m.fill(b"d")
    first, second = m.only(), m.only()
    assert (first.sequence, second.sequence) == (LAST, 2)


def test_a_retry_is_the_same_to_the_last_bit(m: Machines) -> None:
    """The bytes of a retried batch are those of its first attempt."""
    (batch,) = send(m, 1)
    before = bytes(batch)
    m.lose(batch)
    assert resend(m) is batch
    assert bytes(batch) == before


@pytest.mark.parametrize("in_flight", [1, 2, 5])
def test_order_survives_retries(m: Machines, in_flight: int) -> None:
    """However many were refused on their way, they are sent again one by one, in order, under their numbers."""
    batches = send(m, in_flight)
    for batch in batches:
        m.answer(batch, NOT_LEADER)
    for number, batch in enumerate(batches):
        assert resend(m) is batch
        assert identity(batch)[2] == number
        m.wait_for_retry()
        assert m.drain() == []
        m.acknowledge(batch)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2)])
def test_answers_may_come_in_any_order(m: Machines, order: tuple[int, ...]) -> None:
    """Refused batches line up by their number, not by when they were refused."""
    batches = send(m, 3)
    for at in order:
        m.answer(batches[at], NOT_LEADER)
    assert list(m.queue().queue) == batches


def test_new_batches_wait_behind_a_retry(m: Machines) -> None:
    """While the head of the queue waits for its backoff, later batches wait too."""
    (batch,) = send(m, 1)
    m.answer(batch, NOT_LEADER)
    m.fill(b"new")
    assert m.drain() == []
    assert resend(m) is batch


def test_five_unresolved_batches_are_enough(m: Machines) -> None:
    """A leader recognises five batches of a producer: a sixth waits, also when the leader changes meanwhile."""
    batches = send(m, 5)
    m.fill(b"sixth")
    m.lead(m.queue(), 2)
    assert m.drain(2) == []
    m.acknowledge(batches[0])
    assert len(m.drain(2)) == 1


def test_what_was_acknowledged_meanwhile_counts_too(m: Machines) -> None:
    """A repetition that may itself have to be repeated must still be known then: no more than four follow its batch."""
    unproven, *others = send(m, 3)
    m.answer(unproven, NOT_ENOUGH_REPLICAS_AFTER_APPEND)
    m.acknowledge(*others)
    for value in (b"new", b"newer", b"newest"):
        m.fill(value)
    assert resend(m) is unproven
    assert [len(m.drain()) for _ in range(3)] == [1, 1, 0]
    m.acknowledge(unproven)
    assert len(m.drain()) == 1


def test_the_first_batch_goes_alone() -> None:
    """A leader that does not know the producer takes any number: nothing follows before the first is written."""
    m = Machines()
    m.learn(1)
    m.fill(b"first")
    m.fill(b"second")
    first = m.only()
    m.answer(first, 19)
    assert resend(m) is first
    assert m.drain() == []
    m.acknowledge(first)
    assert identity(m.only()) == (PRODUCER_ID, EPOCH, 1)


def test_without_idempotence_nothing_is_numbered() -> None:
    """The header says -1 for id, epoch and sequence."""
    m = Machines(idempotent=False)
    m.learn(1)
    m.fill()
    m.fill()
    assert identity(m.only()) == identity(m.only()) == (-1, -1, -1)


def test_one_at_a_time_without_idempotence() -> None:
    """max_in_flight 1 keeps the order over retries also without numbers."""
    m = Machines(idempotent=False, one_at_a_time=True)
    m.learn(1)
    m.fill(b"a")
    m.fill(b"b")
    first = m.only()
    assert m.drain() == []
    m.lose(first)
    m.wait_for_retry()
    assert m.only() is first
    m.acknowledge(first)
    assert len(m.drain()) == 1


# -- a clean end gives its numbers back


def test_a_clean_refusal_of_the_last_gives_its_numbers_back(m: Machines) -> None:
    """Nothing of it was appended, nothing was numbered after it: the next batch takes its numbers, same epoch."""
    (batch,) = send(m, 1)
    m.answer(batch, DENIED)
    m.fill(b"next")
    assert identity(m.only()) == (PRODUCER_ID, EPOCH, 0)


def test_a_clean_refusal_in_the_middle_is_mended_by_a_new_epoch(m: Machines) -> None:
    """Its numbers are a gap: what follows is numbered anew under the next epoch, in order, one by one."""
    first, second, third = send(m, 3)
    m.answer(first, DENIED)
    m.answer(second, OUT_OF_ORDER)
    assert resend_nothing(m)
    m.answer(third, OUT_OF_ORDER)
    assert resend(m) is second
    assert identity(second) == (PRODUCER_ID, EPOCH + 1, 0)
    m.acknowledge(second)
    assert resend(m) is third
    assert identity(third) == (PRODUCER_ID, EPOCH + 1, 1)


def resend_nothing(m: Machines) -> bool:
    m.wait_for_retry()
    return m.drain() == []


def test_a_mended_batch_does_not_change_bytes_that_are_lent_out(m: Machines) -> None:
    """A transport that still holds the first attempt sends just that, also after the batch got another epoch."""
    first, second = send(m, 2)
    lent = second.view()
    before = bytes(lent)
    m.answer(first, DENIED)
    m.answer(second, OUT_OF_ORDER)
    resend(m)
    assert identity(second)[1] == EPOCH + 1
    assert bytes(lent) == before


@pytest.mark.parametrize("code", [OUT_OF_ORDER, FORGOTTEN, STALE_EPOCH])
def test_a_refused_number_of_the_first_is_mended(m: Machines, code: int) -> None:
    """Nothing before it is unresolved, so waiting cannot help: it goes on under a new epoch from 0."""
    (batch,) = send(m, 1)
    m.answer(batch, code)
    assert resend(m) is batch
    assert identity(batch) == (PRODUCER_ID, EPOCH + 1, 0)


def test_a_refused_number_behind_others_is_no_reason_for_a_new_epoch(m: Machines) -> None:
    """Not the first without an outcome: it is refused because the first was, and is sent again under its number."""
    first, second = send(m, 2)
    m.answer(first, NOT_LEADER)
    m.answer(second, OUT_OF_ORDER)
    m.acknowledge(resend(m))
    assert resend(m) is second
    assert identity(second) == (PRODUCER_ID, EPOCH, 1)


# -- a dirty batch keeps its identity


def test_a_dirty_batch_is_never_stamped_anew(m: Machines) -> None:
    """Its first attempt may be in the log: refused for its number, it is sent again as it is, until its deadline."""
    delivery = m.append(b"x")
    batch = m.close()
    m.only()
    m.lose(batch)
    for _ in range(3):
        assert resend(m) is batch
        assert identity(batch) == (PRODUCER_ID, EPOCH, 0)
        m.answer(batch, OUT_OF_ORDER)
    expire(m)
    assert delivery.outcome is Outcome.UNKNOWN


def doubtful(m: Machines, count: int) -> list[QueuedBatch]:
    """So many batches that may be in the log; the first of them was sent again, and the leader refuses its number."""
    batches = send(m, count)
    refused_as_first(m, batches)
    return batches


def refused_as_first(m: Machines, batches: list[QueuedBatch]) -> None:
    for batch in reversed(batches):
        m.lose(batch)
    assert resend(m) is batches[0]
    m.answer(batches[0], OUT_OF_ORDER)


def test_a_restarted_leader_knows_the_newest_alone(m: Machines) -> None:
    """It recognizes the newest as a duplicate, so the earlier ones are in the log: at unknown offsets."""
    deliveries = []
    for number in range(4):
        deliveries.append(m.append(b"%d" % number))
        m.close()
    batches = [m.only() for _ in range(4)]
    refused_as_first(m, batches)
    assert m.only() is batches[3]
    assert identity(batches[3]) == (PRODUCER_ID, EPOCH, 3)
    m.answer(batches[3], 0, 7)
    assert [delivery.result().offset for delivery in deliveries] == [-1, -1, -1, 7]
    assert m.used == 0


def test_a_leader_of_another_log_proves_nothing_of_older_batches(m: Machines) -> None:
    """The topic was made anew, unnoticed: the new log took the newer batch at its number, where the older one has no room."""
    m.answer(send(m, 1)[0], 0, 4)
    deliveries = []
    for value in (b"older", b"newer"):
        deliveries.append(m.append(value))
        m.close()
    older, newer = m.only(), m.only()
    refused_as_first(m, [older, newer])
    assert m.only() is newer
    m.answer(newer, 0, 5)
    assert deliveries[1].result().offset == 5
    expire(m)
    assert deliveries[0].outcome is Outcome.UNKNOWN
    assert m.used == 0


def test_a_leader_that_has_room_for_older_batches_proves_that_they_are_there(m: Machines) -> None:
    """One offset later than above: all of them fit."""
    m.answer(send(m, 1)[0], 0, 4)
    older, newer = doubtful(m, 2)
    assert m.only() is newer
    m.answer(newer, 0, 6)
    assert newer.settled
    assert older.settled


def test_the_newest_that_the_leader_knows_is_looked_for(m: Machines) -> None:
    """It refuses the later ones too: each is repeated once, and the batches behind it continue from there."""
    batches = doubtful(m, 4)
    for unknown in (3, 2):
        assert m.only() is batches[unknown]
        m.answer(batches[unknown], OUT_OF_ORDER)
    assert m.only() is batches[1]
    m.acknowledge(batches[1])
    assert batches[0].settled
    m.acknowledge(resend(m))
    assert batches[2].settled
    assert resend(m) is batches[3]


def test_the_first_has_its_turn_again_when_none_is_known(m: Machines) -> None:
    """After all of them were refused, the first is repeated when its backoff is over, and then the others again."""
    batches = doubtful(m, 3)
    for unknown in (2, 1):
        assert m.only() is batches[unknown]
        m.answer(batches[unknown], OUT_OF_ORDER)
    assert m.drain() == []
    assert resend(m) is batches[0]
    m.answer(batches[0], OUT_OF_ORDER)
    assert m.only() is batches[2]


def test_what_one_leader_said_is_not_asked_of_another(m: Machines) -> None:
    """The partition moves before the newest leaves: the new leader is asked for the first."""
    batches = doubtful(m, 3)
    m.lead(batches[0].queue, 2)
    assert m.drain(2) == [batches[0]]
    assert list(batches[0].queue.queue) == batches[1:]


def test_a_newer_one_that_is_lost_again_proves_nothing(m: Machines) -> None:
    """Its connection ends: the first is repeated as before, and each batch has its place."""
    batches = doubtful(m, 3)
    assert m.only() is batches[2]
    m.lose(batches[2])
    assert list(batches[0].queue.queue) == batches
    assert resend(m) is batches[0]
    m.acknowledge(batches[0])
    assert not batches[1].settled


def test_the_first_waits_while_a_newer_one_is_asked_for(m: Machines) -> None:
    """Also when its backoff is over."""
    doubtful(m, 3)
    m.only()
    m.later(5.0)
    assert m.drain() == []


def test_a_newer_one_that_ends_is_not_asked_for(m: Machines) -> None:
    """Everything ends at its deadline while the newest waits to be asked for; what comes then goes on under a new epoch."""
    batches = doubtful(m, 3)
    expire(m)
    assert all(batch.settled for batch in batches)
    m.fill(b"next")
    assert identity(m.only()) == (PRODUCER_ID, EPOCH + 1, 0)


def test_numbers_of_a_dirty_batch_are_never_given_to_others(m: Machines) -> None:
    """A batch after an unknown outcome is sent under a new epoch: its sequence 0 is not that of the old epoch."""
    (batch,) = send(m, 1)
    m.lose(batch)
    expire(m)
    m.fill(b"next")
    assert identity(m.only()) == (PRODUCER_ID, EPOCH + 1, 0)


def test_a_new_epoch_waits_for_what_is_dirty(m: Machines) -> None:
    """A dirty batch behind a gap is settled under its own identity before the partition gets a new epoch."""
    first, second = send(m, 2)
    m.answer(first, DENIED)
    m.lose(second)
    m.later(1.0)
    m.fill(b"third")
    assert resend(m) is second
    assert identity(second) == (PRODUCER_ID, EPOCH, 1)
    assert m.drain() == []
    m.answer(second, OUT_OF_ORDER)
    m.later(DELIVERY_TIMEOUT - 2.5)
    assert identity(m.only()) == (PRODUCER_ID, EPOCH + 1, 0)


def test_a_sequence_that_goes_on_is_not_broken(m: Machines) -> None:
    """A batch behind an unknown outcome is acknowledged, so there was no gap: the numbers go on."""
    first, second = send(m, 2)
    m.answer(first, DENIED)
    m.lose(second)
    m.fill(b"third")
    m.acknowledge(resend(m))
    assert identity(m.only()) == (PRODUCER_ID, EPOCH, 2)


def test_a_clean_head_in_front_of_a_dirty_batch_is_tried_again(m: Machines) -> None:
    """A refusal that passed: under its own number it may be taken, which is all that the partition needs."""
    first, second = send(m, 2)
    m.lose(second)
    m.answer(first, OUT_OF_ORDER)
    assert resend(m) is first
    assert identity(first) == (PRODUCER_ID, EPOCH, 0)
    m.acknowledge(first)
    m.wait_for_retry()
    m.acknowledge(m.only())
    m.fill(b"third")
    assert identity(m.only()) == (PRODUCER_ID, EPOCH, 2)


def test_a_new_epoch_waits_for_what_is_on_its_way(m: Machines) -> None:
    """A batch that expired on its way may still arrive: nothing is numbered anew before the request has ended."""
    (batch,) = send(m, 1)
    expire(m)
    assert batch.settled
    m.fill(b"next")
    assert m.drain() == []
    m.lose(batch)
    assert identity(m.only()) == (PRODUCER_ID, EPOCH + 1, 0)


def test_a_late_success_after_the_deadline_changes_nothing(m: Machines) -> None:
    """Its outcome was told; whether the number was used is not built upon."""
    delivery = m.append()
    m.accumulator.flush(m.now)
    batch = m.only()
    expire(m)
    m.acknowledge(batch)
    assert delivery.outcome is Outcome.UNKNOWN
    m.fill(b"next")
    assert identity(m.only()) == (PRODUCER_ID, EPOCH + 1, 0)


# -- epochs and ids


def test_other_partitions_follow_a_new_epoch_lazily(m: Machines) -> None:
    """A partition with something unresolved stays with its epoch; once it has nothing, it begins the new one at 0."""
    (broken,) = send(m, 1)
    m.fill(b"other", partition=1)
    other = m.only(2)
    m.answer(broken, OUT_OF_ORDER)
    m.wait_for_retry()
    m.only()
    m.fill(b"more", partition=1)
    more = m.only(2)
    assert identity(more) == (PRODUCER_ID, EPOCH, 1)
    m.acknowledge(other, more)
    m.fill(b"later", partition=1)
    assert identity(m.only(2)) == (PRODUCER_ID, EPOCH + 1, 0)


def test_two_broken_partitions_need_one_new_epoch(m: Machines) -> None:
    """The second one moves to the epoch that the first one began."""
    (first,) = send(m, 1)
    m.fill(b"other", partition=1)
    second = m.only(2)
    m.answer(first, OUT_OF_ORDER)
    m.answer(second, OUT_OF_ORDER)
    m.wait_for_retry()
    assert identity(m.only(1)) == identity(m.only(2)) == (PRODUCER_ID, EPOCH + 1, 0)


@pytest.fixture
def exhausted() -> Machines:
    """A producer whose epoch has just become the last there is, with a second partition to be mended."""
    m = Machines(identity=(PRODUCER_ID, 32766)).introduced(1, 2)
    (first,) = send(m, 1)
    m.answer(first, OUT_OF_ORDER)
    assert identity(resend(m)) == (PRODUCER_ID, 32767, 0)
    m.acknowledge(first)
    (again,) = send(m, 1)
    m.answer(again, OUT_OF_ORDER)
    return m


def test_after_the_last_epoch_a_new_id_is_asked_for(exhausted: Machines) -> None:
    """There is no epoch after 32767: a partition that needs one waits for the new id."""
    assert exhausted.sequences.wanted
    assert resend_nothing(exhausted)
    exhausted.sequences.obtained(8000, 0)
    exhausted.accumulator.update_all_readiness(exhausted.now)
    assert identity(exhausted.only()) == (8000, 0, 0)


def test_the_last_epoch_serves_until_the_new_id_is_there(exhausted: Machines) -> None:
    """Partitions that need no mending go on."""
    exhausted.fill(b"other", partition=1)
    assert identity(exhausted.only(2)) == (PRODUCER_ID, 32767, 0)


def test_asking_for_a_new_id_is_announced_once(m: Machines) -> None:
    """An effect reports that the last epoch begins."""
    m = Machines(identity=(PRODUCER_ID, 32766)).introduced(1)
    asked: list[bool] = []
    m.on_exhausted = lambda: asked.append(True)
    (batch,) = send(m, 1)
    m.answer(batch, OUT_OF_ORDER)
    resend(m)
    assert asked == [True]


def test_lingering_is_not_touched_by_the_identity(m: Machines) -> None:
    """A partition that waits for the end of its linger is not sent by the arrival of an identity."""
    m = Machines(identity=None)
    m.learn(1)
    m.append()
    m.sequences.obtained(*IDENTITY)
    m.accumulator.update_all_readiness(m.now)
    assert m.drain() == []
    m.later(LINGER)
    assert len(m.drain()) == 1


# -- topics that are forgotten for a while


def test_a_topic_that_comes_back_does_not_begin_at_0_under_the_same_epoch() -> None:
    """Its leader remembers the producer: the same numbers again would be taken for a repetition, and the record lost."""
    m = Machines()
    m.learn(1)
    assert alone(m, b"first") == (PRODUCER_ID, EPOCH, 0)
    m.accumulator.cluster.forget("t")
    m.learn(1)
    assert alone(m, b"second") == (PRODUCER_ID, EPOCH + 1, 0)


def test_a_topic_that_was_only_looked_at_costs_no_epoch() -> None:
    """Nothing was counted in it: a partition that is new elsewhere begins under the present epoch."""
    m = Machines()
    m.learn(1, topic="looked at")
    m.accumulator.cluster.forget("looked at")
    m.learn(1)
    assert alone(m, b"first") == (PRODUCER_ID, EPOCH, 0)


def test_a_partition_that_goes_away_and_comes_back_counts_on() -> None:
    """Metadata with fewer partitions, and then with more, is no reason to use a number twice."""
    m = Machines()
    m.learn(1, 1)
    assert alone(m, b"first", partition=1) == (PRODUCER_ID, EPOCH, 0)
    m.learn(1)
    m.learn(1, 1)
    assert alone(m, b"second", partition=1) == (PRODUCER_ID, EPOCH, 1)


def test_partitions_that_were_not_forgotten_go_on_counting() -> None:
    """One that still counts under the older epoch moves on like after any new epoch, when nothing of it is under way."""
    m = Machines()
    m.learn(1, 1)
    assert alone(m, b"first") == (PRODUCER_ID, EPOCH, 0)
    m.learn(1, topic="other")
    alone(m, b"other", topic="other")
    m.accumulator.cluster.forget("other")
    assert alone(m, b"second") == (PRODUCER_ID, EPOCH, 1)
    assert alone(m, b"third", partition=1) == (PRODUCER_ID, EPOCH + 1, 0)
    assert alone(m, b"fourth") == (PRODUCER_ID, EPOCH + 1, 0)


def test_after_the_last_epoch_a_topic_that_comes_back_waits_for_a_new_id() -> None:
    """There is no epoch left that it could begin under."""
    m = Machines(identity=(PRODUCER_ID, LAST_EPOCH))
    m.own.exhausted = True
    m.learn(1)
    alone(m, b"first")
    m.accumulator.cluster.forget("t")
    m.learn(1)
    m.append(b"second")
    m.later(LINGER)
    assert m.drain() == []
    m.sequences.obtained(PRODUCER_ID + 1, 0)
    m.accumulator.update_all_readiness(m.now)
    assert identity(m.only()) == (PRODUCER_ID + 1, 0, 0)


def alone(m: Machines, value: bytes, partition: int = 0, topic: str = "t") -> tuple[int, int, int]:
    """The identity of a record that is sent and acknowledged before the next."""
    m.append(value, partition=partition, topic=topic)
    m.later(LINGER)
    batch = m.only()
    written = identity(batch)
    m.acknowledge(batch)
    return written
