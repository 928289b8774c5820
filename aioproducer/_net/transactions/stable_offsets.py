"""The offsets that a group has committed, once no transaction is open that may change them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from aioproducer._callers.consumed import group_of, partitions_of
from aioproducer._net.connecting.connection.asking import answer_to
from aioproducer._net.transactions.coordinator import Coordinator, Key
from aioproducer._state.transactions.committed_offsets import committed_by, to_fetch_offsets
from aioproducer._state.transactions.coordinator_verdicts import Answer, Request
from aioproducer._state.transactions.replies import fatal_error
from aioproducer._wire.apis import OFFSET_FETCH
from aioproducer._wire.messages.offset_fetch import OffsetFetchResponse
from aioproducer.errors import KafkaError, ProtocolError, TransactionTimeoutError
from aioproducer.records import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from aioproducer._net.cluster.session import Session
    from aioproducer._net.connecting.connection.connection import Connection
    from aioproducer._net.connecting.idle_connections import IdleConnections

STABLE_FROM = 7
BEFORE_TOPIC_IDS = 9


async def fetch_committed(
    session: Session, group: str, partitions: Iterable[Any], timeout: float, idle: IdleConnections
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Ask the group's coordinator, and again while a transaction holds an offset back or an answer lacks an entry."""
    places = list(dict.fromkeys(partitions_of(partitions)))
    group = group_of(group).group_id
    coordinator = Coordinator(session, Key.GROUP, group, idle)
    found: dict[TopicPartition, OffsetAndMetadata] = {}

    async def attempt(connection: Connection) -> int:
        nonlocal found
        version = connection.versions.choose(OFFSET_FETCH, BEFORE_TOPIC_IDS, at_least=STABLE_FROM)
        answer = await answer_to(
            connection,
            to_fetch_offsets(group, places, version),
            OffsetFetchResponse,
            timeout=coordinator.timeout,
            version=version,
        )
        try:
            code, found = committed_by(answer, group, places, version)
        except ProtocolError:
            # As after an answer that cannot be read: another connection, or another coordinator, may answer better.
            coordinator.forget()
            raise
        return code

    try:
        async with asyncio.timeout(timeout):
            reply = await coordinator.settle(Request.FETCH_OFFSETS, attempt)
    except TimeoutError as error:
        if isinstance(error, KafkaError):
            raise
        raise TransactionTimeoutError(
            "timed out waiting for the group's offsets; an open transaction may hold them back",
            waited=timeout,
            cause=coordinator.trouble,
        ) from coordinator.trouble
    finally:
        coordinator.leave()
    if reply.answer is not Answer.DONE:
        raise fatal_error(reply)
    return found
