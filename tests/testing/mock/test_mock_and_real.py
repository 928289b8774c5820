"""A mock and a producer on a broker do the same."""

from __future__ import annotations

from typing import Any

from aioproducer import KafkaError, Producer
from aioproducer.testing import EmbeddedKafka, MockProducer


async def told(producer: Producer[Any, Any]) -> list[Any]:
    """What a program sees of accepted and refused records, alone and in bulk."""
    seen: list[Any] = []
    for arguments in ({"value": b"1", "key": b"a"}, {"value": "2"}, {"value": b"3", "partition": -1}):
        try:
            seen.append((await producer.send_and_wait("t", **arguments, timestamp=7))[:4])
        except KafkaError as error:
            seen.append((type(error), str(error)))
    result = await (await producer.send_batch("t", [b"4", "5", b"6"], keys=[b"a", b"b", b"c"]))
    seen.append(
        (list(result.offsets), list(result.partitions), [str(error) for error in result.errors.values()])
    )
    return [*seen, await producer.flush()]


async def test_what_a_program_sees_is_the_same(kafka: EmbeddedKafka) -> None:
    """Partitions, offsets, errors and reports."""
    async with (
        Producer[Any, Any](kafka.bootstrap_servers) as real,
        MockProducer[Any, Any](partitions={"t": 2}) as mock,
    ):
        ours, theirs = await told(mock), await told(real)
    assert str(ours) == str(theirs)
    assert [record.value for record in mock.written] == [b"1", b"4", b"6"]
