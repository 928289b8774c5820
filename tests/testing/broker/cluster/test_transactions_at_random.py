"""Producers that write, commit, abort, fence each other and run out of time, in random order, against a plain model."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from aioproducer.testing.broker.cluster.cluster import Cluster, Node
from aioproducer.testing.broker.cluster.transaction_states import State
from aioproducer.testing.broker.cluster.transactions import Identity, MarkerWait, TransactionRefusal
from aioproducer.testing.broker.logs.batches import CONTROL, TRANSACTIONAL, read_header
from aioproducer.testing.broker.logs.log import PartitionLog, Stamp
from aioproducer.testing.broker.logs.records import NewRecord, parse_batch, write_batch
from aioproducer.testing.broker.options import Options

IDS = st.sampled_from(["one", "other", "third"])
PARTITIONS = st.integers(0, 1)
TIMEOUT = 10.0


class Producers(RuleBasedStateMachine):
    """Each transactional id has one producer, with the identity of its last init."""

    def __init__(self) -> None:
        super().__init__()
        self.now, self.released, self.written = 0.0, True, 0
        self.cluster = Cluster(
            Options(), {1: Node(1, "host")}, lambda: self.now, lambda: int(self.now * 1000)
        )
        self.cluster.broker_up(1)
        self.cluster.create_topic("t", 2)
        self.who: dict[str, Identity] = {}
        self.sequences: dict[tuple[Identity, int], int] = {}
        self.open: dict[str, set[bytes]] = {}
        self.began: dict[str, float] = {}
        self.committed: set[bytes] = set()
        self.lost: set[bytes] = set()

    @rule(name=IDS)
    def init(self, name: str) -> None:
        """A new producer takes over; the open transaction of its predecessor is lost."""
        for _ in range(2):
            try:
                self.who[name] = self.cluster.transactions.init(name, int(TIMEOUT * 1000))
            except TransactionRefusal:
                self._lose(name)
        assert self.who.get(name) is not None or not self.released

    @rule(name=IDS, partition=PARTITIONS)
    def write(self, name: str, partition: int) -> None:
        """The producer writes one record if it is not fenced and its last transaction is over."""
        who = self.who.get(name)
        if who is None:
            return
        try:
            self.cluster.transactions.add_partitions(name, who, [("t", partition)])
        except TransactionRefusal:
            return
        self.began.setdefault(name, self.now)
        value = b"%d" % self.written
        self.written += 1
        sequence = self.sequences.get((who, partition), 0)
        batch = write_batch(
            [NewRecord(value)],
            producer_id=who.producer_id,
            epoch=who.epoch,
            sequence=sequence,
            attributes=TRANSACTIONAL,
        )
        self._log(partition).produce(batch, read_header(batch), Stamp(0, self.now))
        self.sequences[who, partition] = sequence + 1
        self.open.setdefault(name, set()).add(value)

    @rule(name=IDS, commit=st.booleans(), bump=st.booleans())
    def end(self, name: str, commit: bool, bump: bool) -> None:
        """The producer commits or aborts; the markers may be held."""
        who = self.who.get(name)
        was_open = bool(self.open.get(name))
        if who is None:
            return
        wait = None if self.released else MarkerWait(lambda: self.released)
        try:
            after = self.cluster.transactions.end(name, who, commit=commit, bump=bump, wait=wait)
        except TransactionRefusal:
            return
        if bump:
            self.who[name] = after
        if was_open:
            (self.committed if commit else self.lost).update(self.open.pop(name))
            self.began.pop(name)

    @rule()
    def hold(self) -> None:
        """Hold markers from now on."""
        self.released = False

    @rule()
    def release(self) -> None:
        """Release the markers, and hold no more."""
        self.released = True
        self.cluster.transactions.tick()

    @rule(seconds=st.floats(0.5, 12.0))
    def pass_time(self, seconds: float) -> None:
        """A transaction that is open too long is lost."""
        self.now += seconds
        for name, began in tuple(self.began.items()):
            if self.now >= began + TIMEOUT:
                self._lose(name)
        self.cluster.transactions.tick()

    @invariant()
    def readers_see_only_what_was_committed(self) -> None:
        """Readers see no open and no aborted record; they see all others when no transaction is in the way."""
        seen = {value for partition in (0, 1) for value in self._seen(partition)}
        assert seen <= self.committed
        states = {known.state for known in self.cluster.transactions.all()}
        if states <= {State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT}:
            assert seen == self.committed
            for partition in (0, 1):
                assert self._log(partition).stable_offset == self._log(partition).high_watermark

    def teardown(self) -> None:
        """In the end every transaction has an outcome."""
        self.release()
        self.pass_time(TIMEOUT + 1)
        assert {known.state for known in self.cluster.transactions.all()} <= {
            State.EMPTY,
            State.COMPLETE_COMMIT,
            State.COMPLETE_ABORT,
        }
        self.readers_see_only_what_was_committed()
        assert len(self.committed | self.lost) == len(self.committed) + len(self.lost) == self.written

    def _lose(self, name: str) -> None:
        self.lost.update(self.open.pop(name, ()))
        self.began.pop(name, None)

    def _log(self, partition: int) -> PartitionLog:
        return self.cluster.partition("t", partition).log

    def _seen(self, partition: int) -> list[bytes]:
        return [
            record.value or b""
            for batch in self._log(partition).committed()
            if not read_header(batch.data).attributes & CONTROL
            for record in parse_batch("t", partition, batch.data)
        ]


TestProducers = Producers.TestCase
