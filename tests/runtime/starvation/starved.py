"""A program in which each allocation of each call fails once, and the judge then looks at the log.

It runs in a process of its own, with the module `starvation` on its path: see test_starvation.py. It prints a line for each kind
of call: how many allocations have failed, and how many calls said so.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import attrs

from aioproducer import Delivery, KafkaError, Outcome, Producer
from aioproducer._core import Batch, BatchDelivery, BatchSettings, queued_delivery
from aioproducer.testing import EmbeddedKafka
from tests.judge.history import Sent, digest_of
from tests.judge.judge import judge
from tests.runtime.support import History, log_of, sound

starvation: Any = importlib.import_module("starvation")

# No call here has more.
MOST: Final = 2_000
LIMIT: Final = 10
# Bytes of memory, where calls wait for it.
ROOM: Final = 1 << 16
TOPIC: Final = "four"
SETTINGS: Final[dict[str, Any]] = {
    "linger_ms": 60_000,
    "batch_size": 4_096,
    "topics": [TOPIC, "sound"],
}
Values = Sequence[bytes]


@attrs.define
class StarvedHistory(History):
    """... and how many records that were accepted as they were queued found no memory when their turn came."""

    queued_in_vain: int = 0


class _Raised:
    """Instead of what a call has returned."""


@attrs.frozen
class Trial:
    """One kind of call, of which each allocation fails once."""

    name: str
    make: Callable[[Producer[Any, Any], Values], Callable[[], Any]]
    own: bool = True
    """Only what compiled code allocates fails, not what the Python code does that it calls."""
    filling: bytes = bytes(10)
    records: int = 1
    settings: Mapping[str, Any] = attrs.field(factory=dict)
    waits_for: str = ""
    """The thing that the calls wait for: room in the "memory", or the partitions of the "topic"."""


def starved(nth: int, call: Callable[[], Any], *, own: bool) -> tuple[Any, bool]:
    """The result of the call while its nth allocation failed, and whether it has so many."""
    answer: Any = _Raised
    starvation.fail(nth, own)
    try:
        answer = call()
    except (MemoryError, KafkaError, SystemError):
        # CPython raises the last without memory for a traceback, in place of the original exception.
        pass
    finally:
        fired = starvation.over()
    return answer, fired


def first_calls(
    trial: Trial, producer: Producer[Any, Any], history: StarvedHistory
) -> list[tuple[Values, Any]]:
    """Calls that lack no memory, after which the sender is awake: asyncio forgets whom it had no memory to wake.

    No answer comes before the loop has its next turn: what later calls wait for is not there until then.
    """
    answers: list[tuple[Values, Any]] = []
    enough = ROOM // 4_000 + 2 if trial.waits_for == "memory" else 3
    for _ in range(enough):
        values = [history.value(bytes(4_000))]
        answers.append((values, send(producer, values)()))
    assert (answers[-1][1].delivery is None) == (trial.waits_for != "")
    return answers


async def tried(trial: Trial, producer: Producer[Any, Any], history: StarvedHistory) -> tuple[int, int]:
    """Make the call again and again, until it has no allocation left to fail; how many have, and how many calls said so."""
    answers = first_calls(trial, producer, history)
    values: Values
    hoard = []
    placeholder_batch = Batch(TOPIC, -1, 0, BatchSettings())
    for nth in range(1, MOST):
        values = [history.value(trial.filling) for _ in range(trial.records)]
        # What the core keeps for the next delivery would need no allocation.
        hoard += [queued_delivery(placeholder_batch) for _ in range(8)]
        answer, fired = starved(nth, trial.make(producer, values), own=trial.own)
        answers.append((values, answer))
        if not fired:
            break
    else:
        raise AssertionError(f"{trial.name} never ends")
    refused = 0
    for _, answer in answers:
        refused += answer is _Raised or not await accepted(answer)
    await asyncio.wait_for(producer.flush(), LIMIT)
    for values, answer in answers:
        await tell(history, values, answer)
    return nth - 1, refused


async def accepted(answer: Any) -> bool:
    """Await what a call has returned, as its caller does."""
    if isinstance(answer, Delivery):
        return True
    try:
        await asyncio.wait_for(asyncio.shield(asyncio.ensure_future(answer)), LIMIT)
    except (KafkaError, MemoryError):
        return False
    return True


async def tell(history: StarvedHistory, values: Values, answer: Any) -> None:
    """Note for the judge what the caller of these knows."""
    delivery = None if answer is _Raised else getattr(answer, "delivery", answer)
    if delivery is None:
        for value in values:
            history.refused(value, TOPIC)
    elif len(values) == 1 and not hasattr(delivery, "total"):
        history.accepted(values[0], delivery)
        history.queued_in_vain += history.sent[-1].outcome is not Outcome.ACKED
    else:
        result = await asyncio.wait_for(delivery, LIMIT)
        for at, value in enumerate(values):
            if at in result.errors:
                history.refused(value, TOPIC)
            else:
                history.sent.append(acked(value, result.partitions[at], result.offsets[at]))


def acked(value: bytes, partition: int, offset: int) -> Sent:
    """A record of a bulk send that was written."""
    number = int.from_bytes(value[:8], "big")
    return Sent(number, digest_of(None, value, (), None), TOPIC, partition, Outcome.ACKED, offset)


# -- the calls


def send(producer: Producer[Any, Any], values: Values, **how: Any) -> Callable[[], Any]:
    """`send()`, without a frame of Python between this and the core."""
    return partial(producer.send, TOPIC, values[0], partition=0, **how)


def send_and_wait(producer: Producer[Any, Any], values: Values) -> Callable[[], Any]:
    """`send_and_wait()`."""
    return partial(producer.send_and_wait, TOPIC, values[0], partition=0)


def send_nowait(producer: Producer[Any, Any], values: Values) -> Callable[[], Any]:
    """`send_nowait()`."""
    return partial(producer.send_nowait, TOPIC, values[0], partition=0)


def send_batch(producer: Producer[Any, Any], values: Values) -> Callable[[], Any]:
    """`send_batch()`, to several partitions."""
    return partial(producer.send_batch, TOPIC, list(values), partition=[at % 4 for at in range(len(values))])


def timed_send(producer: Producer[Any, Any], values: Values) -> Callable[[], Any]:
    """`send()` with a delivery time of its own."""
    return send(producer, values, timeout=50)


async def unchanged(value: bytes) -> bytes:
    """A serializer that is a coroutine function."""
    return value


CALLS: Final[tuple[tuple[str, Callable[..., Callable[[], Any]], int], ...]] = (
    ("send", send, 1),
    ("send with a timeout", timed_send, 1),
    ("send_and_wait", send_and_wait, 1),
    ("send_nowait", send_nowait, 1),
    ("send_batch", send_batch, 5),
)
LONG_WAYS: Final[tuple[tuple[str, str, dict[str, Any]], ...]] = (
    ("waiting for memory", "memory", {"buffer_memory": ROOM}),
    ("waiting for the topic", "topic", {"topics": ["sound"]}),
    ("with a coroutine as serializer", "", {"value_serializer": unchanged}),
)
TRIALS: Final = (
    Trial("send", send),
    Trial("send, a new batch each time", send, filling=bytes(5_000)),
    Trial("send_nowait", send_nowait),
    Trial("send_batch", send_batch, records=20),
    # Python code as well, which opens batches.
    Trial("send, all of it", send, own=False),
    Trial("send, a new batch each time, all of it", send, own=False, filling=bytes(4_000)),
    Trial("send_and_wait", send_and_wait, own=False),
    Trial("send with a timeout", timed_send, own=False),
    Trial("send_nowait, all of it", send_nowait, own=False),
    Trial("send_batch, all of it", send_batch, own=False, records=20),
    # The long way, in Python.
    *(
        Trial(f"{name}, {what}", call, own=False, records=records, settings=settings, waits_for=waits_for)
        for what, waits_for, settings in LONG_WAYS
        for name, call, records in CALLS
        if not ("coroutine" in what and call is send_nowait)
    ),
)


def every(call: Callable[[], Any]) -> int:
    """Make a call until it succeeds, while its first, second, third allocation fails; how many have."""
    for nth in range(1, MOST):
        _, fired = starved(nth, call, own=True)
        if not fired:
            return nth - 1
    raise AssertionError("it never ends")


def pieces() -> None:
    """The memory that the core allocates itself: places of a bulk send, moments of acceptance, bytes."""
    failed = every(partial(BatchDelivery, "t", 10, asyncio.get_running_loop()))
    batch = Batch("t", 0, 1 << 20, BatchSettings())
    for moment in range(200):
        failed += every(partial(batch.append, None, bytes(100), None, 0, now=float(moment)))
    assert batch.record_count == len(batch.deadlines()) == 200
    assert len(batch.read_records(batch.plain_records())) == 200
    print(f"pieces: {failed} failed, {failed} refused, []")


def miscounted(producer: Producer[Any, Any], history: StarvedHistory) -> list[str]:
    """The difference between the counts of the producer and of the history, which lacks two acked records.

    A queued record of `send_nowait` that finds no memory when its turn comes has failed: its caller has its delivery.
    """
    stats = producer.stats()
    acked = 2 + sum(each.outcome is Outcome.ACKED for each in history.sent)
    counted = (stats.records_accepted, stats.records_acked, stats.records_failed)
    told = (acked, acked, history.queued_in_vain)
    return [] if counted == told else [f"{told} were told, and {counted} are counted"]


def is_ours(record: logging.LogRecord) -> bool:
    """Not what asyncio says of a task that it had no memory to begin."""
    return not record.getMessage().startswith("Task was destroyed but it is pending")


async def main() -> None:
    """Each kind of call, with a producer of its own."""
    # A collection runs anywhere, and what others do in it is not tried here.
    gc.disable()
    logging.getLogger("asyncio").addFilter(is_ours)
    pieces()
    for trial in TRIALS:
        history = StarvedHistory()
        async with (
            EmbeddedKafka() as kafka,
            Producer[Any, Any](kafka.bootstrap_servers, **{**SETTINGS, **trial.settings}) as producer,
        ):
            kafka.create_topic(TOPIC, 4)
            await asyncio.wait_for(producer.send_and_wait("sound", b"first"), LIMIT)
            failed, refused = await tried(trial, producer, history)
            findings = [str(finding) for finding in judge(history.sent, log_of(kafka, [TOPIC]))]
            await sound(producer)
            findings += miscounted(producer, history)
        print(f"{trial.name}: {failed} failed, {refused} refused, {findings}", flush=True)


if __name__ == "__main__":
    asyncio.run(main())
