"""aioproducer with its default settings: `send_and_wait` of single records at a pace."""

from __future__ import annotations

from aioproducer import Producer
from benchmarks.clients.ours import own_version, run
from benchmarks.clients.pace import paced
from benchmarks.credentials import own_security
from benchmarks.measure import Round, Work


async def _program(one: Work) -> Round:
    async with Producer(one.bootstrap_servers, **own_security(one.authority)) as producer:

        async def write(value: bytes) -> tuple[int, int]:
            metadata = await producer.send_and_wait(one.topic, value)
            return metadata.partition, metadata.offset

        return await paced(write, one, own_version())


if __name__ == "__main__":
    run(_program)
