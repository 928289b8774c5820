"""A foreign reader of committed records that follows a topic while it is written, and checks each record on arrival."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, Self

import attrs
from confluent_kafka import Consumer, TopicPartition

from tests.kafka.reading import _bytes, _known

_AT_ONCE: Final = 1_000


@attrs.define(eq=False)
class Watcher:
    """`with Watcher(...) as watcher:` reads in a thread; `expected(partition, number)` is the value of each record."""

    servers: str
    topic: str
    partitions: int
    expected: Callable[[int, int], bytes]
    seen: list[int] = attrs.field(init=False)
    """The number of correct records of each partition."""
    wrong: list[str] = attrs.field(factory=list, init=False)
    _stopping: threading.Event = attrs.field(factory=threading.Event, init=False)
    _thread: threading.Thread = attrs.field(init=False)

    def __enter__(self) -> Self:
        self.seen = [0] * self.partitions
        self._thread = threading.Thread(target=self._watch, name=f"watcher of {self.topic}")
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stopping.set()
        self._thread.join()

    @property
    def total(self) -> int:
        """The number of records seen; raises as soon as one was wrong."""
        assert self.wrong == []
        return sum(self.seen)

    def _watch(self) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self.servers,
                "group.id": f"watcher-of-{self.topic}",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "check.crcs": True,
                "fetch.wait.max.ms": 20,
                # The topic is read to its end before a killed broker is back.
                "reconnect.backoff.max.ms": 500,
            }
        )
        try:
            consumer.assign([TopicPartition(self.topic, place, 0) for place in range(self.partitions)])
            while not self._stopping.is_set() and not self.wrong:
                for message in consumer.consume(_AT_ONCE, timeout=0.05):
                    # Errors are about brokers that are gone: the consumer continues by itself.
                    if message.error() is None:
                        self._check(_known(message.partition()), _bytes(message.value()))
        finally:
            consumer.close()

    def _check(self, partition: int, value: bytes | None) -> None:
        number = self.seen[partition]
        if value == self.expected(partition, number):
            self.seen[partition] += 1
        elif len(self.wrong) < 10:
            self.wrong.append(f"partition {partition}, record {number} in order: found {value!r}")
