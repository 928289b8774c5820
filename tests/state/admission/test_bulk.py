"""One call with many records: in order, with the available memory, and without other records in between."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import pytest

from aioproducer._core import BatchDelivery, Column
from aioproducer._state.admission.bulk import BulkWaiting, Columns
from aioproducer.errors import BufferFullError, KafkaError, RecordTooLargeError
from tests.state.machines import LIMITS, LINGER, Machines, read_batch

MAX_BLOCK = 5.0


@attrs.define(eq=False)
class Bulk:
    """A bulk send in the lines, and what became of it so far."""

    machines: Machines
    delivery: BatchDelivery
    refused: dict[int, KafkaError] = attrs.Factory(dict)
    errors: list[KafkaError] = attrs.Factory(list)
    again: int = 0
    _done: bool = False
    waiting: BulkWaiting | None = None

    @property
    def done(self) -> bool:
        return self._done

    def go_on(self) -> None:
        """The next turns of the loop, as often as the call asked for one."""
        while self.again:
            self.again -= 1
            self.machines.admission.advance("t", self.machines.now)


def bulk(
    m: Machines,
    values: Sequence[bytes | None],
    *,
    partitions: int | list[int | None] | None = 0,
    timeout: float | None = None,
) -> Bulk:
    call = Bulk(m, BatchDelivery("t", len(values), m.loop))

    def again() -> None:
        call.again += 1

    def done() -> None:
        call._done = True

    call.waiting = BulkWaiting(
        topic="t",
        record=None,
        asked_at=m.now,
        give_up_at=m.now + MAX_BLOCK,
        record_deadline=0.0 if timeout is None else m.now + timeout,
        on_accepted=lambda delivery: None,
        on_refused=call.errors.append,
        delivery=call.delivery,
        columns=Columns(Column.of_items(list(values)), None, partitions, None, None),
        appender=m.path,
        max_block=MAX_BLOCK,
        again=again,
        on_done=done,
        on_refusal=lambda at, error: call.refused.update({at: error}),
    )
    m.admission.join(call.waiting, m.now)
    call.go_on()
    return call


def written(m: Machines) -> list[bytes | None]:
    """The values of all that is drained and acknowledged from now on, in order."""
    found: list[bytes | None] = []
    m.accumulator.drain_all(m.now)
    while batches := m.drain():
        for batch in batches:
            found += read_batch(bytes(batch)).values
            m.acknowledge(batch)
    return found


@pytest.fixture
def m() -> Machines:
    return Machines().introduced(1, 1)


def numbered(count: int, size: int = 0) -> list[bytes]:
    return [b"%03d" % number + bytes(size) for number in range(count)]


def test_all_records_in_order(m: Machines) -> None:
    """Across batches, in the order of the columns."""
    values = numbered(300)
    call = bulk(m, values)
    assert call.done
    assert call.delivery.accepted == 300
    assert written(m) == values


def test_each_record_to_its_partition(m: Machines) -> None:
    """A column of partitions, with None for the default choice."""
    call = bulk(m, numbered(3), partitions=[1, 0, None])
    assert call.delivery.accepted == 3
    m.later(LINGER)
    assert {batch.partition: read_batch(bytes(batch)).values[0] for batch in m.drain()}[1] == b"000"


def test_a_record_that_can_never_fit_does_not_stop_the_others(m: Machines) -> None:
    """It is refused by its index."""
    call = bulk(m, [b"a", bytes(9000), b"c"])
    assert call.done
    assert list(call.refused) == [1]
    assert isinstance(call.refused[1], RecordTooLargeError)
    assert written(m) == [b"a", b"c"]


def test_memory_is_taken_as_it_comes() -> None:
    """More records than fit into the memory at once are accepted one after the other, in order."""
    m = Machines(LIMITS, memory=700).introduced(1)
    values = numbered(20, 200)
    call = bulk(m, values)
    assert call.delivery.accepted < 20
    sent: list[bytes | None] = []
    while not call.done:
        m.later(LINGER)
        sent += written(m)
        call.go_on()
    assert sent + written(m) == values
    assert m.is_clean()


def test_nobody_passes_a_bulk_call_that_waits() -> None:
    """A call for the same topic waits until the bulk call has placed all of its records."""
    m = Machines(LIMITS, memory=700).introduced(1)
    call = bulk(m, numbered(6, 200))
    behind = m.call(b"behind", partition=0)
    assert behind.delivery is None
    sent = written(m)
    while not behind.ended:
        call.go_on()
        sent += written(m)
    assert (sent + written(m))[-1] == b"behind"


def test_records_of_a_bulk_call_expire_at_its_timeout(m: Machines) -> None:
    """`timeout` counts for every record of the call."""
    m.lead(m.queue(), -1)
    call = bulk(m, numbered(100), timeout=2.0)
    m.later(1.9)
    assert not call.delivery.done()
    m.later(0.1)
    assert call.delivery.done()
    assert m.tally.not_written == 100


def test_each_record_may_wait_for_max_block() -> None:
    """The time that those before it took does not count; the call is refused when one waited for too long."""
    m = Machines(LIMITS, memory=700).introduced(1)
    call = bulk(m, numbered(12, 200))
    m.later(MAX_BLOCK * 0.9)
    m.acknowledge(m.only())
    call.go_on()
    m.later(MAX_BLOCK * 0.9)
    assert call.errors == []
    m.later(MAX_BLOCK * 0.2)
    assert [type(error) for error in call.errors] == [BufferFullError]


def test_a_withdrawn_bulk_call_places_nothing_more() -> None:
    """Accepted records stay accepted; the record that waits alone, and those behind it, are never accepted."""
    m = Machines(LIMITS, memory=700).introduced(1)
    call = bulk(m, numbered(6, 200))
    accepted = call.delivery.accepted
    assert call.waiting is not None
    assert call.waiting.alone is not None
    m.admission.withdraw(call.waiting.alone, m.now)
    m.admission.withdraw(call.waiting, m.now)
    assert len(written(m)) == accepted < 6
    assert call.delivery.accepted == accepted
    assert m.is_clean()
