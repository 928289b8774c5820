"""A mock and a producer on a broker give the same results."""

from __future__ import annotations

from typing import Any

from aioproducer import KafkaError, Producer
from aioproducer.testing import EmbeddedKafka, MockProducer


async def outcomes(producer: Producer[Any, Any]) -> list[Any]:
    """The outcomes of accepted and refused records, alone and in bulk, as a program sees them."""
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
    """Partitions, offsets, errors and reports are the same."""
    async with (
        Producer[Any, Any](kafka.bootstrap_servers) as real,
        MockProducer[Any, Any](partitions={"t": 2}) as mock,
    ):
        ours, theirs = await outcomes(mock), await outcomes(real)
    assert str(ours) == str(theirs)
    assert [record.value for record in mock.written] == [b"1", b"4", b"6"]
