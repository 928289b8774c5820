"""aioproducer: one task that awaits each `send()` for a longer time; deliveries are read after every 200,000 records."""

from __future__ import annotations

from aioproducer import Delivery, Producer
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


async def _program(one: Work) -> Round:
    async with make_producer(one) as producer:
        check_offsets(await _send_all(producer, one, one.warm_up), one.warm_up)
        with Stopwatch() as watch:
            offsets = await _send_all(producer, one, one.records)
        check_offsets(offsets, one.records)
    return watch.round(one.records, own_version())


if __name__ == "__main__":
    run(_program)
