"""Judges a soak while it runs: receives the history through a pipe, and reads the log with a foreign client.

    python -m tests.soak.judge_process SERVERS TOPICS DISORDERED

It prints a line of JSON for each window.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import sys
import threading
import time
import traceback
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from tests.judge.history import Found, Sent, found
from tests.soak.judging import history_format
from tests.soak.judging.history_format import Mark
from tests.soak.judging.windows import Verdict, Windows

_BATCH: Final = 5_000
_POLL: Final = 0.05
_ANSWER_LIMIT: Final = 10.0
_SHOWN: Final = 20
_FINAL: Final = frozenset(
    {KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._BAD_MSG, KafkaError._FATAL}
)
"""Errors after which the log cannot be read in full; librdkafka recovers from all others."""


class Reader:
    """A foreign consumer that follows every partition from its beginning."""

    def __init__(self, servers: str, topics: dict[str, int]) -> None:
        quiet = logging.getLogger("soak.reader")
        quiet.addHandler(logging.NullHandler())
        quiet.propagate = False
        settings = {
            "bootstrap.servers": servers,
            "group.id": "soak",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "check.crcs": True,
            "fetch.wait.max.ms": 100,
            "reconnect.backoff.max.ms": 500,
            # A silent broker does not answer a fetch: the reader asks again after this time (default: 60 s).
            "socket.timeout.ms": 2_000,
            "queued.max.messages.kbytes": 16_384,
            "topic.metadata.refresh.interval.ms": 5_000,
        }
        self._consumer = Consumer(settings, logger=quiet)
        self.next = {(topic, index): 0 for topic, count in topics.items() for index in range(count)}
        self._consumer.assign([TopicPartition(topic, index, 0) for topic, index in self.next])

    def read(self) -> list[Found]:
        """The new records."""
        records = [
            _found(message) for message in self._consumer.consume(_BATCH, _POLL) if _is_record(message)
        ]
        for record in records:
            self.next[record.topic, record.partition] = record.offset + 1
        return records

    def ends(self, until: float) -> dict[tuple[str, int], int]:
        """The offset after the last record of each partition, as the brokers report it now."""
        return {(topic, index): self._end(TopicPartition(topic, index), until) for topic, index in self.next}

    def _end(self, place: TopicPartition, until: float) -> int:
        # On a busy machine a request may take longer than its limit: it is repeated.
        while True:
            limit = min(_ANSWER_LIMIT, max(_POLL, until - time.monotonic()))
            try:
                offsets = self._consumer.get_watermark_offsets(place, timeout=limit)
            except KafkaException:
                offsets = None
            if offsets is not None:
                return int(offsets[1])
            if time.monotonic() > until:
                raise TimeoutError(f"no broker reported the end of {place.topic}-{place.partition}")

    def close(self) -> None:
        """Close the consumer."""
        self._consumer.close()


def _is_record(message: Message) -> bool:
    error = message.error()
    if error is not None and error.code() in _FINAL:
        raise KafkaException(error)
    return error is None


def _found(message: Message) -> Found:
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    assert topic is not None
    assert partition is not None
    assert offset is not None
    headers: Any = message.headers() or ()
    key: Any = message.key()
    value: Any = message.value()
    return found(topic, partition, offset, key, value, headers, None)


class RunningJudge:
    """Receives the history and the log, and judges a window as soon as both are there."""

    def __init__(self, reader: Reader, disordered: frozenset[str]) -> None:
        self._reader = reader
        self._windows = Windows(disordered)
        self._history: queue.SimpleQueue[Sent | Mark] = queue.SimpleQueue()
        self._marks: list[tuple[Mark, float]] = []
        self._gone = False

    def run(self) -> None:
        """Run until the last window is judged, or the soak has ended."""
        listener = threading.Thread(target=self._listen)
        listener.start()
        while not self._gone:
            self._take_history()
            self._read()
            if self._marks and self._ready(*self._marks[0]):
                mark, _ = self._marks.pop(0)
                if mark.last:
                    self._read_to_the_end(mark)
                self._judge(mark)
                self._gone = mark.last
        # The pipe ends when the soak has read the last verdict; a thread inside a read would keep Python from ending.
        listener.join()

    def _listen(self) -> None:
        for part in history_format.read(sys.stdin.buffer):
            self._history.put(part)
        # A pipe that ends without the last mark: the soak's process has died.
        self._gone = True

    def _take_history(self) -> None:
        while not self._history.empty():
            part = self._history.get()
            if isinstance(part, Mark):
                self._marks.append((part, time.monotonic() + part.timeout))
            else:
                self._windows.add(part)

    def _read(self) -> None:
        for record in self._reader.read():
            self._windows.read(record)

    def _ready(self, mark: Mark, until: float) -> bool:
        return self._windows.complete(mark.below) or time.monotonic() > until

    def _read_to_the_end(self, mark: Mark) -> None:
        until = time.monotonic() + mark.timeout
        ends = self._reader.ends(until)
        while any(self._reader.next[place] < end for place, end in ends.items()) and time.monotonic() < until:
            self._read()

    def _judge(self, mark: Mark) -> None:
        verdict = self._windows.judge(mark.below, mark.slack)
        print(json.dumps(self._as_json(mark, verdict)), flush=True)

    def _as_json(self, mark: Mark, verdict: Verdict) -> dict[str, Any]:
        return {
            "below": mark.below,
            "last": mark.last,
            "records": verdict.records,
            "in_log": verdict.in_log,
            "anomalies": {anomaly.name: count for anomaly, count in verdict.anomalies.items()},
            "findings": [str(finding) for finding in verdict.findings[:_SHOWN]],
            "offsets": self._windows.offsets(),
            "held": self._windows.held,
        }


def main(servers: str, topics: str, disordered: str) -> None:
    """Judge one soak."""
    reader = Reader(servers, json.loads(topics))
    try:
        RunningJudge(reader, frozenset(json.loads(disordered))).run()
    except BaseException:  # noqa: BLE001 - the process ends with it
        # The listening thread would keep the process alive, and the soak would wait for a verdict without end.
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    reader.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
