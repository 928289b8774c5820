"""Each public call, with arguments of the zoo. `test_table.py` sees to it that none is forgotten."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

import attrs

from aioproducer import Delivery, Record
from tests.callers.zoo import ANYTHING, ERRORS, GROUPS, OFFSETS, Make, Own
from tests.net.support import LIMIT

MOST_SECONDS = 0.05
"""The longest `max_block` or `timeout` of a call, before the slowness of the machine."""


@attrs.define
class Wild:
    """Draws from the zoo, and remembers the names for the message of a test that fails."""

    rng: random.Random
    drawn: list[str] = attrs.Factory(list)

    def one_of(self, zoo: dict[str, Make]) -> Any:
        """A fresh one."""
        name = self.rng.choice(list(zoo))
        self.drawn.append(name)
        return zoo[name]()

    def thing(self) -> Any:
        """Anything."""
        return self.one_of(ANYTHING)

    def maybe(self, good: Any) -> Any:
        """Something that lies, or this."""
        return self.thing() if self.rng.random() < 0.3 else good

    def either(self, zoo: dict[str, Make]) -> Any:
        """One of these, or something that lies in another way."""
        return self.one_of(zoo) if self.rng.random() < 0.8 else self.thing()

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

    def records(self) -> list[Any]:
        """Of `send_all()`."""
        given = self.record()
        given.pop("timeout")
        return [Record(self.maybe("zoo"), **given), self.thing(), Record("zoo", b"zoo", partition=0)]

    def function(self, producer: Any) -> Any:
        """Something to be called: it raises, calls back, or cannot be called at all."""
        return self.one_of(functions(producer)) if self.rng.random() < 0.8 else self.thing()


Call = Callable[[Wild, Any], Any]
"""Makes one call; what it gives is awaited."""


def not_everything(topic: Any) -> Any:
    """The argument, but "zoo" for None or a name: these would also withdraw or fail the records of the judge."""
    return "zoo" if topic is None or isinstance(topic, str) else topic


def functions(producer: Any) -> dict[str, Make]:  # noqa: C901  # one small function for each
    """Functions of users that the producer calls: each raises an error, or calls the producer."""

    def raises(error: Callable[[], BaseException]) -> Any:
        def function(*_: Any) -> Any:
            raise error()

        return function

    def again(*_: Any) -> Any:
        producer.send_nowait("zoo", b"again", partition=0)

    def soon(coroutine: Callable[[], Any]) -> Callable[..., Any]:
        async def quietly() -> None:
            with contextlib.suppress(Exception, Own):
                await coroutine()

        return lambda *_: asyncio.get_running_loop().create_task(quietly())

    async def coroutine(*_: Any) -> Any:
        raise Own

    def removes_itself(delivery: Any) -> None:
        if isinstance(delivery, Delivery):
            delivery.remove_done_callback(removes_itself)

    def cancels(delivery: Any) -> None:
        if isinstance(delivery, Delivery):
            delivery.cancel()
            delivery.try_cancel()
            delivery.add_done_callback(again)

    def that_raises(error: Callable[[], BaseException]) -> Make:
        return lambda: raises(error)

    calling_back: dict[str, Any] = {
        "a function that sends": again,
        "a function that flushes": soon(lambda: producer.flush(LIMIT)),
        "a function that purges": lambda *_: producer.purge("zoo"),
        "a coroutine function that raises": coroutine,
        "a callback that removes itself": removes_itself,
        "a callback that cancels": cancels,
    }
    made: dict[str, Make] = {
        f"a function that raises {name}": that_raises(error) for name, error in ERRORS.items()
    }
    return made | {name: partial(_same, function) for name, function in calling_back.items()}


def _same(function: Any) -> Any:
    return function


async def scoped(wild: Wild, producer: Any) -> None:
    async with producer.scope() as scope:
        await producer.send("zoo", b"zoo", partition=0)
        await scope.flush(wild.maybe(LIMIT))


async def from_a_thread(wild: Wild, producer: Any) -> Any:
    given = wild.record()
    topic = wild.maybe("zoo")

    def send() -> Any:
        future = producer.send_threadsafe(topic, **given, max_block=MOST_SECONDS)
        return future.result(LIMIT)

    return await asyncio.to_thread(send)


async def streamed(wild: Wild) -> AsyncIterator[Any]:
    for record in wild.records():
        yield record
    if wild.rng.random() < 0.3:
        raise wild.one_of(ERRORS)


async def send_all(wild: Wild, producer: Any) -> Any:
    records = wild.maybe(wild.records() if wild.rng.random() < 0.5 else streamed(wild))
    told = None if wild.rng.random() < 0.8 else wild.function(producer)
    # Some have no end: then the call is cancelled.
    async with asyncio.timeout(4 * MOST_SECONDS):
        return await producer.send_all(records, on_progress=told)


def send_batch(wild: Wild, producer: Any) -> Any:
    return producer.send_batch(
        wild.maybe("zoo"),
        wild.maybe([b"1", b"2", b"3"]),
        keys=wild.maybe(None),
        partition=wild.maybe(0),
        timestamps=wild.maybe(None),
        headers=wild.maybe(None),
        timeout=wild.maybe(1.0),
    )


ABOUT_RECORDS: dict[str, Call] = {
    "send": lambda wild, producer: producer.send(
        wild.maybe("zoo"), **wild.record(), max_block=wild.maybe(MOST_SECONDS)
    ),
    "send_and_wait": lambda wild, producer: producer.send_and_wait(
        wild.maybe("zoo"), **wild.record(), max_block=MOST_SECONDS
    ),
    "send_nowait": lambda wild, producer: producer.send_nowait(wild.maybe("zoo"), **wild.record()),
    "send_batch": send_batch,
    "send_threadsafe": from_a_thread,
}
LOOKING: dict[str, Call] = {
    "send_all": send_all,
    "flush": lambda wild, producer: producer.flush(wild.maybe(LIMIT), resolve=wild.maybe(True)),
    "scope": scoped,
    "ready": lambda wild, producer: producer.ready(wild.maybe(LIMIT)),
    "partitions_for": lambda wild, producer: producer.partitions_for(
        wild.maybe("zoo"), timeout=wild.maybe(MOST_SECONDS)
    ),
    "purge": lambda wild, producer: producer.purge(not_everything(wild.thing())),
    "stats": lambda _, producer: producer.stats(),
    "health": lambda _, producer: producer.health(),
    "set_credentials": lambda wild, producer: producer.set_credentials(
        username=wild.thing(), password=wild.thing(), token_provider=wild.thing()
    ),
    "client_instance_id": lambda wild, producer: producer.client_instance_id(wild.maybe(MOST_SECONDS)),
    "register_metric": lambda wild, producer: producer.register_metric(
        wild.maybe("zoo.metric"),
        wild.function(producer),
        kind=wild.maybe("sum"),
        attributes=wild.maybe({"zoo": "lion"}),
    ),
    "unregister_metric": lambda wild, producer: producer.unregister_metric(wild.maybe("zoo.metric")),
    "reload_certificates": lambda _, producer: producer.reload_certificates(),
    "start": lambda wild, producer: producer.start(wait_ready=wild.thing()),
    "from_config": lambda wild, producer: type(producer).from_config(wild.thing()),
    "from_properties": lambda wild, producer: type(producer).from_properties({"linger.ms": wild.thing()}),
    "fence": lambda wild, producer: producer.fence(wild.thing(), timeout=wild.maybe(MOST_SECONDS)),
    "list_transactions": lambda wild, producer: producer.list_transactions(
        wild.thing(), timeout=wild.maybe(MOST_SECONDS)
    ),
    "committed_offsets": lambda wild, producer: producer.committed_offsets(
        wild.either(GROUPS), wild.either(OFFSETS), timeout=wild.maybe(MOST_SECONDS)
    ),
}
TRANSACTING: dict[str, Call] = {
    "transaction": lambda wild, producer: producer.transaction(timeout=wild.thing()),
    "run_transaction": lambda wild, producer: producer.run_transaction(
        wild.function(producer), wild.thing(), timeout=wild.maybe(MOST_SECONDS)
    ),
    "init_transactions": lambda wild, producer: producer.init_transactions(
        wild.thing(), timeout=wild.maybe(MOST_SECONDS)
    ),
    "begin_transaction": lambda wild, producer: producer.begin_transaction(timeout=wild.thing()),
    "send_offsets_to_transaction": lambda wild, producer: producer.send_offsets_to_transaction(
        wild.either(OFFSETS), wild.either(GROUPS), timeout=wild.maybe(LIMIT)
    ),
    "commit_transaction": lambda wild, producer: producer.commit_transaction(timeout=wild.thing()),
    "abort_transaction": lambda wild, producer: producer.abort_transaction(timeout=wild.thing()),
}
CallOn = Callable[[Wild, Any, Any], Any]
"""The same of something that the producer gave."""

DELIVERY: dict[str, CallOn] = {
    "wait": lambda wild, _, delivery: delivery.wait(wild.maybe(LIMIT)),
    "resolve_unknown": lambda wild, _, delivery: delivery.resolve_unknown(wild.maybe(LIMIT)),
    "add_done_callback": lambda wild, producer, delivery: delivery.add_done_callback(
        wild.function(producer), context=wild.maybe(None)
    ),
    "remove_done_callback": lambda wild, _, delivery: delivery.remove_done_callback(wild.thing()),
    "cancel": lambda wild, _, delivery: delivery.cancel(wild.thing()),
    "try_cancel": lambda _, __, delivery: delivery.try_cancel(),
    "done": lambda _, __, delivery: delivery.done(),
    "cancelled": lambda _, __, delivery: delivery.cancelled(),
    "result": lambda _, __, delivery: delivery.result(),
    "exception": lambda _, __, delivery: delivery.exception(),
    "get_loop": lambda _, __, delivery: delivery.get_loop(),
}
SENDING: dict[str, CallOn] = {
    "send": lambda wild, _, sending: sending.send(wild.maybe(None)),
    "throw": lambda wild, _, sending: sending.throw(wild.either(ERRORS), wild.maybe(None), wild.maybe(None)),
    "close": lambda _, __, sending: sending.close(),
}
TRANSACTION: dict[str, CallOn] = {
    "send_offsets": lambda wild, _, tx: tx.send_offsets(wild.either(OFFSETS), wild.either(GROUPS)),
    "consumed": lambda wild, _, tx: tx.consumed(wild.either(OFFSETS), wild.either(GROUPS)),
    "detach": lambda wild, _, tx: tx.detach(wild.thing()),
}
SCOPE: dict[str, CallOn] = {
    "flush": lambda wild, _, scope: scope.flush(wild.maybe(LIMIT), resolve=wild.maybe(True))
}
HANDLE: dict[str, CallOn] = {
    name: lambda wild, producer, handle, name=name: getattr(handle, name)(  # type: ignore[misc]
        wild.maybe(producer.config.bootstrap_servers),
        timeout=wild.maybe(MOST_SECONDS),
        linger_ms=wild.maybe(5),
    )
    for name in ("commit", "abort")
}
OF_THE_MOCK: dict[str, Call] = {
    "clear": lambda _, mock: mock.clear(),
    "complete_next": lambda wild, mock: mock.complete_next(wild.thing()),
    "complete_all": lambda wild, mock: mock.complete_all(wild.thing()),
    "fail_next": lambda wild, mock: mock.fail_next(wild.either(ERRORS), not_everything(wild.thing())),
    "fail_all": lambda wild, mock: mock.fail_all(wild.either(ERRORS), not_everything(wild.thing())),
    "fail_send": lambda wild, mock: mock.fail_send(wild.either(ERRORS), "zoo", times=wild.maybe(1)),
    "fail_delivery": lambda wild, mock: mock.fail_delivery(wild.either(ERRORS), "zoo", times=wild.maybe(1)),
    "fail_commit": lambda wild, mock: mock.fail_commit(wild.thing()),
    "fail_offsets": lambda wild, mock: mock.fail_offsets(wild.thing(), wild.thing()),
    "lose_commit_answer": lambda wild, mock: mock.lose_commit_answer(times=wild.thing()),
    "set_committed_offsets": lambda wild, mock: mock.set_committed_offsets(
        wild.either(GROUPS), wild.either(OFFSETS)
    ),
    "set_transaction": lambda wild, mock: mock.set_transaction(wild.thing(), wild.thing()),
}
BATCH_DELIVERY: dict[str, CallOn] = {
    "done": lambda _, __, many: many.done(),
}
KAFKA: dict[str, Call] = {
    "create_topic": lambda wild, kafka: kafka.create_topic(wild.thing(), wild.thing()),
    "delete_topic": lambda wild, kafka: kafka.delete_topic(wild.thing()),
    "add_partitions": lambda wild, kafka: kafka.add_partitions(wild.thing(), wild.thing()),
    "topic_id": lambda wild, kafka: kafka.topic_id(wild.thing()),
    "leader_of": lambda wild, kafka: kafka.leader_of(wild.thing(), wild.thing()),
    "limit_version": lambda wild, kafka: kafka.limit_version(wild.thing(), wild.thing(), wild.thing()),
    "set_transaction_version": lambda wild, kafka: kafka.set_transaction_version(wild.thing()),
    "subscribe_metrics": lambda wild, kafka: kafka.subscribe_metrics(wild.thing(), wild.thing()),
    "set_group": lambda wild, kafka: kafka.set_group(wild.thing(), wild.thing()),
    "coordinator_of": lambda wild, kafka: kafka.coordinator_of(wild.thing()),
    "records": lambda wild, kafka: kafka.records(wild.thing(), wild.thing()),
    "high_watermark": lambda wild, kafka: kafka.high_watermark(wild.thing(), wild.thing()),
    "last_stable_offset": lambda wild, kafka: kafka.last_stable_offset(wild.thing(), wild.thing()),
    "transaction": lambda wild, kafka: kafka.transaction(wild.thing()),
    "committed_offset": lambda wild, kafka: kafka.committed_offset(wild.thing(), wild.thing(), wild.thing()),
    "forget_requests": lambda _, kafka: kafka.forget_requests(),
}
