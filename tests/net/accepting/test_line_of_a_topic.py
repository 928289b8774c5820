"""A send that could be accepted at once does not pass waiting calls of its topic."""

from __future__ import annotations

import asyncio

import pytest

from aioproducer import BufferFullError, MetadataTimeoutError
from aioproducer.testing import EmbeddedKafka
from tests.net.support import Make, all_acked, engine, turns, until, warm


async def test_no_send_passes_one_that_waits_for_a_partition(make: Make, kafka: EmbeddedKafka) -> None:
    """The partition of the first record does not exist (yet): the second waits behind it, though there is room for it."""
    producer = await warm(make(kafka), "one")
    first = asyncio.ensure_future(producer.send("one", b"1", partition=7, max_block=0.2))
    await until(lambda: engine(producer).admission.calls.waiting)
    second = asyncio.ensure_future(producer.send("one", b"2"))
    await turns(10)
    assert not first.done()
    assert not second.done()
    with pytest.raises(BufferFullError, match="wait ahead of this one"):
        producer.send_nowait("one", b"3")
    with pytest.raises(MetadataTimeoutError):
        await first
    assert await all_acked([await second])
