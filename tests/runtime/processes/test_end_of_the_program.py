"""Producers that were never closed: dropped, in a cycle, from another thread, or alive when the interpreter ends."""

from __future__ import annotations

import asyncio
import gc
import sys
import time
import weakref
from typing import Any

import pytest

from aioproducer import Outcome, Producer
from aioproducer.testing import EmbeddedKafka
from tests.net.conftest import QUICK
from tests.net.support import LIMIT, turns, until, warm
from tests.runtime.support import ROOT, no_task_left, run_program, tasks_of_the_library
from tests.slowness import SLOWNESS

BUSY_MACHINE = 10.0 * SLOWNESS
"""Seconds that it may take to end an interpreter beside other work (3.7 were seen at a load of 20); alone it takes a tenth of one."""

# -- F10: dropped


class Holder:
    """Holds a producer in a cycle."""

    def __init__(self, producer: Producer[Any, Any]) -> None:
        self.producer = producer
        self.me = self


async def holder_of(kafka: EmbeddedKafka) -> tuple[Holder, list[Any]]:
    """A producer in a cycle, with a record in flight and one that is buffered."""
    producer = await warm(Producer(kafka.bootstrap_servers, **{**QUICK, "linger_ms": 60_000}), "one", "four")
    hold = kafka.faults.delay(times=None)
    flying = await producer.send("one", b"flying")
    flushing = asyncio.ensure_future(producer.flush())
    await hold.reached()
    flushing.cancel()
    await asyncio.wait([flushing])
    buffered = await producer.send("four", b"buffered")
    # A send leaves a mark in the loop's queue, which refers to the producer for one turn.
    await turns()
    return Holder(producer), [flying, buffered]


def forget(kept: list[Any]) -> None:
    """Drop them, and whatever only they refer to."""
    kept.clear()
    gc.collect()


@pytest.mark.parametrize("how", ["collected", "in another thread"])
async def test_f10_dropped_in_a_cycle(
    how: str, kafka: EmbeddedKafka, caplog: pytest.LogCaptureFixture
) -> None:
    """A cycle does not keep it: it warns, its records have outcomes and are reported, its sockets are freed."""
    kept = [await holder_of(kafka)]
    deliveries = kept[0][1]
    reference = weakref.ref(kept[0][0].producer)
    gc.disable()
    try:
        kept.clear()
        assert reference() is not None
        with pytest.warns(ResourceWarning, match="1 record buffered, 1 in flight> was never closed"):
            await asyncio.to_thread(gc.collect) if how == "in another thread" else gc.collect()
    finally:
        gc.enable()
    assert reference() is None
    assert [await one.wait(LIMIT) for one in deliveries] == [Outcome.UNKNOWN, Outcome.NOT_WRITTEN]
    assert "garbage-collected without close()" in str(deliveries[0].exception())
    assert "2 records without an outcome" in caplog.text
    await until(lambda: not tasks_of_the_library())
    await no_task_left()
    await until(lambda: not kafka.brokers[0].connections)


async def test_f10_dropped_while_records_wait_for_their_topic(kafka: EmbeddedKafka) -> None:
    """Records that wait for an unknown topic, and callers that wait in send(), are reported as well."""
    kafka.faults.delay(api="Metadata", topic="new", times=None)
    kept = [await warm(Producer[Any, Any](kafka.bootstrap_servers, **QUICK), "one")]
    queued = kept[0].send_nowait("new", b"v")
    waiting = kept[0].send("new", b"w")
    with pytest.warns(ResourceWarning, match="never closed"):
        forget(kept)
    assert await queued.wait(LIMIT) is Outcome.NOT_WRITTEN
    with pytest.raises(Exception, match="garbage-collected without close"):
        await asyncio.wait_for(waiting, LIMIT)
    await no_task_left()


# -- F11: the interpreter ends

PROGRAM = """
import asyncio, os, sys, time
from aioproducer import Producer
from aioproducer.testing import EmbeddedKafka

async def main():
    global producer, deliveries, kafka
    kafka = EmbeddedKafka()
    await kafka.start()
    kafka.create_topic("one", 1)
    producer = Producer(kafka.bootstrap_servers, topics=["one"], linger_ms=60_000)
    await producer.start(wait_ready=5)
    deliveries = [await producer.send("one", b"v") for _ in range(7)]
    {last}

def run():
    loop = asyncio.new_event_loop()
    loop.run_until_complete(main())
    return loop

def told_at():
    print(time.time(), flush=True)

{end}
"""

ENDS = {
    "asyncio.run": ("told_at()", "asyncio.run(main())"),
    "sys.exit": ("told_at(); sys.exit(3)", "asyncio.run(main())"),
    "an exception": ("told_at(); 1 / 0", "asyncio.run(main())"),
    "a loop that is stopped": ("told_at()", "run()"),
    "a loop that is closed": ("told_at()", "run().close()"),
    "dropped": ("told_at()", "loop = run(); loop.close(); del producer"),
    "an unhandled KeyboardInterrupt": ("told_at(); raise KeyboardInterrupt", "run()"),
}


@pytest.mark.parametrize("how", ENDS)
def test_f11_unsent_records_at_the_end(how: str) -> None:
    """However the program ends without close(): the count of lost records is logged, and it ends within a second."""
    last, end = ENDS[how]
    done = run_program(PROGRAM.format(last=last, end=end))
    ended = time.time()
    assert ended - float(done.stdout.split()[0]) < 1.0 + BUSY_MACHINE
    told = [line for line in done.stderr.splitlines() if "records" in line and "7" in line]
    assert len(told) == 1, done.stderr


def test_f11_nothing_to_tell() -> None:
    """A producer without unsent records, or one that was closed, ends without a word."""
    done = run_program(
        PROGRAM.format(last="await producer.close(); await kafka.stop()", end="asyncio.run(main())")
    )
    assert (done.returncode, done.stderr) == (0, "")
    flushed = "await producer.flush(); kafka.faults.drop_connections(1)"
    done = run_program(PROGRAM.format(last=flushed, end="run()"))
    assert (done.returncode, done.stderr) == (0, "")


def test_f11_records_that_wait_for_their_topic() -> None:
    """Records of send_nowait() that have no topic yet are counted, too."""
    last = "kafka.faults.silence(); [producer.send_nowait('new', b'v') for _ in range(5)]"
    done = run_program(PROGRAM.format(last=last, end="run()"))
    assert "12 records without an outcome" in done.stderr


LAST_WORDS = """
import asyncio, atexit, sys
from aioproducer import Producer

async def main():
    async with Producer(sys.argv[1]) as producer:
        print((await producer.send_and_wait("last", b"words")).offset)

atexit.register(lambda: asyncio.run(main()))
"""


async def test_a_producer_that_starts_at_the_end_of_the_program(kafka: EmbeddedKafka) -> None:
    """A function that `atexit` calls may send a record, though no thread can be started there for imports."""
    program = await asyncio.create_subprocess_exec(
        sys.executable, "-c", LAST_WORDS, kafka.bootstrap_servers, cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await program.communicate()
    assert (output.split(), program.returncode) == ([b"0"], 0)
