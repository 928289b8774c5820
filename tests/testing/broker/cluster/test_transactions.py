"""The decisions of the transaction coordinator, with a clock that the test moves."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial

import attrs
import pytest

from aioproducer._wire.error_codes import ErrorCode
from aioproducer.testing.broker.cluster.transaction_states import State
from aioproducer.testing.broker.cluster.transactions import (
    LAST_GIVEN_EPOCH,
    MAX_EPOCH,
    Identity,
    MarkerWait,
    Transaction,
    TransactionRefusal,
    Transactions,
)

PLACE = ("t", 0)


@attrs.define
class Bench:
    """Transactions that note their markers, at a time that the test sets."""

    now: float = 0.0
    open: bool = False
    written: list[tuple[int, int, bool, tuple[str, ...]]] = attrs.field(factory=list)
    transactions: Transactions = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.transactions = Transactions(
            itertools.count(10).__next__,
            lambda: self.now,
            lambda: int(self.now * 1000),
            self._write,
        )

    def _write(self, ended: Transaction) -> None:
        partitions = tuple(f"{name}-{index}" for name, index in ended.partitions)
        self.written.append((ended.producer_id, ended.epoch, ended.commits, partitions))
        ended.partitions.clear()

    def begin(self, timeout_ms: int = 1000) -> Identity:
        """A producer with an open transaction."""
        who = self.transactions.init("x", timeout_ms)
        self.transactions.add_partitions("x", who, [PLACE])
        return who

    def at(self, epoch: int) -> Identity:
        """A producer with this epoch."""
        who = self.transactions.init("x", 1000)
        known = self.transactions.get("x")
        assert known is not None
        known.epoch = epoch
        return who._replace(epoch=epoch)

    def end(self, who: Identity, *, commit: bool = True, bump: bool = True, held: bool = False) -> Identity:
        """End the transaction; held markers wait for `open`."""
        wait = MarkerWait(lambda: self.open) if held else None
        return self.transactions.end("x", who, commit=commit, bump=bump, wait=wait)

    def state(self) -> State:
        """The state of the transaction."""
        known = self.transactions.get("x")
        assert known is not None
        return known.state


@pytest.fixture
def bench() -> Bench:
    """The transactions of a new cluster."""
    return Bench()


def refusal(call: Callable[[], object]) -> ErrorCode:
    """The error of a call that must be refused."""
    with pytest.raises(TransactionRefusal) as refused:
        call()
    return refused.value.error


def test_a_commit_writes_markers_where_the_transaction_wrote(bench: Bench) -> None:
    """Each partition gets one marker, in the order of its addition, under the raised epoch if the end raises it."""
    who = bench.begin()
    bench.transactions.add_partitions("x", who, [("t", 2), PLACE, ("s", 1)])
    assert bench.end(who) == Identity(10, 1)
    assert bench.written == [(10, 1, True, ("t-0", "t-2", "s-1"))]
    assert bench.state() is State.COMPLETE_COMMIT


def test_markers_that_are_held_keep_everybody_waiting(bench: Bench) -> None:
    """EndTxn is answered at once; later requests get CONCURRENT_TRANSACTIONS until the markers are written."""
    who = bench.begin()
    after = bench.end(who, held=True)
    assert (bench.written, bench.state()) == ([], State.PREPARE_COMMIT)
    transactions = bench.transactions
    assert [
        refusal(lambda: transactions.add_partitions("x", after, [PLACE])),
        refusal(lambda: transactions.verify("x", after, PLACE)),
        refusal(lambda: transactions.init("x", 1000)),
        refusal(lambda: bench.end(who)),
    ] == [ErrorCode.CONCURRENT_TRANSACTIONS] * 4
    assert refusal(lambda: bench.end(who, commit=False)) == ErrorCode.INVALID_TXN_STATE
    transactions.tick()
    assert bench.state() is State.PREPARE_COMMIT
    bench.open = True
    transactions.tick()
    assert bench.written == [(10, 1, True, ("t-0",))]
    assert bench.end(who) == after


def test_markers_may_be_held_for_a_time(bench: Bench) -> None:
    """The markers are written when the time is over."""
    who = bench.begin()
    bench.transactions.end("x", who, commit=False, bump=False, wait=MarkerWait(deadline=3.0))
    bench.now = 2.9
    bench.transactions.tick()
    assert bench.state() is State.PREPARE_ABORT
    bench.now = 3.0
    bench.transactions.tick()
    assert (bench.state(), bench.written) == (State.COMPLETE_ABORT, [(10, 0, False, ("t-0",))])


def test_all_markers_may_be_delayed(bench: Bench) -> None:
    """`Options.marker_delay` delays the markers of every transaction."""
    bench.transactions.marker_delay = 0.5
    bench.end(bench.begin())
    assert bench.written == []
    bench.now = 0.5
    bench.transactions.tick()
    assert len(bench.written) == 1


def test_a_transaction_runs_out_of_time(bench: Bench) -> None:
    """The coordinator aborts under the next epoch; the producer, not notified, is fenced or gets an illegal state."""
    who = bench.begin(timeout_ms=1000)
    bench.now = 0.999
    bench.transactions.tick()
    assert bench.state() is State.ONGOING
    bench.now = 1.0
    bench.transactions.tick()
    assert (bench.state(), bench.written) == (State.COMPLETE_ABORT, [(10, 1, False, ("t-0",))])
    assert refusal(lambda: bench.end(who, bump=False)) == ErrorCode.PRODUCER_FENCED
    assert refusal(lambda: bench.end(who, bump=True)) == ErrorCode.INVALID_TXN_STATE
    assert refusal(lambda: bench.transactions.add_partitions("x", who, [PLACE])) == ErrorCode.PRODUCER_FENCED


def test_the_time_counts_from_the_first_partition(bench: Bench) -> None:
    """The time counts neither from init nor from the last partition."""
    who = bench.transactions.init("x", 1000)
    bench.now = 5.0
    bench.transactions.add_partitions("x", who, [PLACE])
    bench.now = 5.9
    bench.transactions.add_partitions("x", who, [("t", 1)])
    bench.transactions.tick()
    assert bench.state() is State.ONGOING
    bench.now = 6.0
    bench.transactions.tick()
    assert bench.state() is State.COMPLETE_ABORT


def test_the_next_deadline_is_told(bench: Bench) -> None:
    """The next moment is the end of an open transaction's time, or of held markers."""
    assert bench.transactions.next_deadline() is None
    who = bench.begin(timeout_ms=2000)
    assert bench.transactions.next_deadline() == 2.0
    bench.transactions.end("x", who, commit=True, bump=True, wait=MarkerWait(deadline=1.5))
    assert bench.transactions.next_deadline() == 1.5
    bench.now = 1.5
    bench.transactions.tick()
    assert bench.transactions.next_deadline() is None


def test_what_has_ended_runs_out_of_no_time(bench: Bench) -> None:
    """A committed transaction stays committed."""
    bench.end(bench.begin())
    bench.now = 100.0
    bench.transactions.tick()
    assert (bench.state(), len(bench.written)) == (State.COMPLETE_COMMIT, 1)


def test_init_over_an_open_transaction_raises_the_epoch_twice(bench: Bench) -> None:
    """The epoch rises once for the fence, which aborts the transaction, and once for the repeated init."""
    bench.begin()
    assert refusal(lambda: bench.transactions.init("x", 1000)) == ErrorCode.CONCURRENT_TRANSACTIONS
    assert bench.written == [(10, 1, False, ("t-0",))]
    assert bench.transactions.init("x", 1000) == Identity(10, 2)


def test_a_fence_may_be_held_as_well(bench: Bench) -> None:
    """A held fence refuses init more than once; the epoch still rises by two."""
    bench.begin()
    wait = MarkerWait(lambda: bench.open)
    for _ in range(3):
        assert (
            refusal(lambda: bench.transactions.init("x", 1000, None, wait))
            == ErrorCode.CONCURRENT_TRANSACTIONS
        )
    bench.open = True
    bench.transactions.tick()
    assert bench.transactions.init("x", 1000) == Identity(10, 2)


def test_the_next_epoch_is_given_twice_to_who_asks_twice(bench: Bench) -> None:
    """The answer to the first call may have been lost; the first producer gets no third epoch (KIP-360)."""
    who = bench.transactions.init("x", 1000)
    raised = [bench.transactions.init("x", 1000, who) for _ in range(2)]
    assert raised == [Identity(10, 1)] * 2
    assert bench.transactions.init("x", 1000, raised[0]) == Identity(10, 2)
    assert refusal(lambda: bench.transactions.init("x", 1000, who)) == ErrorCode.PRODUCER_FENCED


def test_another_producer_makes_the_repetition_a_fence(bench: Bench) -> None:
    """An init without an identity fences the old producer."""
    who = bench.transactions.init("x", 1000)
    bench.transactions.init("x", 1000)
    assert refusal(lambda: bench.transactions.init("x", 1000, who)) == ErrorCode.PRODUCER_FENCED


def test_used_up_epochs_give_another_producer_id(bench: Bench) -> None:
    """Init begins with epoch 0 of a new id; a repetition gets the same identity."""
    who = bench.at(LAST_GIVEN_EPOCH)
    assert bench.transactions.init("x", 1000, who) == Identity(11, 0)
    assert bench.transactions.init("x", 1000, who) == Identity(11, 0)


def test_the_last_epoch_can_still_be_fenced(bench: Bench) -> None:
    """The highest epoch is kept for the fence; a repeated init gets another id."""
    who = bench.at(LAST_GIVEN_EPOCH)
    bench.transactions.add_partitions("x", who, [PLACE])
    assert refusal(lambda: bench.transactions.init("x", 1000)) == ErrorCode.CONCURRENT_TRANSACTIONS
    assert bench.written == [(10, MAX_EPOCH, False, ("t-0",))]
    assert bench.transactions.init("x", 1000) == Identity(11, 0)


def test_an_end_that_uses_up_the_epochs_answers_with_another_id(bench: Bench) -> None:
    """The markers carry the old id, which also identifies a repetition, even while markers are missing."""
    who = bench.at(LAST_GIVEN_EPOCH)
    bench.transactions.add_partitions("x", who, [PLACE])
    assert bench.end(who, held=True) == Identity(11, 0)
    assert refusal(lambda: bench.end(who)) == ErrorCode.CONCURRENT_TRANSACTIONS
    bench.open = True
    bench.transactions.tick()
    assert bench.written == [(10, MAX_EPOCH, True, ("t-0",))]
    assert bench.end(who) == Identity(11, 0)
    assert refusal(lambda: bench.end(who, commit=False)) == ErrorCode.INVALID_TXN_STATE
    bench.transactions.add_partitions("x", Identity(11, 0), [PLACE])
    assert bench.end(Identity(11, 0)) == Identity(11, 1)


def test_a_partition_is_verified(bench: Bench) -> None:
    """Verification succeeds only for a partition that was added to the open transaction."""
    who = bench.begin()
    bench.transactions.verify("x", who, PLACE)
    assert refusal(lambda: bench.transactions.verify("x", who, ("t", 1))) == ErrorCode.TRANSACTION_ABORTABLE
    bench.end(who, bump=False)
    assert refusal(lambda: bench.transactions.verify("x", who, PLACE)) == ErrorCode.TRANSACTION_ABORTABLE


def test_nobody_is_refused_everything(bench: Bench) -> None:
    """An id that was never initialized is unknown; an empty id is invalid."""
    who = Identity(1, 0)
    for name, code in (("nobody", ErrorCode.INVALID_PRODUCER_ID_MAPPING), ("", ErrorCode.INVALID_REQUEST)):
        assert refusal(partial(bench.transactions.add_partitions, name, who, [PLACE])) == code
        assert refusal(partial(bench.transactions.verify, name, who, PLACE)) == code
        assert refusal(partial(bench.transactions.end, name, who, commit=True, bump=True)) == code
    assert bench.transactions.all() == ()


def test_old_versions_have_another_name_for_fencing() -> None:
    """The other errors are the same in all versions."""
    fenced, illegal = (
        TransactionRefusal(ErrorCode.PRODUCER_FENCED),
        TransactionRefusal(ErrorCode.INVALID_TXN_STATE),
    )
    assert fenced.code(knows_fencing=True) == ErrorCode.PRODUCER_FENCED
    assert fenced.code(knows_fencing=False) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert illegal.code(knows_fencing=False) == ErrorCode.INVALID_TXN_STATE
