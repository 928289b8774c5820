"""The numbers of epochs: in tasks, in the program that runs the query, for Spark's listeners and for Prometheus."""

from __future__ import annotations

import pickle
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import pytest
from prometheus_client import CollectorRegistry, generate_latest

from aioproducer.spark import EpochProgress, Progress, SinkListener, foreach_batch
from aioproducer.spark.prometheus import ProgressCollector
from aioproducer.spark.shipping.shipment import RowsRefusedError, Shipment, Written
from aioproducer.spark.shipping.summary import tell
from aioproducer.testing import EmbeddedKafka
from tests.spark.exactly_once.attempts import TOPIC, epoch_written, forgotten, options_for
from tests.spark.exactly_once.epochs import FILES, ROWS, folder_of_epochs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


async def test_a_task_measures_itself(kafka: EmbeddedKafka) -> None:
    """Batches (one of rows, one of the mark), times of fence, send and commit, and the longest delivery; a second task begins anew."""
    options = options_for(kafka)
    first = await epoch_written(options, 0, b"a", b"b")
    assert (first.rows, first.bytes, first.batches, first.aborted_attempts) == (2, 2, 2, 0)
    for seconds in (first.fence_seconds, first.seconds, first.commit_seconds, first.longest_delivery):
        assert 0 < seconds < 60
    again = await epoch_written(options, 0, b"a", b"b")
    assert (again.rows, again.skipped, again.batches) == (0, 2, 0)
    assert again.fence_seconds > 0
    second = await epoch_written(options, 1, b"c")
    assert second.batches == 2
    await forgotten(options)


async def test_a_transaction_without_refused_rows_counts_as_another_attempt(
    kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first one was aborted."""
    kafka.create_topic("dead", 1)
    options = options_for(kafka, **{"on.error": "dead"})
    finish = Shipment.finish
    refused = iter([True])

    async def refused_once(shipment: Shipment) -> Written:
        written = await finish(shipment)
        if next(refused, False):
            raise RowsRefusedError(rows={})
        return written

    monkeypatch.setattr(Shipment, "finish", refused_once)
    written = await epoch_written(options, 0, b"a")
    assert (written.rows, written.aborted_attempts) == (1, 1)
    assert [record.value for record in kafka.records(TOPIC)] == [b"a"]
    await forgotten(options)


def written_by_a_task(**more: Any) -> Written:
    """The result of a task in an epoch."""
    numbers = {
        "rows": 10, "bytes": 100, "batches": 2, "retried": 1, "seconds": 0.5, "fence_seconds": 0.25, "commit_seconds": 0.125,
        "longest_delivery": 0.0625,
    }  # fmt: skip
    return Written(**(numbers | more))


def test_tasks_are_added_up() -> None:
    """Counts are summed, and times are those of the slowest."""
    total = written_by_a_task(aborted_attempts=1)
    total.add(written_by_a_task(seconds=0.75, longest_delivery=1.5, aborted_attempts=2))
    assert (total.rows, total.batches, total.retried, total.aborted_attempts) == (20, 4, 2, 3)
    assert (total.seconds, total.fence_seconds, total.longest_delivery) == (0.75, 0.25, 1.5)


def test_the_line_has_them(caplog: pytest.LogCaptureFixture) -> None:
    """One line for each epoch."""
    with caplog.at_level("INFO", "aioproducer.spark"):
        tell("epoch 3: wrote", written_by_a_task(aborted_attempts=2), 1)
    (line,) = caplog.messages
    for words in (
        "2 batches", "fence 0.250 s", "commit 0.125 s", "longest delivery 0.062 s", "2 attempts aborted", "1 records sent again",
    ):  # fmt: skip
        assert words in line


def progress_of(*epochs: int, query: str | None = "q") -> Progress:
    """The progress of a query with these epochs."""
    progress = Progress()
    for epoch in epochs:
        progress.note(EpochProgress.of(written_by_a_task(), query, epoch))
    return progress


def test_the_progress_of_a_query() -> None:
    """The last epochs, the sums over all, and one of them by its number; another process has its own."""
    progress = progress_of(*range(150))
    assert progress.last is not None
    assert (progress.last.epoch, progress.epochs, len(progress.recent)) == (149, 150, 100)
    assert progress.totals()["records_acked"] == 1500
    assert progress.of("q", 120) == attrs.evolve(progress.last, epoch=120)
    assert (progress.of("q", 3), progress.of("other", 120)) == (None, None)
    assert progress.last.as_dict()["accepted_bytes"] == 100
    assert pickle.loads(pickle.dumps(progress)).epochs == 0


def test_the_page_of_prometheus() -> None:
    """A label names the query; nothing of the last epoch is there before the first."""
    registry = CollectorRegistry()
    one = progress_of(0, 1)
    one.note_failure()
    ProgressCollector({"orders": one, "new": Progress()}, registry=registry)
    lines = generate_latest(registry).decode().splitlines()
    for line in (
        'aioproducer_spark_records_acked_total{query="orders"} 20.0',
        'aioproducer_spark_accepted_bytes_total{query="orders"} 200.0',
        'aioproducer_spark_fence_seconds_total{query="orders"} 0.5',
        'aioproducer_spark_epochs_total{outcome="failed",query="orders"} 1.0',
        'aioproducer_spark_last_epoch{query="orders"} 1.0',
        'aioproducer_spark_longest_delivery_seconds{query="orders"} 0.0625',
        'aioproducer_spark_records_acked_total{query="new"} 0.0',
    ):
        assert line in lines
    assert not any(line.startswith('aioproducer_spark_last_epoch{query="new"') for line in lines)


@pytest.mark.kafka
def test_a_query_of_spark(spark: SparkSession, options: dict[str, str], tmp_path: Path) -> None:
    """Every epoch is in `progress`, and a listener gets it with Spark's own event."""
    lines = (
        spark.readStream.format("text")
        .option("maxFilesPerTrigger", 1)
        .load(str(folder_of_epochs(tmp_path / "s")))
    )
    writing = foreach_batch(spark, lines, options | {"delivery": "exactly-once"})
    found: dict[int, EpochProgress | None] = {}
    complete = threading.Event()

    def note(event: Any, epoch: EpochProgress | None) -> None:
        found[event.progress.batchId] = epoch
        if len(found) == FILES:
            complete.set()

    listener = SinkListener(note, writing.progress)
    spark.streams.addListener(listener)
    try:
        query = writing.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True).start()
        query.awaitTermination()
        assert complete.wait(60)
    finally:
        spark.streams.removeListener(listener)
    progress = writing.progress
    assert (progress.epochs, progress.totals()["records_acked"]) == (FILES, FILES * ROWS)
    assert found == {epoch.epoch: epoch for epoch in progress.recent}
    assert {epoch.query for epoch in progress.recent} == {str(query.id)}
    assert all(epoch.tasks and epoch.batches and epoch.commit_seconds for epoch in progress.recent)
