"""The transaction coordinators: the state of each transactional id, and every decision about it.

The rules are those of Kafka's `TransactionCoordinator` and `TransactionMetadata`. All brokers share this state, as real
ones do by replication: a coordinator that moves or restarts forgets nothing. There is no I/O here: times come from the
clocks in the arguments, and `write_markers` applies a finished transaction to the logs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

import attrs

from aioproducer._wire.error_codes import ErrorCode
from aioproducer.testing.broker.cluster.transaction_states import (
    COMPLETE,
    PREPARING,
    Ending,
    State,
    ending,
    ending_with_bump,
)
from aioproducer.testing.broker.effects import never

NO_ID: Final = -1
NO_EPOCH: Final = -1
MAX_EPOCH: Final = 2**15 - 1
LAST_GIVEN_EPOCH: Final = MAX_EPOCH - 1
"""No producer gets the highest epoch: it is reserved for fencing the producer that has this one."""

TopicPartition = tuple[str, int]


class TransactionRefusal(Exception):  # noqa: N818 - an answer of the coordinator, not a failure of it
    """The coordinator refuses a request."""

    def __init__(self, error: ErrorCode) -> None:
        super().__init__(error)
        self.error = error

    def code(self, *, knows_fencing: bool) -> ErrorCode:
        """The error in a version of a request: older versions lack PRODUCER_FENCED, which means "fatal"."""
        if self.error == ErrorCode.PRODUCER_FENCED and not knows_fencing:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        return self.error


class Identity(NamedTuple):
    """The identity in a producer's request."""

    producer_id: int
    epoch: int


@attrs.frozen
class MarkerWait:
    """The delay of the markers of an end: until `ready()`, at the latest until `deadline`."""

    ready: Callable[[], bool] = never
    deadline: float | None = None


_NO_WAIT: Final = MarkerWait(ready=lambda: True)


@attrs.define(eq=False)
class Transaction:
    """One transactional id."""

    id: str
    producer_id: int
    timeout_ms: int
    epoch: int = NO_EPOCH
    last_epoch: int = NO_EPOCH
    """The previous epoch, if a call that raised it may be repeated."""
    previous_producer_id: int = NO_ID
    next_producer_id: int = NO_ID
    """The replacement of a producer id whose epochs are used up, when the transaction is complete."""
    state: State = State.EMPTY
    partitions: dict[TopicPartition, None] = attrs.field(factory=dict)
    """In the order in which they were added."""
    started_ms: int = -1
    """The beginning of the transaction by the wall clock, for readers."""
    started_at: float = 0.0
    """The beginning by the cluster's clock, for its time limit."""
    changed_at: float = 0.0
    """The time of the last change by the cluster's clock."""

    @property
    def identity(self) -> Identity:
        """The identity of the producer, or its next one when the markers are written."""
        if self.next_producer_id != NO_ID:
            return Identity(self.next_producer_id, 0)
        return Identity(self.producer_id, self.epoch)

    @property
    def deadline(self) -> float:
        """The time at which it is aborted if it is still open."""
        return self.started_at + self.timeout_ms / 1000

    @property
    def exhausted(self) -> bool:
        """Whether the epochs of this producer id are used up."""
        return self.epoch >= LAST_GIVEN_EPOCH

    @property
    def commits(self) -> bool:
        """Whether it is being committed, or the last one was."""
        return self.state in (State.PREPARE_COMMIT, State.COMPLETE_COMMIT)

    @property
    def rests(self) -> bool:
        """Whether no transaction is open or being ended."""
        return self.state is State.EMPTY or self.state in COMPLETE

    def may_continue(self, expected: Identity) -> bool:
        """Whether this producer may ask for the next epoch (KIP-360). The epoch is checked later."""
        repeats_a_rotation = (
            expected.producer_id == self.previous_producer_id and expected.epoch >= LAST_GIVEN_EPOCH
        )
        return self.epoch == NO_EPOCH or expected.producer_id == self.producer_id or repeats_a_rotation

    def begin(self, started_ms: int, now: float) -> None:
        """Begin a transaction with its first partition."""
        self.state = State.ONGOING
        self.started_ms, self.started_at = started_ms, now

    def fence(self) -> None:
        """Abort with an unpublished epoch, which fences the producer with the present one."""
        self.epoch = min(self.epoch + 1, MAX_EPOCH)
        self.last_epoch = NO_EPOCH
        self.state = State.PREPARE_ABORT

    def complete(self) -> None:
        """Note that the markers are written."""
        self.state = State.COMPLETE_COMMIT if self.commits else State.COMPLETE_ABORT
        if self.next_producer_id != NO_ID:
            self.previous_producer_id = self.producer_id
            self.producer_id, self.epoch = self.next_producer_id, 0
            self.next_producer_id = NO_ID


@attrs.define(eq=False)
class Transactions:
    """All transactional ids of the cluster."""

    new_producer_id: Callable[[], int]
    clock: Callable[[], float]
    wall_clock: Callable[[], int]
    write_markers: Callable[[Transaction], None]
    """Commit or abort according to `commits`, and remove from `partitions` those with their marker.

    Partitions that cannot be written to remain, and are tried again with each `tick`.
    """
    max_timeout_ms: int = 900_000
    marker_delay: float = 0.0
    expiration: float = 604_800.0
    """Seconds after which an id without an open transaction is forgotten, as `transactional.id.expiration.ms`."""
    raises_twice: bool = False
    """An abort by the coordinator itself raises the epoch twice, as with Kafka 4.0.0 on level 2 (KAFKA-19367)."""
    _known: dict[str, Transaction] = attrs.field(factory=dict, init=False)
    _ongoing: dict[str, Transaction] = attrs.field(factory=dict, init=False)
    _held: dict[str, MarkerWait] = attrs.field(factory=dict, init=False)

    # ----- requests of producers

    def init(
        self,
        transactional_id: str,
        timeout_ms: int,
        expected: Identity | None = None,
        wait: MarkerWait | None = None,
    ) -> Identity:
        """The identity of a producer that begins, or continues after an error; an open transaction is aborted first."""
        if not transactional_id:
            raise TransactionRefusal(ErrorCode.INVALID_REQUEST)
        if not 0 < timeout_ms <= self.max_timeout_ms:
            raise TransactionRefusal(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        known = self.get(transactional_id)
        if known is None:
            known = Transaction(transactional_id, self.new_producer_id(), timeout_ms, changed_at=self.clock())
            self._known[transactional_id] = known
        if expected is not None and not known.may_continue(expected):
            raise TransactionRefusal(ErrorCode.PRODUCER_FENCED)
        if known.state is State.ONGOING:
            self._fence(known, wait)
            # Also when the markers are written by now: Kafka always lets the producer ask again.
            raise TransactionRefusal(ErrorCode.CONCURRENT_TRANSACTIONS)
        if known.state in PREPARING:
            raise TransactionRefusal(ErrorCode.CONCURRENT_TRANSACTIONS)
        self._next_epoch(known, expected)
        known.timeout_ms, known.state, known.started_ms = timeout_ms, State.EMPTY, -1
        known.changed_at = self.clock()
        return known.identity

    def add_partitions(
        self, transactional_id: str, who: Identity, partitions: Iterable[TopicPartition]
    ) -> None:
        """Add partitions to the transaction; the first ones begin it."""
        known = self._of(transactional_id, who)
        if known.state in PREPARING:
            raise TransactionRefusal(ErrorCode.CONCURRENT_TRANSACTIONS)
        if known.state is not State.ONGOING:
            known.begin(self.wall_clock(), self.clock())
            self._ongoing[known.id] = known
        known.partitions.update(dict.fromkeys(partitions))

    def verify(self, transactional_id: str, who: Identity, partition: TopicPartition) -> None:
        """Check that the partition was added to the open transaction (KIP-890, first part)."""
        known = self._of(transactional_id, who)
        if known.state in PREPARING:
            raise TransactionRefusal(ErrorCode.CONCURRENT_TRANSACTIONS)
        if partition not in known.partitions:
            raise TransactionRefusal(ErrorCode.TRANSACTION_ABORTABLE)

    def end(
        self,
        transactional_id: str,
        who: Identity,
        *,
        commit: bool,
        bump: bool,
        wait: MarkerWait | None = None,
    ) -> Identity:
        """Commit or abort; with `bump` (EndTxn v5) under a new epoch, which is returned."""
        known = self._find(transactional_id)
        step = self._step_with_bump(known, who, commit=commit) if bump else _step(known, who, commit=commit)
        if step is Ending.WAIT:
            raise TransactionRefusal(ErrorCode.CONCURRENT_TRANSACTIONS)
        if step is Ending.ILLEGAL:
            raise TransactionRefusal(ErrorCode.INVALID_TXN_STATE)
        if step is Ending.DONE:
            return known.identity
        if bump:
            if known.exhausted:
                known.next_producer_id = self.new_producer_id()
            known.last_epoch, known.epoch = known.epoch, min(known.epoch + 1, MAX_EPOCH)
        known.state = State.PREPARE_COMMIT if commit else State.PREPARE_ABORT
        identity = known.identity
        self._prepared(known, wait)
        return identity

    # ----- actions of the cluster itself

    def tick(self) -> None:
        """Write due markers, and abort transactions that exceed their time limit."""
        now = self.clock()
        for key, wait in tuple(self._held.items()):
            if wait.ready() or (wait.deadline is not None and now >= wait.deadline):
                self._finish(self._known[key])
        for known in tuple(self._ongoing.values()):
            if now >= known.deadline:
                self._fence(known, None)

    def next_deadline(self) -> float | None:
        """The time at which `tick` has work, if nothing happens before."""
        held = (wait.deadline for wait in self._held.values() if wait.deadline is not None)
        return min((*held, *(known.deadline for known in self._ongoing.values())), default=None)

    # ----- queries

    def all(self) -> tuple[Transaction, ...]:
        """Every transactional id, in the order of first use."""
        return tuple(known for known in map(self.get, tuple(self._known)) if known is not None)

    def get(self, transactional_id: str) -> Transaction | None:
        """One transactional id, unless it is expired (`TransactionStateManager`)."""
        known = self._known.get(transactional_id)
        if known is not None and known.rests and self.clock() - known.changed_at >= self.expiration:
            del self._known[transactional_id]
            return None
        return known

    def _find(self, transactional_id: str) -> Transaction:
        if not transactional_id:
            raise TransactionRefusal(ErrorCode.INVALID_REQUEST)
        known = self.get(transactional_id)
        if known is None:
            raise TransactionRefusal(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        return known

    def _of(self, transactional_id: str, who: Identity) -> Transaction:
        """The transaction of exactly this producer."""
        known = self._find(transactional_id)
        _check(known, who)
        return known

    def _step_with_bump(self, known: Transaction, who: Identity, *, commit: bool) -> Ending:
        """Kafka's `isValidEpoch` for version 2, and then the table."""
        rotated = (
            known.previous_producer_id == who.producer_id
            and who.epoch == LAST_GIVEN_EPOCH
            and known.epoch == 0
        )
        if known.producer_id != who.producer_id and not rotated:
            raise TransactionRefusal(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        again = rotated or who.epoch + 1 == known.epoch
        if known.state in PREPARING:
            valid = who.epoch + 1 == known.epoch
        else:
            valid = who.epoch == known.epoch or (known.state in COMPLETE and again)
        if not valid:
            raise TransactionRefusal(ErrorCode.PRODUCER_FENCED)
        return ending_with_bump(known.state, commit=commit, again=again)

    def _next_epoch(self, known: Transaction, expected: Identity | None) -> None:
        if known.exhausted and (expected is None or expected.epoch == known.epoch):
            known.last_epoch = NO_EPOCH if expected is None else known.epoch
            known.previous_producer_id = known.producer_id
            known.producer_id, known.epoch = self.new_producer_id(), 0
        elif expected is None:
            known.last_epoch, known.epoch = NO_EPOCH, known.epoch + 1
        elif known.epoch in (NO_EPOCH, expected.epoch):
            known.last_epoch, known.epoch = known.epoch, known.epoch + 1
        elif expected.epoch != known.last_epoch:
            # An equal one: the answer to such a call was lost, and is returned again.
            raise TransactionRefusal(ErrorCode.PRODUCER_FENCED)

    def _fence(self, known: Transaction, wait: MarkerWait | None) -> None:
        known.fence()
        if self.raises_twice:
            known.last_epoch, known.epoch = known.epoch, min(known.epoch + 1, MAX_EPOCH)
        self._prepared(known, wait)

    def _prepared(self, known: Transaction, wait: MarkerWait | None) -> None:
        known.changed_at = self.clock()
        self._ongoing.pop(known.id, None)
        if wait is None and self.marker_delay > 0:
            wait = MarkerWait(deadline=self.clock() + self.marker_delay)
        if wait is None:
            self._finish(known)
        else:
            self._held[known.id] = wait

    def _finish(self, known: Transaction) -> None:
        self.write_markers(known)
        if known.partitions:
            self._held[known.id] = _NO_WAIT  # A partition has no leader: the next tick tries again.
        else:
            self._held.pop(known.id, None)
            known.complete()
            known.changed_at = self.clock()


def _check(known: Transaction, who: Identity) -> None:
    if known.producer_id != who.producer_id:
        raise TransactionRefusal(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if known.epoch != who.epoch:
        raise TransactionRefusal(ErrorCode.PRODUCER_FENCED)


def _step(known: Transaction, who: Identity, *, commit: bool) -> Ending:
    _check(known, who)
    return ending(known.state, commit=commit)
