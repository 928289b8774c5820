"""A delivery follows its record, and costs what it should."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from typing import Any

import attrs
import pytest

from aioproducer._core import (
    Batch,
    BatchDelivery,
    BatchSettings,
    Delivery,
    Waker,
    adopt,
    observe,
    queued_delivery,
    refuse_record,
    settle_into,
)
from aioproducer.errors import DeliveryError
from aioproducer.outcome import Outcome
from aioproducer.records import RecordMetadata
from tests.state.machines import LIMITS, HandLoop, Machines

LATE = DeliveryError("late")


@pytest.fixture
def m() -> Machines:
    return Machines().introduced(1)


@pytest.fixture
def no_collector() -> Iterator[None]:
    """Where time is measured: a collection of all that pytest holds would be measured as well."""
    gc.disable()
    yield
    gc.enable()


def batch_of(loop: Any, *values: bytes, unseen: list[Any] | None = None) -> Batch:
    batch = Batch("t", 0, 1 << 20, BatchSettings(loop, unseen_log=unseen))
    for value in values:
        batch.append(None, value, None, 0)
    return batch


def test_a_delivery_is_made_by_a_send_only() -> None:
    """There is no delivery without a record."""
    with pytest.raises(TypeError, match="made by send"):
        Delivery()
    make: Any = Delivery
    empty = make.__new__(make)
    for look in (
        empty.done,
        empty.get_loop,
        empty.__repr__,
        empty.cancel,
        lambda: empty.outcome,
        lambda: empty.topic,
    ):
        with pytest.raises(TypeError, match="made by send"):
            look()


def test_deliveries_are_not_tracked_by_the_collector(m: Machines) -> None:
    """Millions of held handles cost no collector pause."""
    assert not gc.is_tracked(m.append())


def test_a_delivery_is_small(m: Machines) -> None:
    """At most 64 bytes."""
    assert m.append().__sizeof__() <= 64


def test_callbacks_run_in_the_order_of_the_records(m: Machines) -> None:
    """The order of the calls does not matter: callbacks follow the order of offsets."""
    told: list[Delivery] = []
    deliveries = [m.append(b"%d" % number) for number in range(5)]
    for delivery in (deliveries[3], deliveries[0], deliveries[4], deliveries[1], deliveries[2]):
        delivery.add_done_callback(told.append)
    m.acknowledge(m.only())
    m.loop.turn()
    assert told == deliveries


@pytest.mark.usefixtures("no_collector")
def test_giving_up_costs_the_same_among_many() -> None:
    """One handle of 20,000 of a batch is let go as fast as one of 1,000."""

    def seconds_per_cancel(total: int) -> float:
        m = Machines(limits=attrs.evolve(LIMITS, batch_size=1 << 20)).introduced(1)
        deliveries = [m.append(b"") for _ in range(total)]
        for delivery in deliveries:
            delivery.add_done_callback(lambda _: None)
        before = time.thread_time()
        for delivery in deliveries:
            delivery.cancel()
        return (time.thread_time() - before) / total

    assert min(seconds_per_cancel(20_000) for _ in range(3)) < 12 * min(
        seconds_per_cancel(1_000) for _ in range(3)
    )


def test_a_removed_callback_is_not_called(m: Machines) -> None:
    """It returns the number of removed ones."""
    told: list[Delivery] = []
    delivery = m.append()
    delivery.add_done_callback(told.append)
    assert delivery.remove_done_callback(told.append) == 1
    m.acknowledge(m.only())
    m.loop.turn()
    assert told == []


def test_settling_costs_what_waits_not_what_was_sent(m: Machines) -> None:
    """A batch without waiters is settled without touching the loop."""
    for _ in range(30):
        m.append()
    m.accumulator.flush(m.now)
    m.acknowledge(m.only())
    assert m.loop.soon == []


def test_observing_hurries_nothing(m: Machines) -> None:
    """An interceptor that watches a record does not end its linger."""
    told: list[Delivery] = []
    delivery = m.append()
    observe(delivery, told.append)
    assert m.drain() == []
    m.later(1.0)
    m.acknowledge(m.only())
    m.loop.turn()
    assert told == [delivery]


def test_a_queued_record_moves_to_its_place(m: Machines) -> None:
    """A delivery that was returned before the topic was known has the same results as that of the placed record."""
    told: list[Delivery] = []
    waiting = queued_delivery(Batch("t", -1, 0, BatchSettings(m.loop)))
    waiting.add_done_callback(told.append)
    before = waiting.partition
    settle_into(waiting, m.append(b"value"))
    assert (before, waiting.partition) == (None, 0)
    batch = m.only()
    m.answer(batch, 0, 12)
    m.loop.turn()
    assert told == [waiting]
    metadata = waiting.result()
    assert (metadata.offset, metadata.serialized_value_size) == (12, 5)


def test_metadata_is_the_tuple_that_it_equals(m: Machines) -> None:
    """Metadata that the core makes without the constructor equals, also in its hash, the one that the constructor makes."""
    made = []
    for offset in (7, 8):
        delivery = m.append(b"value")
        m.later(1.0)
        m.answer(m.only(), 0, offset)
        made.append(delivery.result())
    plain = [RecordMetadata(*metadata) for metadata in made]
    assert made == plain
    assert [hash(metadata) for metadata in made] == [hash(metadata) for metadata in plain]
    assert set(made) == set(plain)
    assert plain[0] in {made[0]: None}
    assert len(set(made)) == 2


def test_a_failed_record_that_nobody_looked_at_is_noted() -> None:
    """Dropped handles of failed records are counted, once per batch and look."""
    unseen: list[Any] = []
    batch = batch_of(HandLoop(), b"a", b"b", unseen=unseen)
    batch.fail(LATE)
    assert unseen == [batch]
    assert batch.take_unseen() == 2
    assert batch.take_unseen() == 0


def test_a_failure_that_was_looked_at_is_not_noted(m: Machines) -> None:
    """Asking for the outcome is enough."""
    delivery = m.append()
    m.machines.endings.purge(None, m.now)
    assert delivery.outcome is Outcome.NOT_WRITTEN
    del delivery
    assert m.unseen == []


def test_a_failure_whose_handle_is_dropped_later_is_noted_then(m: Machines) -> None:
    """As long as the delivery exists, its failure may still be read."""
    delivery = m.append()
    m.machines.endings.purge(None, m.now)
    assert m.unseen == []
    del delivery
    assert [batch.take_unseen() for batch in m.unseen] == [1]


# -- many records at once


def test_a_batch_delivery_knows_where_each_record_is() -> None:
    """It is done when every record is settled or refused, in whatever batches they are."""
    loop: Any = HandLoop()
    first, second = batch_of(loop, b"a"), batch_of(loop, b"b")
    many = BatchDelivery("t", 3, loop)
    for at, batch in ((0, first), (2, second)):
        handle = queued_delivery(batch)
        adopt(many, at, handle)
    refuse_record(many, 1, LATE)
    assert many.accepted == 2
    first.acknowledge(0)
    assert not many.done()
    second.acknowledge(0)
    assert many.done()


def test_many_are_woken_in_slices_and_in_order() -> None:
    """Of two batches with a thousand callbacks each, some hundreds are called in a turn, and all in their order."""
    loop = HandLoop()
    waker = Waker(loop)
    told: list[Delivery] = []
    deliveries: list[Delivery] = []
    for _ in range(2):
        batch = Batch("t", 0, 1 << 20, BatchSettings(loop, waker=waker))
        for index in range(1000):
            batch.append(None, b"", None, 0)
            placeholder_batch = Batch("t", 0, 100, BatchSettings(loop))
            deliveries.append(queued_delivery(placeholder_batch))
            placeholder_batch.forward([(batch, index)])
            deliveries[-1].add_done_callback(told.append)
        batch.acknowledge(0)
    counts = []
    while len(told) < len(deliveries):
        before = len(told)
        loop.turn()
        counts.append(len(told) - before)
    assert told == deliveries
    assert max(counts) <= 256
