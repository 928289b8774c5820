"""The examples that run to their end: what they print and what they leave in the log."""

from __future__ import annotations

import json
import re
import sys

from aioproducer.testing import EmbeddedKafka
from tests.examples.programs import example, run

MEASURED = "import resource, subprocess, sys; code = subprocess.call(sys.argv[1:]); print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss); sys.exit(code)"
"""The peak memory of a program, told by a small one that starts it: a child begins with the peak of its parent."""


def values(kafka: EmbeddedKafka, topic: str) -> list[bytes | None]:
    """The written values, in order."""
    return [record.value for record in kafka.records(topic)]


async def test_fire_and_forget_writes_everything(embedded_kafka: EmbeddedKafka) -> None:
    """All records are in the log in order, callbacks report some, and the final report counts all."""
    ended = await run(embedded_kafka, example("fire_and_forget.py"))
    assert (ended.code, ended.errors) == (0, "")
    assert ended.output.splitlines() == [
        *[f"clicks-0: {offset} is written" for offset in (0, 250, 500, 750)],
        "2000 written, 0 not written, 0 unknown",
    ]
    assert values(embedded_kafka, "clicks") == [b"click %d" % number for number in range(1000)]
    assert values(embedded_kafka, "views") == [b"view %d" % number for number in range(1000)]


async def test_fire_and_forget_tells_of_losses(embedded_kafka: EmbeddedKafka) -> None:
    """A callback reports each lost record; those without one are in the log of the library, once; exit code 1."""
    embedded_kafka.faults.error("INVALID_RECORD", times=None)
    ended = await run(embedded_kafka, example("fire_and_forget.py"))
    assert (ended.code, ended.output) == (1, "0 written, 2000 not written, 0 unknown\n")
    lines = ended.errors.splitlines()
    assert sum(line.startswith("lost (not written): INVALID_RECORD") for line in lines) == 1000
    assert sum(line.startswith("for example: INVALID_RECORD") for line in lines) >= 1
    logged = [line for line in lines if "aioproducer" in line]
    assert len(logged) == 1
    assert "views" in logged[0]


async def test_many_deliveries_are_written(embedded_kafka: EmbeddedKafka) -> None:
    """Each of the four ways tells that its four records are written."""
    ended = await run(embedded_kafka, example("many_deliveries.py"))
    assert (ended.code, ended.errors) == (0, "")
    assert ended.output.splitlines() == [
        "gather: b'apples' 0",
        "gather: b'pears' 1",
        "gather: b'plums' 2",
        "gather: b'grapes' 3",
        "task group: [0, 1, 2, 3]",
        "wait: 4 written, 0 failed, 0 pending",
        "flush: all written",
    ]


async def test_many_deliveries_that_fail(embedded_kafka: EmbeddedKafka) -> None:
    """Each of the four ways reports the records that failed; deliveries that it dropped are logged once."""
    embedded_kafka.faults.error("INVALID_RECORD", times=None)
    ended = await run(embedded_kafka, example("many_deliveries.py"))
    assert ended.code == 0
    assert [line[:41] for line in ended.errors.splitlines()] == ["aioproducer: 4 records for topic flushed "]
    lines = ended.output.splitlines()
    assert [line.split("failed")[0] for line in lines[:4]] == [
        f"gather: b'{word}' " for word in ("apples", "pears", "plums", "grapes")
    ]
    assert any(line.startswith("task group: failed: INVALID_RECORD") for line in lines)
    assert "wait: 0 written, 4 failed, 0 pending" in lines
    assert lines[-1].startswith("flush: not written: 4 of 4 records were not acknowledged")


async def test_partitioner_and_interceptor(embedded_kafka: EmbeddedKafka) -> None:
    """Regular customers have partition 0 for themselves, each record has its header, and the outcomes are counted."""
    embedded_kafka.create_topic("orders", 4)
    ended = await run(embedded_kafka, example("partitioner_and_interceptor.py"))
    assert (ended.code, ended.errors) == (0, "")
    assert ended.output.splitlines()[-1] == "outcomes: {'written': 5}"
    records = embedded_kafka.records("orders")
    assert [record.key for record in records if record.partition == 0] == [b"regular-alice", b"regular-carol"]
    assert len(records) == 5
    assert {record.headers for record in records} == {(("origin", b"shop-7"),)}
    placed = {f"{(r.key or b'').decode()}: partition {r.partition}, offset {r.offset}" for r in records}
    assert set(ended.output.splitlines()[:-1]) == placed


async def stream(kafka: EmbeddedKafka, count: int) -> int:
    """Stream so many dicts; gives the peak memory of the program."""
    program = (sys.executable, "-W", "error", str(example("stream_dicts.py")), str(count))
    ended = await run(kafka, "-c", MEASURED, *program)
    assert (ended.code, ended.errors) == (0, "")
    assert f"{count} written, 0 not written, 0 unknown" in ended.output
    assert re.search(rf"{count}/{count}", ended.output)
    return int(ended.output.splitlines()[-1])


async def test_stream_of_dicts_arrives_in_bounded_memory(embedded_kafka: EmbeddedKafka) -> None:
    """All dicts are written in order, and ten times as many take little more memory than the buffer holds."""
    little = await stream(embedded_kafka, 20_000)
    records = embedded_kafka.records("readings")
    assert [json.loads(record.value or b"")["number"] for record in records] == list(range(20_000))
    much = await stream(embedded_kafka, 200_000)
    assert embedded_kafka.high_watermark("readings") == 220_000
    # A slow broker leaves the buffer full, of records that each have a delivery.
    assert much < little + 60_000


async def test_stream_of_dicts_tells_of_failures(embedded_kafka: EmbeddedKafka) -> None:
    """Records that the broker refuses are counted, some are named, and the exit code is 1."""
    embedded_kafka.faults.error("INVALID_RECORD", times=None)
    ended = await run(embedded_kafka, example("stream_dicts.py"), "10")
    assert ended.code == 1
    assert "0 written, 10 not written, 0 unknown" in ended.output
    assert len(re.findall(r"^record \d: INVALID_RECORD", ended.errors, re.MULTILINE)) == 5
