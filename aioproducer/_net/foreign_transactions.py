"""Transactions of others: ended through a handle, fenced because their owners are gone, listed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from typing import TYPE_CHECKING, TypeVar

import anyio

from aioproducer._net.coordinator import Coordinator, Key, Said, fatal_error
from aioproducer._net.standing import ABORTED, standing_of
from aioproducer._state.coordinator_verdicts import Answer, Request
from aioproducer._state.transaction_versions import END_TXN, INIT_PRODUCER_ID, version_for
from aioproducer._wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from aioproducer._wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from aioproducer._wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from aioproducer._wire.messages.metadata import MetadataRequest, MetadataResponse
from aioproducer.config import checked_transactional_ids
from aioproducer.errors import (
    BrokerUnavailableError,
    CommitOutcomeUnknownError,
    KafkaError,
    TransactionAbortedError,
    TransactionTimeoutError,
)
from aioproducer.records import TransactionListing

if TYPE_CHECKING:
    from aioproducer._net.connection import Connection
    from aioproducer._net.session import Session

T = TypeVar("T")
# Whoever is asked to fence many asks this many coordinators at once.
AT_ONCE = 20
COORDINATOR_LOAD_IN_PROGRESS = 14


async def end_foreign(
    session: Session, facts: tuple[str, int, int, int], patience: float, *, committed: bool
) -> None:
    """Commit or abort the transaction of a handle, in the version that it was written in."""
    name, producer_id, epoch, level = facts
    coordinator = Coordinator(session, Key.TRANSACTION, name)

    async def attempt(connection: Connection) -> int:
        version = version_for(connection.versions, END_TXN, level)
        question = EndTxnRequest(name, producer_id, epoch, committed)
        answer = await connection.request(
            question, EndTxnResponse, timeout=coordinator.timeout, version=version
        )
        return answer.error_code

    request = Request.COMMIT if committed else Request.ABORT
    try:
        async with asyncio.timeout(patience):
            said = await coordinator.settle(request, attempt)
            if said.answer is Answer.DONE:
                return
            await _explain(coordinator, said, producer_id, epoch, committed=committed)
    except TimeoutError as error:
        if isinstance(error, KafkaError):
            raise
        if committed:
            raise CommitOutcomeUnknownError(
                "no answer to the commit came in time: repeat it with the same handle", waited=patience
            ) from None
        raise TransactionTimeoutError(waited=patience) from None
    finally:
        coordinator.forget()


async def _explain(
    coordinator: Coordinator, said: Said, producer_id: int, epoch: int, *, committed: bool
) -> None:
    """What a refusal means: the coordinator aborted it as its time was over, or another producer has taken over."""
    standing = await standing_of(coordinator) if said.answer is Answer.SUPERSEDED else None
    if standing is not None and standing.follows((producer_id, epoch), ABORTED):
        if not committed:
            return
        raise TransactionAbortedError(
            "the transaction was aborted before this commit: its time (transaction_timeout_ms) was over, or its handle "
            "was aborted",
            retriable=False,
        )
    raise fatal_error(said)


async def fence_all(session: Session, names: Iterable[str], patience: float) -> None:
    """Get a new epoch for each of these ids."""
    limiter = anyio.CapacityLimiter(AT_ONCE)
    wanted = checked_transactional_ids(names)

    async def fence_one(name: str) -> None:
        async with limiter:
            await _fence(session, name)

    async def fence() -> None:
        outcomes = await asyncio.gather(*map(fence_one, wanted), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome

    await _in_time(fence(), patience)


async def _fence(session: Session, name: str) -> None:
    coordinator = Coordinator(session, Key.TRANSACTION, name)

    async def attempt(connection: Connection) -> int:
        question = InitProducerIdRequest(name, session.config.transaction_timeout_ms)
        version = connection.versions.choose(INIT_PRODUCER_ID)
        answer = await connection.request(
            question, InitProducerIdResponse, timeout=coordinator.timeout, version=version
        )
        return answer.error_code

    try:
        said = await coordinator.settle(Request.INIT_PRODUCER_ID, attempt)
        if said.answer is not Answer.DONE:
            raise fatal_error(said)
    finally:
        coordinator.forget()


async def list_all(session: Session, prefix: str, patience: float) -> list[TransactionListing]:
    """Ask every broker: each knows of the transactional ids that it coordinates."""

    async def ask() -> list[TransactionListing]:
        while True:
            try:
                brokers = (await session.control.ask(MetadataRequest(topics=[]), MetadataResponse)).brokers
                answers = await asyncio.gather(*(_listed(session, each.host, each.port) for each in brokers))
                break
            except BrokerUnavailableError:
                await anyio.sleep(session.config.retry_backoff_ms / 1000)
        found = {one.transactional_id: one for answer in answers for one in answer}
        return [found[name] for name in sorted(found) if name.startswith(prefix)]

    return await _in_time(ask(), patience)


async def _listed(session: Session, host: str, port: int) -> list[TransactionListing]:
    connection = await session.addresses.dial(host, port)
    timeout = session.config.request_timeout_ms / 1000
    try:
        while True:
            answer = await connection.request(
                ListTransactionsRequest(), ListTransactionsResponse, timeout=timeout
            )
            if answer.error_code != COORDINATOR_LOAD_IN_PROGRESS:
                break
            await anyio.sleep(session.config.retry_backoff_ms / 1000)
    finally:
        connection.close()
    return [TransactionListing(*state) for state in answer.transaction_states]


async def _in_time(work: Awaitable[T], patience: float) -> T:
    try:
        async with asyncio.timeout(patience):
            return await work
    except TimeoutError as error:
        if isinstance(error, KafkaError):
            raise
        raise TransactionTimeoutError("the brokers did not answer in time", waited=patience) from None
