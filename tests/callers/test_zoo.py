"""Every public call with arguments that lie, at random: no task ends, no other record is lost, every call ends in time."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from aioproducer import (
    BatchDelivery,
    Delivery,
    DeliveryTimeoutError,
    KafkaError,
    Outcome,
    Producer,
    Record,
    RecordMetadata,
)
from aioproducer.serializers import Encoded, NotPrepared
from aioproducer.testing import EmbeddedKafka, MockProducer
from tests.callers.table import (
    ABOUT_RECORDS,
    DELIVERY,
    LOOKING,
    OF_THE_MOCK,
    SENDING,
    TRANSACTING,
    Call,
    CallOn,
    Wild,
)
from tests.callers.zoo import OWN_ERRORS
from tests.effort import SEED_VARIABLE
from tests.net.support import LIMIT, Make, warm
from tests.runtime.support import sound
from tests.seeds import fresh_seed

CALLS_OF_A_TEST = 150
TASTES = (
    "plain",
    "serializers",
    "coroutine serializers",
    "serializers that prepare",
    "partitioner",
    "interceptors",
)


def pieces_that_lie(  # noqa: C901  # one small function for each piece
    taste: str, wild: Wild, made: list[Any]
) -> dict[str, Any]:
    """Settings of a producer, `made[0]`, whose pieces lie about records that are not those of the judge."""

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

    class Preparing:
        """Has to learn something now and then, adds headers that lie, and has methods that lie."""

        def serialize(self, topic: str, headers: Any, value: Any) -> Any:
            if isinstance(value, bytes) and value.startswith(b"good"):
                return value
            if wild.rng.random() < 0.3:
                raise NotPrepared
            return Encoded(serialize(value), wild.maybe(None))

        def prepare(self, topic: str, headers: Any, value: Any) -> Any:
            again()
            return wild.maybe(None)

        def warm(self, topic: str) -> Any:
            return wild.thing()

        def close(self) -> Any:
            return wild.thing()

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
        "serializers that prepare": {"value_serializer": Preparing(), "topics": ["zoo"]},
        "partitioner": {"partitioner": choose},
        "interceptors": {"interceptors": [Interceptor()]},
    }
    return {"buffer_memory": 100_000, "batch_size": 500, **pieces[taste]}


async def made(name: str, call: Callable[[], Any], *documented: type[BaseException]) -> None:
    """Make the call, to its end; it may raise its documented errors, or the exception of the caller's object."""
    bound = asyncio.timeout(LIMIT)
    try:
        result = call()
        if hasattr(result, "__await__"):
            async with bound:
                result = await result
                if isinstance(result, Delivery):
                    await result.wait(LIMIT)
                elif isinstance(result, BatchDelivery):
                    await result
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        if bound.expired():
            raise AssertionError(f"{name} did not end") from error
        if not may_be_raised(name, error, documented):
            raise


def may_be_raised(name: str, error: BaseException, documented: tuple[type[BaseException], ...]) -> bool:
    """Whether the call may raise this."""
    if isinstance(error, KafkaError):
        # A limit of no time at all ends a record that was written already.
        timed_out = isinstance(error, DeliveryTimeoutError)
        return name not in ABOUT_RECORDS or timed_out or error.outcome is not Outcome.UNKNOWN
    if isinstance(error, RuntimeError) and isinstance(error.__cause__, StopIteration):
        # So Python has it, where a coroutine would end with one.
        return True
    return name not in ABOUT_RECORDS and isinstance(error, (TimeoutError, *OWN_ERRORS, *documented))


def on_a_delivery(call: CallOn) -> Call:
    """A record, of which the call is made while it is on its way: it has one outcome, and that is true."""

    async def tried(wild: Wild, producer: Any) -> None:
        sending = producer.send("zoo", b"good handle", partition=0)
        try:
            delivery = await sending
        except KafkaError as error:
            assert error.outcome is Outcome.NOT_WRITTEN  # noqa: PT017  # there is no room
            return
        others = [asyncio.ensure_future(delivery.wait(LIMIT)) for _ in range(2)]
        await asyncio.sleep(0)
        try:
            # As a future has it; and arrays of NumPy do not say whether they are equal to a callback.
            errors = (asyncio.InvalidStateError, TypeError, ValueError)
            await made("a call on a delivery", lambda: call(wild, producer, delivery), *errors)
        finally:
            outcomes = await asyncio.gather(*others)
        assert set(outcomes) <= {Outcome.ACKED, Outcome.NOT_WRITTEN}
        assert set(outcomes) == {delivery.outcome}

    return tried


def on_a_sending(call: CallOn) -> Call:
    """A call that waits for its topic, of which the call is made, and which is awaited by two tasks."""

    async def tried(wild: Wild, producer: Any) -> None:
        sending = producer.send(
            wild.rng.choice(["zoo", f"new{wild.rng.random()}"]), b"good sending", partition=0
        )

        def step() -> None:
            call(wild, producer, sending)

        # As coroutines have it.
        await made("a call on a sending", step, TypeError, RuntimeError)

        async def awaited() -> Any:
            return await sending

        async with asyncio.timeout(LIMIT):
            await asyncio.gather(awaited(), awaited(), return_exceptions=True)

    return tried


CALLS: dict[str, Call] = {
    **ABOUT_RECORDS,
    **LOOKING,
    **TRANSACTING,
    **{f"Delivery.{name}": on_a_delivery(call) for name, call in DELIVERY.items()},
    **{f"Sending.{name}": on_a_sending(call) for name, call in SENDING.items()},
}


def with_documented(call: Call, *errors: type[BaseException]) -> Call:
    """The same, which may raise these as well."""

    async def tried(wild: Wild, producer: Any) -> None:
        await made("a call", lambda: call(wild, producer), *errors)

    return tried


# What an iterable or a callback raises ends it; from a StopIteration Python makes a RuntimeError.
CALLS["send_all"] = with_documented(
    LOOKING["send_all"], RuntimeError, ValueError, TypeError, NotImplementedError
)
# A wrong order of a test is an error of the program.
CALLS_OF_THE_MOCK: dict[str, Call] = CALLS | {
    name: with_documented(call, Exception) for name, call in OF_THE_MOCK.items()
}


async def tried_at_random(wild: Wild, producer: Any, calls: dict[str, Call]) -> list[bytes]:
    """Calls that lie, and between them records that do not, of topic `one`: their values, which are written."""
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)
    good: dict[bytes, Delivery] = {}
    for number in range(CALLS_OF_A_TEST):
        wild.drawn.clear()
        name = wild.rng.choice(list(calls))
        try:
            await made(name, lambda name=name: calls[name](wild, producer))  # type: ignore[misc]
        except BaseException as error:
            error.add_note(f"call {number}, {name} with {wild.drawn}")
            raise
        assert producer.health().state == "running", f"call {number}, {name} with {wild.drawn}"
        if number % 5 == 0:
            value = b"good %d" % number
            good[value] = await producer.send("one", value, partition=0)
    assert [await one.wait(LIMIT) for one in good.values()] == [Outcome.ACKED] * len(good)
    return list(good)


@pytest.mark.parametrize("debug", [False, True], ids=["quick loop", "debugging loop"])
@pytest.mark.parametrize("taste", TASTES)
async def test_calls_at_random(taste: str, debug: bool, make: Make, kafka: EmbeddedKafka) -> None:
    """Calls that lie, and between them records that do not: those are written once each, in their order."""
    asyncio.get_running_loop().set_debug(debug)
    wild = Wild(random.Random(fresh_seed()))
    kafka.create_topic("zoo", 1)
    producers: list[Producer[Any, Any]] = []
    producers.append(make(kafka, **pieces_that_lie(taste, wild, producers)))
    producer = await warm(producers[0], "one", "zoo")
    good = await tried_at_random(wild, producer, CALLS)
    written = [record.value for record in kafka.records("one") if (record.value or b"").startswith(b"good")]
    assert written == good
    wild.rng.random = lambda: 1.0  # type: ignore[method-assign]  # what follows is judged, and does not lie
    # A call whose coroutine was stepped by hand ends when it is deallocated; an error may keep it in a cycle.
    gc.collect()
    await sound(producer)


@pytest.mark.parametrize("taste", TASTES)
async def test_calls_of_the_mock_at_random(taste: str) -> None:
    """The mock is as robust."""
    wild = Wild(random.Random(fresh_seed()))
    producers: list[Any] = []
    producers.append(MockProducer(**pieces_that_lie(taste, wild, producers)))
    async with asyncio.timeout(LIMIT), producers[0] as mock:
        good = await tried_at_random(wild, mock, CALLS_OF_THE_MOCK)
        # clear() has forgotten some.
        values = [record.value or b"" for record in mock.written if record.topic == "one"]
        kept = [value for value in values if value.startswith(b"good")]
        assert kept == good[len(good) - len(kept) :]


# A whole run of tests, each of which has a limit of its own; it ends by `timeout=` below.
@pytest.mark.timeout(220)
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
        "tests/callers/test_transactions.py",
        "-k",
        "(random and not mock and not debugging) or elsewhere or compiled",
    ]
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:xdist", "-p", "no:cacheprovider", *tests]
    done = subprocess.run(
        command,
        cwd=Path(__file__).parents[2],
        env=env,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
