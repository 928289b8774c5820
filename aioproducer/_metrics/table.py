"""The table of all metrics: name, kind, labels besides `client_id`, meaning."""

from __future__ import annotations

import enum
from typing import Final

import attrs

__all__ = ["METRICS", "Kind", "Merge", "Metric"]


class Kind(enum.Enum):
    """The kind of a metric."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Merge(enum.Enum):
    """The value of a gauge for several producers of one `client_id`."""

    SUM = "sum"
    MOST = "most"
    LEAST = "least"


@attrs.frozen
class Metric:
    """One metric; counters and histograms of several producers are summed."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    merge: Merge = Merge.SUM


_TOPIC: Final = ("topic",)
_BROKER: Final = ("broker",)


def _counters(labels: tuple[str, ...], **helps: str) -> tuple[Metric, ...]:
    return tuple(Metric(name, Kind.COUNTER, text, labels) for name, text in helps.items())


def _gauges(merge: Merge, labels: tuple[str, ...] = (), **helps: str) -> tuple[Metric, ...]:
    return tuple(Metric(name, Kind.GAUGE, text, labels, merge) for name, text in helps.items())


def _histograms(labels: tuple[str, ...] = (), **helps: str) -> tuple[Metric, ...]:
    return tuple(Metric(name, Kind.HISTOGRAM, text, labels) for name, text in helps.items())


METRICS: Final = (
    *_counters(
        (),
        records_accepted="Records that send() and its siblings have accepted.",
        accepted_bytes="Bytes of the accepted records before compression.",
    ),
    *_counters(
        _TOPIC,
        records_acked="Records that were written.",
        acked_bytes="Bytes of the written batches, after compression.",
        records_retried="Records that were sent again, once for each repetition.",
        batches="Attempts to write a batch.",
    ),
    *_counters(
        ("topic", "error", "outcome"),
        records_failed="Records that failed, by the name of the error; outcome: not_written, or unknown.",
    ),
    *_counters(_TOPIC, dead_letters="Records that were set aside, by the topic that they were meant for."),
    *_counters(
        (),
        batches_split="Batches that a broker refused as too large and that were sent in parts.",
        suspected_data_losses="Partitions whose offsets went back, so that acknowledged records may be lost.",
        memory_waits="Calls that waited for buffer memory.",
        memory_wait_seconds="Seconds that calls waited for buffer memory.",
        metadata_waits="Calls that waited for metadata of their topic.",
        metadata_wait_seconds="Seconds that calls waited for metadata of their topic.",
        loop_stalls="Turns of the event loop of 100 ms or more that delayed the producer.",
        loop_stall_seconds="Seconds of these turns.",
    ),
    *_counters(
        _BROKER,
        requests="Requests to the broker.",
        request_errors="Requests without a usable answer.",
        sent_bytes="Bytes sent to the broker.",
        received_bytes="Bytes received from the broker.",
        throttle_seconds="Seconds of the pauses that the broker asked for.",
        connects="Connections that were opened.",
        connect_failures="Connections that could not be opened or were given up.",
    ),
    *_counters(("outcome",), transactions="Transactions that ended: committed, aborted, or unknown."),
    *_gauges(
        Merge.SUM,
        buffered_records="Records in memory that are not in flight.",
        buffered_bytes="Bytes of buffer memory in use, without those in flight.",
        buffer_memory_bytes="The limit of buffer memory.",
        in_flight_records="Records in requests without an answer.",
        in_flight_bytes="Bytes of records in requests without an answer.",
        waiting_calls="Calls that wait for buffer memory or metadata.",
    ),
    *_gauges(
        Merge.MOST,
        oldest_unacked_seconds="For how long the oldest record without an outcome has waited.",
        seconds_since_last_ack="Seconds since the last record was written.",
        metadata_age_seconds="Seconds since metadata was last read.",
    ),
    *_gauges(
        Merge.LEAST,
        ready="1 if the producer can write: running, metadata read, a broker within reach, no record too late.",
        live="0 if the producer has failed and must be replaced.",
    ),
    *_gauges(Merge.SUM, _BROKER, requests_in_flight="Requests without an answer."),
    *_gauges(Merge.MOST, ("broker", "address"), connection_up="1 if connected or throttled, 0 otherwise."),
    *_histograms(
        queue_time_seconds="Time of a batch from its opening until it is sent.",
        delivery_time_seconds="Time of a batch from its opening to its outcome.",
        batch_size_bytes="Size of a batch as it is sent.",
        batch_records="Records in a batch.",
        compression_ratio="Compressed size of a batch over its uncompressed size.",
        transaction_commit_seconds="Time from the call of a commit to its success.",
    ),
    *_histograms(_BROKER, request_time_seconds="Time from a request to its answer."),
)
"""All metrics, in the order of a page. The facts of a producer that never change are not among them."""
