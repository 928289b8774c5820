"""Transactions with arguments that lie, at random: a reader finds exactly the records that were reported as committed."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from aioproducer import (
    CommitOutcomeUnknownError,
    GroupMetadata,
    KafkaError,
    Outcome,
    RecordError,
    StateError,
    TransactionAbortedError,
)
from aioproducer.testing import EmbeddedKafka, MockProducer
from tests.callers.table import ABOUT_RECORDS, HANDLE, LOOKING, TRANSACTING, TRANSACTION, Call, Wild
from tests.callers.test_zoo import made
from tests.callers.zoo import ANYTHING, ERRORS, GROUPS, OFFSETS, OWN_ERRORS, LyingStr, Own
from tests.net.support import LIMIT, engine
from tests.net.support import Make as MakeProducer
from tests.net.transactional import NAME, seen
from tests.seeds import fresh_seed

TRANSACTIONS_OF_A_TEST = 40


def inside(tx: Any) -> dict[str, Call]:
    """Calls within a transaction: none ends or leaves it, except by its time limit."""
    on_it: dict[str, Call] = {
        f"Transaction.{name}": lambda wild, producer, call=call: call(wild, producer, tx)  # type: ignore[misc]
        for name, call in TRANSACTION.items()
        if name != "detach"
    }
    about_others = {name: LOOKING[name] for name in ("flush", "partitions_for", "list_transactions")}
    return {
        **on_it,
        **about_others,
        "send": ABOUT_RECORDS["send"],
        "begin_transaction": TRANSACTING["begin_transaction"],
        "send_offsets_to_transaction": TRANSACTING["send_offsets_to_transaction"],
        "transaction": TRANSACTING["transaction"],
    }


async def one(wild: Wild, producer: Any, value: bytes) -> bool:
    """A transaction of one good record, and of calls that lie: whether it was committed."""
    try:
        async with producer.transaction(timeout=LIMIT) as tx:
            await producer.send("one", value, partition=0)
            tx.send_offsets({("source", 0): 7}, "good")
            for _ in range(wild.rng.randrange(4)):
                name, call = wild.rng.choice(list(inside(tx).items()))
                wild.drawn.append(name)
                await made(name, partial(call, wild, producer), RuntimeError)
            if wild.rng.random() < 0.2:
                raise wild.one_of(ERRORS)
            if wild.rng.random() < 0.2:
                await made("commit_transaction", lambda: TRANSACTING["commit_transaction"](wild, producer))
            elif wild.rng.random() < 0.2:
                await producer.abort_transaction()
                return False
    except (TransactionAbortedError, *OWN_ERRORS):
        return False
    except CommitOutcomeUnknownError as error:
        raise AssertionError("nothing is unknown here") from error
    except KafkaError as error:
        # Drawn from the zoo, or why the block was left.
        assert "a lie" in str(error), error  # noqa: PT017  # any may come
        return False
    return True


async def judged(wild: Wild, producer: Any, read: Callable[[], list[Any]]) -> None:
    """Transactions, and what a reader finds after them."""
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)
    committed = []
    for number in range(TRANSACTIONS_OF_A_TEST):
        wild.drawn.clear()
        value = b"good %d" % number
        try:
            async with asyncio.timeout(LIMIT):
                if await one(wild, producer, value):
                    committed.append(value)
        except BaseException as error:
            error.add_note(f"transaction {number} with {wild.drawn}")
            raise
        assert producer.health().state == "running", f"transaction {number} with {wild.drawn}"
        assert read() == committed, f"transaction {number} with {wild.drawn}"
    async with producer.transaction():
        await producer.send("one", b"good, and the last", partition=0)
    assert read() == [*committed, b"good, and the last"]


async def test_transactions_at_random(make: MakeProducer, ledger: EmbeddedKafka) -> None:
    """In both versions of the protocol."""
    wild = Wild(random.Random(fresh_seed()))
    ledger.create_topic("zoo", 1)
    producer = make(ledger, transactional_id=NAME)
    await producer.start()

    def read() -> list[Any]:
        return [value for value in seen(ledger) if (value or b"").startswith(b"good")]

    await judged(wild, producer, read)
    assert ledger.committed_offset("good", "source") == 7
    assert (await producer.close(LIMIT)).unknown == 0


async def test_transactions_of_the_mock_at_random() -> None:
    """The mock tells the same."""
    wild = Wild(random.Random(fresh_seed()))
    async with MockProducer(transactional_id=NAME) as mock:

        def read() -> list[Any]:
            mine = [record for record in mock.committed if record.topic == "one"]
            return [record.value for record in mine if (record.value or b"").startswith(b"good")]

        await judged(wild, mock, read)


@pytest.fixture(params=["producer", "mock"])
async def transactional(request: pytest.FixtureRequest, make: MakeProducer, kafka: EmbeddedKafka) -> Any:
    """A running transactional producer, and its mock."""
    if request.param == "mock":
        mock: MockProducer[Any, Any] = MockProducer(transactional_id=NAME)
        await mock.start()
        return mock
    kafka.create_topic("source", 2)
    producer = make(kafka, transactional_id=NAME)
    await producer.start()
    return producer


@pytest.mark.parametrize("wrong", sorted({*GROUPS, *OFFSETS} - {"a group", "offsets"}))
async def test_offsets_that_lie(wrong: str, transactional: Any) -> None:
    """They are refused by the call with nothing recorded, or taken over as they are then: the transaction is committed."""
    async with transactional.transaction() as tx:
        await transactional.send("one", b"good", partition=0)
        for call in (tx.send_offsets, tx.consumed, transactional.send_offsets_to_transaction):
            offsets = OFFSETS.get(wrong, OFFSETS["offsets"])()
            group = GROUPS.get(wrong, GROUPS["a group"])()
            try:
                result = call(offsets, group)
                if result is not None:
                    await result
            except RecordError as error:
                assert error.outcome is Outcome.NOT_WRITTEN  # noqa: PT017  # it may be taken as well
        # Unsent records are not checked for callers that lied.
        tx.send_offsets([], "zoo")
    assert transactional.health().state == "running"
    await transactional.close()


async def test_names_that_lie_are_taken_over(make: MakeProducer, kafka: EmbeddedKafka) -> None:
    """Later results of a subclass of `str` have no effect: the plain text is sent."""
    kafka.create_topic("source", 1)
    producer = make(kafka, transactional_id=LyingStr(NAME))
    await producer.start()
    group = GroupMetadata(LyingStr("g"), -1, "")
    async with producer.transaction() as tx:
        tx.send_offsets({(LyingStr("source"), 0): 5}, group)
    await producer.init_transactions(LyingStr("another"))
    async with producer.transaction() as tx:
        tx.send_offsets({("source", 0): 6}, LyingStr("g"))
    assert kafka.committed_offset("g", "source") == 6
    transactions = engine(producer).transactions
    assert transactions is not None
    assert type(transactions.transactional_id) is str
    assert [one.transactional_id for one in await producer.list_transactions(LyingStr("ano"))] == ["another"]


async def test_a_mapping_that_calls_back(transactional: Any) -> None:
    """Offsets that begin, end and use the transaction while they are read."""
    tried: list[BaseException | None] = []

    class CallsBack(dict[Any, Any]):
        def items(self) -> Any:
            tx.send_offsets({("source", 0): 1}, "g")
            for call in (transactional.commit_transaction, transactional.abort_transaction):
                # One step: a call that waits is given up at once, and its operation goes on.
                coroutine = call()
                coroutine.close()
            transactional.send_nowait("one", b"again", partition=0)
            yield ("source", 1), 2
            tried.append(None)

    async with transactional.transaction() as tx:
        await transactional.send("one", b"good", partition=0)
        tx.send_offsets(CallsBack(), "g")
    assert tried == [None]
    await transactional.close()


@pytest.mark.parametrize("name", ERRORS)
async def test_what_the_block_raises(name: str, transactional: Any) -> None:
    """Whatever class it is of: the transaction is aborted, and the next one is committed."""
    with pytest.raises(BaseException) as caught:
        async with transactional.transaction():
            await transactional.send("one", b"aborted", partition=0)
            error = ERRORS[name]()
            raise error
    assert type(caught.value) in {type(ERRORS[name]()), RuntimeError}
    async with transactional.transaction():
        await transactional.send("one", b"good", partition=0)
    await transactional.close()


async def test_functions_that_lie(transactional: Any) -> None:
    """The function for `run_transaction()` may raise anything, half way too, and may be no coroutine function."""

    def half() -> Iterator[Any]:
        yield transactional.send("one", b"half", partition=0)
        raise Own

    async def sends_half() -> None:
        for sending in half():
            await sending

    for function, error in (
        (sends_half, Own),
        (5, TypeError),
        (lambda: 5, TypeError),
        (lambda: 1 / 0, ZeroDivisionError),
    ):
        with pytest.raises(error):
            await transactional.run_transaction(function, timeout=1)

    async def begins_again() -> None:
        async with transactional.transaction():
            """Not possible within one."""

    with pytest.raises(StateError):
        await transactional.run_transaction(begins_again, timeout=1)
    async with transactional.transaction():
        await transactional.send("one", b"good", partition=0)
    await transactional.close()


async def test_handles_that_are_given_lies(make: MakeProducer, ledger: EmbeddedKafka) -> None:
    """A detached transaction is ended by the first call that does not lie."""
    wild = Wild(random.Random(fresh_seed()))
    producer = make(ledger, transactional_id=NAME)
    await producer.start()
    async with producer.transaction() as tx:
        await producer.send("one", b"good", partition=0)
        for wrong in ("a huge int", "nan", "text"):
            with pytest.raises(KafkaError):
                await tx.detach(ANYTHING[wrong]())
        handle = await tx.detach(LIMIT)
    for _ in range(10):
        await made("TransactionHandle.commit", lambda: HANDLE["commit"](wild, producer, handle))
    await handle.commit(ledger.bootstrap_servers, timeout=LIMIT)
    assert seen(ledger) == [b"good"]
    await producer.close()


async def test_a_block_that_fails_while_the_producer_closes(transactional: Any) -> None:
    """The error of the user is raised; close() aborts the transaction."""
    with pytest.raises(ZeroDivisionError):
        async with transactional.transaction():
            await transactional.send("one", b"aborted", partition=0)
            closing = asyncio.ensure_future(transactional.close(LIMIT))
            await asyncio.sleep(0)
            raise ZeroDivisionError
    await closing
