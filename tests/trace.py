"""The way of a record: every Python function of the library between `send()` and the outcome, in order, with file and line.

    python -m tests.trace           each function where it is called first
    python -m tests.trace --all     every call

The producer is connected and knows the topic, as it is for nearly all records. A step begins where the program or the event
loop calls the library; the indentation is the depth of the call. The interpreter does not report calls of compiled functions: of
those, only `send` is shown.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

import attrs

import aioproducer
from aioproducer import Producer
from aioproducer.testing import EmbeddedKafka

PACKAGE: Final = Path(aioproducer.__file__).parent
EMBEDDED_KAFKA: Final = PACKAGE / "testing"
TOPIC: Final = "orders"
WIDTH: Final = 60


@attrs.frozen
class Call:
    """One call of a function of the library."""

    depth: int
    name: str
    place: str

    def __str__(self) -> str:
        return f"{'  ' * self.depth}{self.name:<{WIDTH - 2 * self.depth}} {self.place}"


@attrs.frozen
class Step:
    """The work of the library at one call of the program or the event loop."""

    caller: str
    calls: list[Call] = attrs.Factory(list)


class Recorder:
    """Notes calls of the library's functions while it is the profiler of this thread."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self._places: dict[CodeType, str | None] = {}

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        """A call that the interpreter reports."""
        place = self._place(frame.f_code) if event == "call" else None
        if place is None:
            return
        callers = list(_callers(frame))
        if any(Path(code.co_filename).is_relative_to(EMBEDDED_KAFKA) for code in callers):
            return
        depth = sum(self._place(code) is not None for code in callers)
        if depth == 0 and callers[0].co_filename != __file__:
            self.steps.append(Step("the event loop"))
        self.steps[-1].calls.append(Call(depth, frame.f_code.co_qualname, place))

    def program(self, expression: str, *compiled: Any) -> None:
        """The program evaluates an expression, which calls these compiled functions."""
        codes = [function.__code__ for function in compiled]
        calls = [Call(0, code.co_name, f"{code.co_filename}:{code.co_firstlineno}") for code in codes]
        self.steps.append(Step(expression, calls))

    def _place(self, code: CodeType) -> str | None:
        """File and line of a function of the library; None for any other, the embedded Kafka's among them."""
        if code not in self._places:
            self._places[code] = _found(code)
        return self._places[code]


def _callers(frame: FrameType) -> Iterator[CodeType]:
    """The functions in the stack below a call, the nearest first."""
    caller = frame.f_back
    while caller is not None:
        yield caller.f_code
        caller = caller.f_back


def _found(code: CodeType) -> str | None:
    path = Path(code.co_filename)
    if not path.is_relative_to(PACKAGE) or path.is_relative_to(EMBEDDED_KAFKA):
        return None
    return f"{path.relative_to(PACKAGE.parent)}:{code.co_firstlineno}"


async def traced() -> list[Step]:
    """The steps of one record, of a producer that has sent another before."""
    recorder = Recorder()
    async with EmbeddedKafka() as kafka, Producer(kafka.bootstrap_servers) as producer:
        await producer.send_and_wait(TOPIC, b"1 apple")
        sys.setprofile(recorder)
        try:
            recorder.program("await producer.send()", Producer.send)
            delivery = await producer.send(TOPIC, b"2 apples")
            recorder.program("await delivery")
            await delivery
        finally:
            sys.setprofile(None)
    return recorder.steps


def first_calls(steps: list[Step]) -> list[Step]:
    """Each function where it is called first, without the steps in which none is."""
    seen: set[tuple[str, str]] = set()
    found = []
    for step in steps:
        found.append(Step(step.caller))
        for call in step.calls:
            if (call.name, call.place) not in seen:
                seen.add((call.name, call.place))
                found[-1].calls.append(call)
    return [step for step in found if step.calls]


def main(arguments: list[str]) -> None:
    """Print the way of a record."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.trace",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--all", action="store_true", help="every call, also of functions that were shown before"
    )
    options = parser.parse_args(arguments)
    steps = asyncio.run(traced())
    for number, step in enumerate(steps if options.all else first_calls(steps), 1):
        print(f"{number}. {step.caller}", *step.calls, "", sep="\n")


if __name__ == "__main__":
    main(sys.argv[1:])
