"""aioproducer: one task that awaits each `send()` for a longer time; deliveries are read after every 200,000 records."""

from __future__ import annotations

import threading
import time

from prometheus_client import CollectorRegistry, generate_latest

from aioproducer import Delivery, Producer
from aioproducer.prometheus import ProducerCollector
from benchmarks.clients.ours import make_producer, offsets_of, own_version, run
from benchmarks.measure import Offsets, Round, Stopwatch, Work, check_offsets, no_offsets

# The memory for the deliveries of a minute would be the larger cost.
_SHARE = 200_000


async def _send_all(producer: Producer, one: Work, count: int) -> Offsets:
    offsets, send, topic = no_offsets(), producer.send, one.topic
    for begin in range(0, count, _SHARE):
        values = one.values(min(_SHARE, count - begin))
        kept: list[Delivery] = [await send(topic, value) for value in values]
        (await producer.flush()).raise_for_errors()
        for partition, numbers in offsets_of(kept).items():
            offsets[partition].extend(numbers)
    return offsets


class _Scrapes:
    """Scrapes a producer from a thread of its own, so many times a second; not at all for 0."""

    def __init__(self, producer: Producer, a_second: int) -> None:
        self.count = 0
        self.seconds = 0.0
        self._registry = CollectorRegistry()
        self._collector = ProducerCollector(producer, registry=self._registry)
        self._a_second = a_second
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        while not self._stop.wait(1 / self._a_second):
            began = time.thread_time()
            generate_latest(self._registry)
            self.seconds += time.thread_time() - began
            self.count += 1

    def __enter__(self) -> None:
        if self._a_second:
            self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._a_second:
            self._thread.join()

    def figures(self) -> dict[str, float]:
        """The number of scrapes, and the processor time of each."""
        return {"scrapes": self.count, "scrape_ms": self.seconds / max(1, self.count) * 1e3}


async def _program(one: Work) -> Round:
    async with make_producer(one) as producer:
        check_offsets(await _send_all(producer, one, one.warm_up), one.warm_up)
        scrapes = _Scrapes(producer, one.scrapes)
        with scrapes, Stopwatch() as watch:
            offsets = await _send_all(producer, one, one.records)
        check_offsets(offsets, one.records)
    return watch.round(one.records, own_version(), **scrapes.figures())


if __name__ == "__main__":
    run(_program)
