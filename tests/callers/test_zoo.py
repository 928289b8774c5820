"""Every public call with arguments that lie, at random: no task ends, no other record is lost, every call ends in time."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from aioproducer import Delivery, KafkaError, Outcome, Producer, Record, RecordMetadata
from aioproducer.testing import EmbeddedKafka
from tests.callers.zoo import ANYTHING
from tests.effort import SEED_VARIABLE
from tests.net.support import LIMIT, Make, warm
from tests.runtime.support import sound
from tests.seeds import fresh_seed

CALLS_OF_A_TEST = 150
MOST_SECONDS = 0.05
"""What a call with a `max_block` or a `timeout` of the test's may take, before the machine's slowness."""


@attrs.define
class Wild:
    """Draws from the zoo, and remembers the names for the message of a test that fails."""

    rng: random.Random
    drawn: list[str] = attrs.Factory(list)

    def thing(self) -> Any:
        name = self.rng.choice(list(ANYTHING))
        self.drawn.append(name)
        return ANYTHING[name]()

    def maybe(self, good: Any) -> Any:
        """Something that lies, or this."""
        return self.thing() if self.rng.random() < 0.3 else good

    def record(self) -> dict[str, Any]:
        """The arguments of a single send but for its topic."""
        return {
            "value": self.maybe(b"zoo"),
            "key": self.maybe(None),
            "partition": self.maybe(0),
            "timestamp": self.maybe(None),
            "headers": self.maybe(None),
            "timeout": self.maybe(1.0),
        }


def calls(wild: Wild, producer: Producer[Any, Any]) -> dict[str, Callable[[], Any]]:
    """One of each public call; what it gives is awaited."""

    def topic() -> Any:
        return wild.maybe("zoo")

    def batch() -> Any:
        return producer.send_batch(
            topic(),
            wild.maybe([b"1", b"2", b"3"]),
            keys=wild.maybe(None),
            partition=wild.maybe(0),
            timestamps=wild.maybe(None),
            headers=wild.maybe(None),
            timeout=wild.maybe(1.0),
        )

    def records() -> list[Any]:
        given = wild.record()
        given.pop("timeout")
        return [Record(topic(), **given), wild.thing(), Record("zoo", b"zoo", partition=0)]

    return {
        "send": lambda: producer.send(topic(), **wild.record(), max_block=wild.maybe(MOST_SECONDS)),
        "send_and_wait": lambda: producer.send_and_wait(topic(), **wild.record(), max_block=MOST_SECONDS),
        "send_nowait": lambda: producer.send_nowait(topic(), **wild.record()),
        "send_batch": batch,
        "send_all": lambda: producer.send_all(records()),
        "flush": lambda: producer.flush(wild.maybe(LIMIT)),
        "ready": lambda: producer.ready(wild.maybe(LIMIT)),
        "partitions_for": lambda: producer.partitions_for(topic(), timeout=MOST_SECONDS),
        "purge": lambda: producer.purge(not_everything(wild.thing())),
        "fence": lambda: producer.fence(wild.thing(), timeout=MOST_SECONDS),
        "list_transactions": lambda: producer.list_transactions(wild.thing(), timeout=MOST_SECONDS),
        "committed_offsets": lambda: producer.committed_offsets(
            wild.thing(), wild.thing(), timeout=MOST_SECONDS
        ),
    }


def not_everything(topic: Any) -> Any:
    """What purge() is given: None would withdraw the records of the judge as well."""
    return "zoo" if topic is None else topic


ABOUT_RECORDS = {"send", "send_and_wait", "send_nowait", "send_batch"}
TASTES = ("plain", "serializers", "coroutine serializers", "partitioner", "interceptors")


def producer_of(  # noqa: C901  # one small function for each piece
    taste: str, wild: Wild, make: Make, kafka: EmbeddedKafka
) -> Producer[Any, Any]:
    """A producer whose pieces lie as well, for records that are not those of the judge."""
    made: list[Producer[Any, Any]] = []

    def again() -> None:
        """A call from within one."""
        if wild.rng.random() < 0.1:
            try:
                made[0].send_nowait("zoo", b"again", partition=0)
            except KafkaError:
                wild.drawn.append("a call from within was refused")

    def serialize(value: Any) -> Any:
        if isinstance(value, bytes) and value.startswith(b"good"):
            return value
        again()
        return wild.maybe(b"zoo")

    async def serialize_later(value: Any) -> Any:
        await asyncio.sleep(0)
        return serialize(value)

    def choose(topic: str, key: bytes | None, value: bytes | None, *_: Any) -> Any:
        if value is not None and value.startswith(b"good"):
            return 0
        again()
        return wild.maybe(0)

    @attrs.define
    class Interceptor:
        def on_send(self, record: Record[Any, Any]) -> Any:
            if isinstance(record.value, bytes) and record.value.startswith(b"good"):
                return record
            again()
            return wild.maybe(record)

        def on_acknowledgement(self, metadata: RecordMetadata | None, error: BaseException | None) -> Any:
            again()
            return wild.thing()

        def close(self) -> Any:
            return wild.thing()

    pieces: dict[str, dict[str, Any]] = {
        "plain": {},
        "serializers": {"value_serializer": serialize},
        "coroutine serializers": {"value_serializer": serialize_later},
        "partitioner": {"partitioner": choose},
        "interceptors": {"interceptors": [Interceptor()]},
    }
    made.append(make(kafka, buffer_memory=100_000, batch_size=500, **pieces[taste]))
    return made[0]


async def made(name: str, call: Callable[[], Any]) -> None:
    """Make the call, to its end; what is about records is refused by errors that say that nothing was written."""
    bound = asyncio.timeout(LIMIT)
    try:
        result = call()
        if hasattr(result, "__await__"):
            async with bound:
                result = await result
                if isinstance(result, Delivery):
                    await result.wait(LIMIT)
    except TimeoutError:
        assert not bound.expired(), f"{name} did not end"
    except (KeyboardInterrupt, SystemExit, asyncio.CancelledError):
        raise
    except BaseException as error:
        if name in ABOUT_RECORDS and (not isinstance(error, KafkaError) or error.outcome is Outcome.UNKNOWN):
            raise


@pytest.mark.parametrize("taste", TASTES)
async def test_calls_at_random(taste: str, make: Make, kafka: EmbeddedKafka) -> None:
    """Calls that lie, and between them records that do not: those are written once each, in their order."""
    wild = Wild(random.Random(fresh_seed()))
    kafka.create_topic("zoo", 1)
    producer = await warm(producer_of(taste, wild, make, kafka), "one", "zoo")
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)
    good: list[Delivery] = []
    for number in range(CALLS_OF_A_TEST):
        wild.drawn.clear()
        name = wild.rng.choice(list(calls(wild, producer)))
        try:
            await made(name, calls(wild, producer)[name])
        except BaseException as error:
            error.add_note(f"call {number}, {name} with {wild.drawn}")
            raise
        assert producer.health().state == "running", f"call {number}, {name} with {wild.drawn}"
        if number % 5 == 0:
            good.append(await producer.send("one", b"good %d" % number, partition=0))
    assert [await one.wait(LIMIT) for one in good] == [Outcome.ACKED] * len(good)
    written = [record.value for record in kafka.records("one") if (record.value or b"").startswith(b"good")]
    assert written == [b"good %d" % number for number in range(0, CALLS_OF_A_TEST, 5)]
    wild.rng.random = lambda: 1.0  # type: ignore[method-assign]  # what follows is judged, and does not lie
    await sound(producer)


def test_nothing_is_read_or_written_out_of_bounds() -> None:
    """The same under `PYTHONMALLOC=debug`, where a byte beyond an allocation ends the process."""
    seed = fresh_seed()
    env = {
        **os.environ,
        "PYTHONMALLOC": "debug",
        SEED_VARIABLE: str(seed),
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }
    tests = [
        "tests/callers/test_columns.py",
        "tests/callers/test_zoo.py",
        "-k",
        "random or elsewhere or compiled",
    ]
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:xdist", "-p", "no:cacheprovider", *tests]
    done = subprocess.run(
        command,
        cwd=Path(__file__).parents[2],
        env=env,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
