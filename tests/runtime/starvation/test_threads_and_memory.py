"""Threads that are not to be had, and memory that is not: executors that are full or gone, compressors that fail."""

from __future__ import annotations

import asyncio
import concurrent.futures
import copy
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import anyio.to_thread
import pytest

from aioproducer import DeliveryError, Outcome, Producer
from aioproducer._codecs import compress
from aioproducer._net.connecting.connection.connection import Connection
from aioproducer._wire.codec import decode_response
from aioproducer._wire.messages.init_producer_id import InitProducerIdResponse
from aioproducer._wire.messages.metadata import MetadataResponse
from aioproducer.testing import EmbeddedKafka
from tests.net.conftest import QUICK
from tests.net.support import LIMIT, Make, engine, memory_in_use, until, warm
from tests.runtime.support import History, run_program, sound

COMPRESS = "aioproducer._net.producing.compression.compress"
CODECS = ["gzip", "snappy", "lz4", "zstd"]

# -- F19: memory and compressors


@pytest.mark.parametrize("error", [MemoryError(), ImportError("no such codec"), KeyError(4)], ids=repr)
@pytest.mark.parametrize("size", [10, 20_000], ids=["in the loop", "in a thread"])
async def test_f19_compressor_that_fails_now_and_then(
    size: int, error: Exception, make: Make, kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each batch whose compression fails is NOT_WRITTEN, alone; all others are written, in order, as the judge sees it."""
    calls = 0

    def fragile(plain: bytes, codec: int, level: int | None) -> bytes:
        nonlocal calls
        calls += 1
        if calls % 3 == 0:
            raise error
        return compress(plain, codec, level)

    monkeypatch.setattr(COMPRESS, fragile)
    producer = await warm(make(kafka, compression_type="lz4", batch_size=1), "one")
    history = History()
    for value in [history.value(bytes(size)) for _ in range(30)]:
        delivery = await producer.send("one", value)
        if await delivery.wait(LIMIT) is not Outcome.ACKED:
            failed = delivery.exception()
            assert isinstance(failed, DeliveryError)
            assert failed.cause is error
        history.accepted(value, delivery)
    history.check(kafka, ["one"])
    assert [sent.outcome for sent in history.sent].count(Outcome.NOT_WRITTEN) == 10
    monkeypatch.undo()
    await sound(producer)


NO_CODECS = """
import asyncio, sys
from aioproducer import KafkaError, Producer
from aioproducer.testing import EmbeddedKafka
sys.modules["cramjam"] = None

async def main():
    async with EmbeddedKafka() as kafka:
        async with Producer(kafka.bootstrap_servers, compression_type="zstd", linger_ms=0) as producer:
            try:
                await producer.send_and_wait("one", b"v")
            except KafkaError as error:
                print(error.outcome.name, "cramjam" in str(error), producer.health().state)

asyncio.run(main())
"""


def test_f19_compressor_that_is_missing() -> None:
    """Without the codecs' library the batch is not written, the error names the package, and the producer goes on."""
    assert run_program(NO_CODECS).stdout == "NOT_WRITTEN True running\n"


LITTLE_MEMORY = """
import asyncio, resource
from aioproducer import KafkaError, Outcome, Producer
from aioproducer.testing import EmbeddedKafka
from tests.judge.judge import judge
from tests.runtime.support import History, log_of

def limit(extra):
    with open("/proc/self/statm") as statm:
        pages = int(statm.read().split()[0])
    size = resource.RLIM_INFINITY if extra is None else pages * resource.getpagesize() + extra
    resource.setrlimit(resource.RLIMIT_AS, (size, resource.RLIM_INFINITY))

async def main():
    failures, history, sent = 0, History(), []
    settings = dict(batch_size={batch_size}, buffer_memory=500_000_000, max_request_size=90_000_000, linger_ms=5)
    async with EmbeddedKafka() as kafka:
        async with Producer(kafka.bootstrap_servers, topics=["one"], **settings) as producer:
            await producer.send_and_wait("one", b"first")
            for _ in range(3):
                values = [history.value(bytes(size)) for size in (10, 1000, 40_000_000, 10)]
                limit(10_000_000)
                for value in values:
                    try:
                        sent.append((value, await producer.send("two", value)))
                    except MemoryError:
                        failures += 1
                        history.refused(value[:8], "two")
                limit(None)
                await producer.flush()
            for value, delivery in sent:
                history.accepted(value, delivery)
            print(failures, [str(finding) for finding in judge(history.sent, log_of(kafka, ["two"]))])
            await producer.send_and_wait("one", b"last")
            print(producer.stats().bytes_buffered, producer.health().state)

asyncio.run(main())
"""


@pytest.mark.parametrize("batch_size", [1_000, 16_384])
def test_f19_no_memory_for_a_batch(batch_size: int) -> None:
    """Where a batch cannot be built, send() raises MemoryError; the records round it are written, and it goes on."""
    done = run_program(LITTLE_MEMORY.format(batch_size=batch_size))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["3 []", "0 running"]


async def test_f19_no_memory_to_settle_an_answer(
    make: Make, kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record that was written is never called NOT_WRITTEN because its answer could not be dealt with."""
    producer = await warm(make(kafka), "one")

    def no_memory(*_: Any, **__: Any) -> None:
        raise MemoryError

    monkeypatch.setattr(engine(producer).machines.losses.outcomes, "_contexts_of", no_memory)
    engine(producer).effects.reports_outcomes = True
    delivery = await producer.send("one", b"v")
    assert await delivery.wait(LIMIT) is Outcome.UNKNOWN
    assert len(kafka.records("one")) == 1
    assert producer.health().state == "failed"


async def test_f19_no_memory_to_read_an_answer(
    make: Make, kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batches of the request are sent again, and their partitions go on; they waited without end."""
    producer = await warm(make(kafka), "one")
    unread = 1

    def once(*arguments: Any) -> Any:
        nonlocal unread
        if unread:
            unread -= 1
            raise MemoryError
        return decode_response(*arguments)

    monkeypatch.setattr("aioproducer._net.producing.exchange.decode_response", once)
    delivery = await producer.send("one", b"v")
    assert await delivery.wait(LIMIT) is Outcome.ACKED
    assert not unread
    assert [record.value for record in kafka.records("one")].count(b"v") == 1
    await sound(producer)


@pytest.mark.parametrize("answer", [MetadataResponse, InitProducerIdResponse])
async def test_f19_no_memory_to_read_an_answer_about_the_cluster(
    make: Make, kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch, answer: type[Any]
) -> None:
    """The request is made again over another connection; the producer ended by it."""
    unread = 1

    def once(response_type: type[Any], *arguments: Any) -> Any:
        nonlocal unread
        if unread and response_type is answer:
            unread -= 1
            raise MemoryError
        return decode_response(response_type, *arguments)

    monkeypatch.setattr("aioproducer._net.connecting.connection.asking.decode_response", once)
    producer = make(kafka)
    await producer.start()
    delivery = await producer.send("one", b"v")
    assert await delivery.wait(LIMIT) is Outcome.ACKED
    assert not unread
    await sound(producer)


async def test_f19_no_memory_for_the_error_of_a_request_either(
    make: Make, kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The task that waits for the answer gets the error of the connection itself; it waited without end."""
    missing = 2

    def without_memory() -> None:
        nonlocal missing
        if missing:
            missing -= 1
            raise MemoryError

    def decoded(response_type: type[Any], *arguments: Any) -> Any:
        if response_type is MetadataResponse:
            without_memory()
        return decode_response(response_type, *arguments)

    def copied(error: Exception) -> Exception:
        without_memory()
        return copy.copy(error)

    asking = "aioproducer._net.connecting.connection.asking."
    monkeypatch.setattr(asking + "decode_response", decoded)
    monkeypatch.setattr(asking + "copy", SimpleNamespace(copy=copied))
    producer = make(kafka)
    await producer.start()
    delivery = await producer.send("one", b"v")
    assert await delivery.wait(LIMIT) is Outcome.ACKED
    assert not missing
    await sound(producer)


async def test_f19_an_interrupt_while_a_lost_request_is_settled(
    make: Make, kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The producer ends, as by an interrupt while an answer is settled: the batches would be in flight without end."""
    producer = await warm(make(kafka), "one")

    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(engine(producer).machines.settlement, "lost", interrupt)
    kafka.faults.silence(api="Produce")
    delivery = await producer.send("one", b"v")

    def busy() -> list[Connection]:
        links = [sender.link for sender in engine(producer).senders.values() if sender.link is not None]
        return [link.connection for link in links if link.connection.in_flight]

    await until(busy)
    with pytest.raises(KeyboardInterrupt):
        busy()[0].close()
    assert await delivery.wait(LIMIT) is Outcome.UNKNOWN
    assert producer.health().state == "failed"


# -- F23: executors


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """The event that blocking jobs wait for."""
    event = threading.Event()
    yield event
    event.set()


def block_default_executor(gate: threading.Event) -> concurrent.futures.ThreadPoolExecutor:
    """Fill every thread that the loop's default executor has, and its queue."""
    executor = concurrent.futures.ThreadPoolExecutor(2)
    loop = asyncio.get_running_loop()
    loop.set_default_executor(executor)
    for _ in range(50):
        executor.submit(gate.wait)
    return executor


@pytest.mark.parametrize("how", ["full", "shut down", "shut down by the loop"])
async def test_f23_default_executor(how: str, kafka: EmbeddedKafka, gate: threading.Event) -> None:
    """A default executor that is full, or gone, keeps nothing up: names are looked up, batches are compressed."""
    executor = block_default_executor(gate)
    if how == "shut down":
        executor.shutdown(wait=False)
    elif how == "shut down by the loop":
        gate.set()
        await asyncio.get_running_loop().shutdown_default_executor()
    settings: dict[str, Any] = {**QUICK, "compression_type": "gzip", "client_dns_lookup": "use_all_dns_ips"}
    async with Producer[Any, Any](f"localhost:{kafka.brokers[0].port}", **settings) as producer:
        for _ in range(3):
            await asyncio.wait_for(producer.send_and_wait("one", bytes(50_000)), LIMIT)
        kafka.faults.drop_connections(1)
        await asyncio.wait_for(producer.send_and_wait("one", bytes(50_000)), LIMIT)
    gate.set()
    executor.shutdown()
    assert len(kafka.records("one")) == 4


@pytest.mark.parametrize("codec", CODECS)
async def test_f23_all_threads_of_anyio_are_taken(
    codec: str, make: Make, kafka: EmbeddedKafka, gate: threading.Event
) -> None:
    """Jobs that fill anyio's own limit of threads do not hold up compression."""
    limiter = anyio.to_thread.current_default_thread_limiter()
    jobs = [
        asyncio.ensure_future(anyio.to_thread.run_sync(gate.wait)) for _ in range(int(limiter.total_tokens))
    ]
    await until(lambda: not limiter.available_tokens)
    producer = await warm(make(kafka, compression_type=codec), "one")
    await asyncio.wait_for(producer.send_and_wait("one", bytes(50_000)), LIMIT)
    assert memory_in_use(producer) == 0
    gate.set()
    await asyncio.gather(*jobs)
