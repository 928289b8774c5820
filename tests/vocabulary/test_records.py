"""Facts about records: defaults, counts, and when a report raises."""

from __future__ import annotations

import pickle
from array import array

import attrs
import pytest

from aioproducer.errors import BrokerError, DeliveryError, DeliveryTimeoutError
from aioproducer.records import (
    BatchResult,
    CloseReport,
    FlushReport,
    Health,
    Histogram,
    Outcome,
    PartitionInfo,
    Record,
    RecordMetadata,
    Stats,
    TimestampType,
    Timings,
    TopicPartition,
)


def test_metadata_is_a_tuple_of_seven() -> None:
    """`RecordMetadata` unpacks in the documented order, and a plain one has CreateTime and unknown sizes."""
    metadata = RecordMetadata("orders", 1, 42, 1_700_000_000_000)
    topic, partition, offset, timestamp, kind, key_size, value_size = metadata
    assert (topic, partition, offset, timestamp) == ("orders", 1, 42, 1_700_000_000_000)
    assert (kind, key_size, value_size) == (TimestampType.CREATE_TIME, -1, -1)


def test_metadata_says_whether_it_has_an_offset() -> None:
    """Offset 0 is an offset, -1 is none."""
    assert RecordMetadata("t", 0, 0, 0).has_offset
    assert not RecordMetadata("t", 0, -1, 0).has_offset


def test_topic_partition_is_equal_to_its_pair() -> None:
    """A `TopicPartition` can be looked up as a plain pair."""
    assert TopicPartition("orders", 3) == ("orders", 3)
    assert hash(TopicPartition("orders", 3)) == hash(("orders", 3))


@pytest.mark.parametrize(
    "fact",
    [
        PartitionInfo(0, None),
        Record("orders", b"v", key=b"k", headers=[("h", None)]),
        Timings(),
        FlushReport(first_errors=(DeliveryTimeoutError(),)),
        CloseReport(),
        BatchResult(),
        Health("running"),
        Stats(),
    ],
    ids=lambda fact: type(fact).__name__,
)
def test_facts_are_frozen_and_small(fact: object) -> None:
    """No fact can be changed, has a dict, or is lost by a pickle."""
    first = attrs.fields(type(fact))[0].name  # type: ignore[arg-type]
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        setattr(fact, first, 1)
    assert not hasattr(fact, "__dict__")
    assert repr(pickle.loads(pickle.dumps(fact))) == repr(fact)


def test_record_takes_topic_and_value_by_place() -> None:
    """Only topic and value are positional, so that a key is never taken for a partition."""
    assert Record("orders", b"v").value == b"v"
    with pytest.raises(TypeError):
        Record("orders", b"v", b"k")  # type: ignore[call-arg]


def test_report_of_success_does_not_raise() -> None:
    """`raise_for_errors()` is silent when all was acknowledged, or there was nothing."""
    FlushReport(acked=5).raise_for_errors()
    FlushReport().raise_for_errors()
    BatchResult(acked=5).raise_for_errors()


@pytest.mark.parametrize(
    "report", [FlushReport(acked=1, not_written=1), BatchResult(acked=1, unknown=1)], ids=repr
)
def test_report_of_loss_raises_even_without_the_error(report: FlushReport | BatchResult) -> None:
    """A count that is not zero is enough: a loss never passes in silence."""
    with pytest.raises(DeliveryError, match="1 of 2 records were not acknowledged"):
        report.raise_for_errors()


def test_raised_error_tells_counts_and_first_cause() -> None:
    """The error counts what failed, has the first failure as cause, and takes its place and retriability."""
    first = BrokerError(code=10, name="MESSAGE_TOO_LARGE", topic="orders", partition=2)
    with pytest.raises(DeliveryError, match=r"3 of 10 .* 2 not written, 1 unknown") as caught:
        FlushReport(acked=7, not_written=2, unknown=1, first_errors=(first,)).raise_for_errors()
    assert caught.value.cause is first
    assert caught.value.outcome is Outcome.UNKNOWN
    assert (caught.value.topic, caught.value.partition, caught.value.retriable) == ("orders", 2, False)


def test_batch_raises_for_the_lowest_index() -> None:
    """The cause is the failure that comes first in the batch, not the one that came first in time."""
    late, early = DeliveryTimeoutError(), DeliveryTimeoutError()
    with pytest.raises(DeliveryError) as caught:
        BatchResult(errors={9: late, 4: early}, not_written=2).raise_for_errors()
    assert caught.value.cause is early
    assert caught.value.outcome is Outcome.NOT_WRITTEN


def test_histogram_counts_and_means() -> None:
    """The count is the sum of the buckets, and the mean is of the values, not of the buckets."""
    histogram = Histogram(bounds=(1.0, 2.0), counts=(1, 2, 1), total=10.0)
    assert histogram.count == 4
    assert histogram.mean == 2.5
    assert Histogram.empty((1.0,)).mean is None


@pytest.mark.parametrize(
    ("fraction", "bound"), [(0.0, 1.0), (0.25, 1.0), (0.5, 2.0), (0.75, 2.0), (1.0, float("inf"))]
)
def test_histogram_quantile_is_the_bound_of_its_bucket(fraction: float, bound: float) -> None:
    """A quantile is reported as the upper bound of the bucket that holds it."""
    assert Histogram(bounds=(1.0, 2.0), counts=(1, 2, 1)).quantile(fraction) == bound
    assert Histogram.empty((1.0,)).quantile(fraction) is None


def test_empty_stats_have_one_count_more_than_bounds() -> None:
    """Every histogram of a snapshot has a bucket for values above all bounds, and rising bounds."""
    stats = Stats()
    for histogram in (stats.queue_time, stats.request_time, stats.batch_size, stats.compression_ratio):
        assert len(histogram.counts) == len(histogram.bounds) + 1
        assert list(histogram.bounds) == sorted(set(histogram.bounds))


def test_numbers_of_a_result_become_lists_when_looked_at() -> None:
    """A result made of arrays equals one made of lists, gives lists, the same each time, and survives pickling."""
    compact = BatchResult(offsets=array("q", [5, -1]), partitions=array("q", [0, -1]), acked=1, unknown=1)
    copied = pickle.loads(pickle.dumps(compact))
    assert compact == copied == BatchResult(offsets=[5, -1], partitions=[0, -1], acked=1, unknown=1)
    assert (compact.offsets, compact.partitions) == ([5, -1], [0, -1])
    assert compact.offsets is compact.offsets
    assert copied.offsets == [5, -1]
