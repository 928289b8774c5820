"""The last committed value of a key, where transactions are open, aborted, compacted and mixed."""

from __future__ import annotations

import pytest

from aioproducer._state.ledgers.last_values import LastValues
from aioproducer.errors import ProtocolError
from aioproducer.testing.broker.logs.batches import TRANSACTIONAL, stamp_place
from aioproducer.testing.broker.logs.markers import Marker, write_marker
from aioproducer.testing.broker.logs.records import NewRecord, write_batch


class Log:
    """The bytes of a log, as a reader gets them."""

    def __init__(self) -> None:
        self.data = b""
        self.end = 0

    def write(self, producer: int, **values: str | None) -> Log:
        """A batch of a transaction, or of a producer without one (-1)."""
        records = [
            NewRecord(value=None if value is None else value.encode(), key=key.encode(), timestamp=0)
            for key, value in values.items()
        ]
        attributes = TRANSACTIONAL if producer >= 0 else 0
        return self._append(write_batch(records, producer_id=producer, attributes=attributes), len(records))

    def ended(self, producer: int, *, commit: bool = True) -> Log:
        """The end of a transaction; its epoch is not that of the records."""
        return self._append(write_marker(Marker(producer, 99, commit), 0), 1)

    def hole(self, offsets: int) -> Log:
        """Compaction removed so many records."""
        self.end += offsets
        return self

    def _append(self, batch: bytes, count: int) -> Log:
        self.data += stamp_place(batch, self.end, 0)
        self.end += count
        return self

    def read(self) -> LastValues:
        """A reading of the whole log."""
        values = LastValues(lambda key: key != b"other")
        values.read(self.data)
        assert values.position == self.end
        return values


def test_only_what_was_committed_counts() -> None:
    """An aborted transaction leaves the value of the one before it."""
    log = Log().write(1, a="1", b="1").ended(1).write(1, a="2").ended(1, commit=False)
    values = log.read()
    assert values.values == {b"a": b"1", b"b": b"1"}
    assert not values.is_undecided
    assert log.write(1, a="3").ended(1).read().values[b"a"] == b"3"


def test_open_transactions_of_others_hide_nothing() -> None:
    """A reader of committed records would stop at the first record."""
    log = Log().write(7, other="x").write(1, a="1").ended(1).write(1, a="2")
    values = log.read()
    assert values.values == {b"a": b"1"}
    assert values.is_undecided
    values = log.ended(1).read()
    assert values.values == {b"a": b"2"}
    assert not values.is_undecided


def test_transactions_that_overlap() -> None:
    """Each control batch ends the transaction of its own producer."""
    log = Log().write(1, a="1").write(2, b="2").ended(1, commit=False).ended(2)
    assert log.read().values == {b"b": b"2"}


def test_the_highest_offset_wins() -> None:
    """Compaction keeps that record, whatever the order of the commits was."""
    log = Log().write(1, a="1").write(2, a="2").ended(2).ended(1)
    assert log.read().values == {b"a": b"2"}


def test_a_null_deletes_a_value() -> None:
    """As readers of compacted topics understand it."""
    assert Log().write(1, a="1").ended(1).write(1, a=None).ended(1).read().values == {}


def test_records_without_a_transaction_count_at_once() -> None:
    """A value that an operator has written by hand."""
    assert Log().write(-1, a="1").read().values == {b"a": b"1"}


def test_compaction_leaves_holes() -> None:
    """Ends of transactions whose records are gone, and offsets without records."""
    log = Log().hole(5).ended(1).write(1, a="1").hole(3).ended(1).hole(2).ended(2, commit=False)
    assert log.read().values == {b"a": b"1"}


def test_an_answer_that_begins_before_the_asked_offset() -> None:
    """Brokers give whole batches: batches before the position are left out."""
    log = Log().write(1, a="1", b="1").ended(1)
    values = LastValues(lambda _: True)
    values.read(log.data)
    values.read(log.data)
    assert values.values == {b"a": b"1", b"b": b"1"}
    assert values.position == 3


def test_a_format_without_transactions_is_refused() -> None:
    """It cannot be judged."""
    data = bytearray(Log().write(1, a="1").data)
    data[16] = 1
    with pytest.raises(ProtocolError, match=r"before Kafka 0\.11"):
        LastValues(lambda _: True).read(bytes(data))
