"""Transactions of other producers: ended through a handle, fenced, listed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import anyio

from aioproducer._net.connecting.connection.asking import answer_to
from aioproducer._net.transactions.conversation import ask, converse
from aioproducer._net.transactions.coordinator import Coordinator, Key
from aioproducer._net.transactions.questions import Questions
from aioproducer._state.cluster.metadata import unusable
from aioproducer._state.connecting.endpoint import BrokerEndpoint
from aioproducer._state.identity.standing import NOBODY
from aioproducer._state.transactions.coordinator_verdicts import Answer, Request, judge
from aioproducer._state.transactions.dialogues.handles import end_handle
from aioproducer._state.transactions.dialogues.steps import Ask, RequestIdentity
from aioproducer._state.transactions.replies import Reply, fatal_error
from aioproducer._state.transactions.requests import pattern_of
from aioproducer._wire.apis import LIST_TRANSACTIONS
from aioproducer._wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from aioproducer._wire.messages.metadata import MetadataRequest, MetadataResponse
from aioproducer.config import checked_prefix, checked_transactional_ids
from aioproducer.errors import (
    AuthenticationError,
    BrokerUnavailableError,
    CommitOutcomeUnknownError,
    KafkaError,
    StateError,
    TransactionTimeoutError,
)
from aioproducer.records import TransactionListing

if TYPE_CHECKING:
    from aioproducer._net.cluster.session import Session
    from aioproducer._net.connecting.connection.connection import Connection
    from aioproducer._net.connecting.idle_connections import IdleConnections
    from aioproducer._state.transactions.dialogues.steps import Step

T = TypeVar("T")
# The number of coordinators that one call of fence() asks at once.
AT_ONCE = 20
# No transaction is begun under the epoch of a call of fence(): its time limit is below each that brokers may allow.
NO_TRANSACTION_MS = 1000
PATTERNS_FROM = 2
# Before that version the answer has all ids that the broker coordinates, without a limit. Two million ids are about this long; the
# answer is read in place and kept only while it is read.
LONGEST_LISTING = 128 * 1024 * 1024
SLICE = 5000


async def end_foreign(
    session: Session,
    facts: tuple[str, int, int, int],
    timeout: float,
    idle: IdleConnections,
    *,
    committed: bool,
) -> None:
    """Commit or abort the transaction of a handle, in its protocol level."""
    transactional_id, *identity, level = facts
    coordinator = Coordinator(session, Key.TRANSACTION, transactional_id, idle)
    questions = Questions(session, transactional_id, level)
    dialogue = end_handle((identity[0], identity[1]), level, committed=committed)
    try:
        async with asyncio.timeout(timeout):
            await converse(dialogue, partial(_perform, coordinator, questions))
    except StateError as error:
        if not committed:
            raise
        raise CommitOutcomeUnknownError(str(error), cause=coordinator.trouble) from coordinator.trouble
    except TimeoutError as error:
        if isinstance(error, KafkaError):
            raise
        kind = CommitOutcomeUnknownError if committed else TransactionTimeoutError
        text = f"no answer to the {'commit' if committed else 'abort'} came in time: repeat it with the same handle"
        raise kind(text, waited=timeout, cause=coordinator.trouble) from coordinator.trouble
    finally:
        coordinator.leave()


async def _perform(coordinator: Coordinator, questions: Questions, step: Step) -> Reply:
    assert isinstance(step, Ask)  # noqa: S101  # without a producer there is nothing else to do
    return await ask(coordinator, questions, step)


async def fence_all(session: Session, names: Iterable[str], timeout: float, idle: IdleConnections) -> None:
    """Get a new epoch for each of these ids."""
    limiter = anyio.CapacityLimiter(AT_ONCE)
    coordinators = [
        Coordinator(session, Key.TRANSACTION, name, idle) for name in checked_transactional_ids(names)
    ]

    async def fence_one(coordinator: Coordinator) -> None:
        async with limiter:
            await _fence(session, coordinator)

    async def fence() -> None:
        # A failure of one does not stop the others.
        outcomes = await asyncio.gather(*map(fence_one, coordinators), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome

    def trouble() -> KafkaError | None:
        return next((each.trouble for each in coordinators if each.trouble is not None), None)

    await _in_time(fence(), timeout, trouble)


async def _fence(session: Session, coordinator: Coordinator) -> None:
    questions = Questions(session, coordinator.name, level=1)

    async def attempt(connection: Connection) -> int:
        question = RequestIdentity(NOBODY, NO_TRANSACTION_MS)
        return (await questions.ask(connection, question)).code  # type: ignore[no-any-return]

    try:
        reply = await coordinator.settle(Request.INIT_PRODUCER_ID, attempt)
    finally:
        coordinator.leave()
    if reply.answer is not Answer.DONE:
        raise fatal_error(reply)


async def list_all(
    session: Session, prefix: str, timeout: float, idle: IdleConnections
) -> list[TransactionListing]:
    """Ask every broker for the transactional ids that it coordinates."""
    prefix = checked_prefix(prefix)
    trouble: KafkaError | None = None

    async def ask() -> list[TransactionListing]:
        nonlocal trouble
        while True:
            others = session.addresses.others
            try:
                return await _listed_by_all(session, prefix, idle)
            except AuthenticationError as error:
                # The slowest broker may have answered behind other credentials.
                if others == session.addresses.others:
                    raise
                trouble = error
            except BrokerUnavailableError as error:
                trouble = error
            with session.addresses.until_closed():
                await anyio.sleep(session.config.retry_backoff_ms / 1000)

    listings = await _in_time(ask(), timeout, lambda: trouble)
    found = {one.transactional_id: one for one in listings}
    return [found[name] for name in sorted(found)]


async def _listed_by_all(session: Session, prefix: str, idle: IdleConnections) -> list[TransactionListing]:
    metadata = await session.control.ask(MetadataRequest(topics=[]), MetadataResponse)
    by = session.control.answered_by
    why = unusable(metadata)
    if why is not None:
        # An empty list would say that there are no orphans.
        session.control.close()
        raise BrokerUnavailableError(f"the broker's metadata is unusable: {why}")
    # All of them end before an error is raised; otherwise some would go on after it.
    answers = await asyncio.gather(
        *(
            _listed(session, BrokerEndpoint.advertised(each.host, each.port, each.node_id, by), prefix, idle)
            for each in metadata.brokers
        ),
        return_exceptions=True,
    )
    found: list[TransactionListing] = []
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
        found += answer
    return found


async def _listed(
    session: Session, endpoint: BrokerEndpoint, prefix: str, idle: IdleConnections
) -> list[TransactionListing]:
    connection = idle.take(endpoint.address) or await session.addresses.dial(endpoint)
    timeout = session.config.request_timeout_ms / 1000
    try:
        version = connection.versions.choose(LIST_TRANSACTIONS)
        question = ListTransactionsRequest(
            transactional_id_pattern=pattern_of(prefix) if version >= PATTERNS_FROM else None
        )
        while True:
            answer = await answer_to(
                connection,
                question,
                ListTransactionsResponse,
                timeout=timeout,
                version=version,
                answer_limit=LONGEST_LISTING,
            )
            meaning = judge(Request.LIST, answer.error_code)
            if meaning not in (Answer.RETRY, Answer.LOOK_UP):
                break
            await anyio.sleep(session.config.retry_backoff_ms / 1000)
    except BaseException:
        connection.close()
        raise
    idle.leave(endpoint.address, connection)
    if meaning is not Answer.DONE:
        raise fatal_error(Reply(endpoint.name, meaning, Request.LIST, answer.error_code))
    return await _with_prefix(answer, prefix)


async def _with_prefix(answer: ListTransactionsResponse, prefix: str) -> list[TransactionListing]:
    """The matching entries of an answer. It may have a million ids, so slices leave the loop free."""
    found = []
    for number, state in enumerate(answer.transaction_states):
        if number % SLICE == SLICE - 1:
            await asyncio.sleep(0)
        if state.transactional_id.startswith(prefix):
            found.append(TransactionListing(*state))
    return found


async def _in_time(work: Awaitable[T], timeout: float, trouble: Callable[[], KafkaError | None]) -> T:
    try:
        async with asyncio.timeout(timeout):
            return await work
    except TimeoutError as error:
        if isinstance(error, KafkaError):
            raise
        cause = trouble()
        raise TransactionTimeoutError(
            "the brokers did not answer in time", waited=timeout, cause=cause
        ) from cause
