"""Interpreters of several kinds: development mode, optimised, a second one in the same process."""

from __future__ import annotations

import sys

import pytest

from tests.runtime.support import run_program

WHOLE_LIFE = """
import asyncio, gc, sys
from aioproducer import Outcome, Producer
from aioproducer.testing import EmbeddedKafka

async def main():
    async with EmbeddedKafka() as kafka:
        kafka.create_topic("one", 1)
        async with Producer(kafka.bootstrap_servers, compression_type="lz4", batch_size=500) as producer:
            kafka.faults.cut(times=2)
            kafka.faults.error("NOT_ENOUGH_REPLICAS", skip=4)
            for number in range(100):
                await producer.send("one", b"%d" % number)
            waiting = asyncio.ensure_future(producer.send("new", b"v"))
            await asyncio.sleep(0)
            waiting.cancel()
            report = await producer.flush()
            batch = await (await producer.send_batch("one", [b"%d" % number for number in range(100, 200)]))
            print(report.acked, batch.acked)
        print([record.value for record in kafka.records("one")] == [b"%d" % number for number in range(200)])

{run}
"""
RUN = "asyncio.run(main())\ngc.collect()"


@pytest.mark.parametrize(
    "flags", [["-X", "dev", "-W", "error"], ["-OO"], ["-bb", "-W", "error"]], ids=" ".join
)
def test_f22_flags(flags: list[str]) -> None:
    """The whole life of a producer under these flags, with every warning an error where they say so."""
    done = run_program(WHOLE_LIFE.format(run=RUN), *flags)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["100 100", "True"]
    # asyncio's debug mode reports slow callbacks on a busy machine.
    assert [line for line in done.stderr.splitlines() if "Executing <" not in line] == []


SUBINTERPRETER = """
import sys
try:
    import _interpreters as interpreters
    make, run = interpreters.create, lambda number, code: interpreters.exec(number, code)
except ImportError:
    import _xxsubinterpreters as interpreters
    make, run = interpreters.create, interpreters.run_string

PATH = {path!r}
CODE = "import sys; sys.path[:] = " + repr(PATH) + "\\n" + {program!r}
number = make()
try:
    failed = run(number, CODE)
    told = "" if failed is None else failed.msg
except interpreters.RunFailedError if hasattr(interpreters, "RunFailedError") else RuntimeError as error:
    told = str(error)
print(told)
if {again!r}:
    exec(CODE)
interpreters.destroy(number)
"""


@pytest.mark.parametrize("again", [False, True], ids=["there alone", "there and here"])
def test_f22_subinterpreter(again: bool) -> None:
    """In a second interpreter the producer works, or its import is refused with the reason; the process lives."""
    # CPython 3.12.1 itself aborts, on some systems, at the end of a process that imported asyncio in a second interpreter.
    asyncio_alone = run_program(SUBINTERPRETER.format(path=sys.path, program="import asyncio", again=False))
    program = WHOLE_LIFE.format(run=RUN)
    done = run_program(SUBINTERPRETER.format(path=sys.path, program=program, again=again))
    told = done.stdout.splitlines()
    refused_there = any("does not support loading in subinterpreters" in line for line in told)
    worked_there = told[:2] == ["100 100", "True"]
    assert refused_there or worked_there, (told, done.stderr)
    lived = done.returncode == asyncio_alone.returncode
    if again:
        worked_here = told[-2:] == ["100 100", "True"] and lived
        refused_here = done.returncode == 1 and "can only be loaded into one interpreter" in done.stderr
        assert worked_here or refused_here, (told, done.stderr)
    else:
        assert lived, done.stderr


FREE_THREADING = """
import pathlib, aioproducer._core
sources = sorted(pathlib.Path(aioproducer._core.__file__).parent.glob("*.pyx"))
print([each.name for each in sources])
print([each.name for each in sources if "freethreading_compatible=True" in each.read_text().replace(" ", "")])
"""


def test_f22_free_threading_is_not_promised() -> None:
    """No compiled module says that it can do without the GIL: a free-threaded Python switches it on, and says so."""
    done = run_program(FREE_THREADING)
    assert done.stdout.splitlines() == [
        "['accept.pyx', 'delivery.pyx', 'distribution.pyx', 'messages.pyx', 'ordinary.pyx', 'records.pyx', 'rows.pyx']",
        "[]",
    ]
