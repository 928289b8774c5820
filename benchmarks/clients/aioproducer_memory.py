"""aioproducer: the memory of a buffered record and its held delivery, without its value."""

from __future__ import annotations

import gc

from aioproducer import Delivery
from benchmarks.clients.ours import make_producer, own_version, resident, run
from benchmarks.measure import Round, Stopwatch, Work

_HOUR_MS = 3_600_000
_MUCH = 1 << 30


async def _program(one: Work) -> Round:
    # Nothing is sent before the flush: the batch limit exceeds the data.
    patient = {
        "linger_ms": _HOUR_MS,
        "batch_size": _MUCH // 4,
        "buffer_memory": _MUCH,
        "max_request_size": _MUCH // 4,
        "delivery_timeout_ms": 2 * _HOUR_MS,
    }
    held: list[Delivery | None] = [None] * one.records
    async with make_producer(one, **patient) as producer:
        await producer.partitions_for(one.topic)
        gc.collect()
        before = resident()
        with Stopwatch() as watch:
            for number, value in enumerate(one.values(one.records)):
                held[number] = await producer.send(one.topic, value)
        grown = resident() - before
        if producer.stats().records_buffered != one.records:
            raise SystemExit("not all records are buffered: the memory of a buffered record is not known")
        producer.purge()
    return watch.round(one.records, own_version(), bytes_per_record=grown / one.records - one.value_size)


if __name__ == "__main__":
    run(_program)
