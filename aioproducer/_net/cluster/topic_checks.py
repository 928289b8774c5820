"""Checks of topics before any record is sent: for jobs that would otherwise fail in many places at once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING

import anyio

from aioproducer._state.admission.checking import checked_topic
from aioproducer._state.admission.topic_errors import (
    REFUSALS,
    may_write,
    refusal_of,
    said_of_topic,
)
from aioproducer._state.connecting.topic_question import question_about
from aioproducer._wire.error_codes import ErrorCode
from aioproducer._wire.messages.metadata import MetadataResponse, MetadataResponseTopic
from aioproducer.errors import AuthorizationError, BrokerUnavailableError, KafkaError, MetadataTimeoutError

if TYPE_CHECKING:
    from aioproducer._net.cluster.session import Session

# Brokers that answer know their topics, except for one that was created just now.
MADE_JUST_NOW = 3.0


async def check_all(session: Session, names: Iterable[str], timeout: float) -> dict[str, int]:
    """The partition count of each of these topics; raises if one does not exist or may not be written."""
    topics = list(dict.fromkeys(map(checked_topic, names)))
    missing: list[str] = []
    trouble: KafkaError | None = None

    async def answered() -> dict[str, int]:
        nonlocal missing, trouble
        until: float | None = None
        while True:
            try:
                found = await _asked(session, topics)
            except BrokerUnavailableError as error:
                trouble = error
            else:
                missing = [name for name in topics if name not in found]
                now = session.loop.time()
                until = now + MADE_JUST_NOW if until is None else until
                if not missing:
                    return found
                if now >= until:
                    raise TimeoutError
            await anyio.sleep(session.config.retry_backoff_ms / 1000)

    began = session.loop.time()
    try:
        async with asyncio.timeout(timeout):
            return await answered()
    except TimeoutError as error:
        if isinstance(error, KafkaError):
            raise
        waited = session.loop.time() - began
        if missing:
            raise _not_there(missing, waited) from None
        raise MetadataTimeoutError(
            "no broker returned topic metadata", waited=waited, cause=trouble
        ) from trouble


def _not_there(names: list[str], waited: float) -> MetadataTimeoutError:
    others = f" (and {len(names) - 1} more)" if len(names) > 1 else ""
    cause = said_of_topic(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return MetadataTimeoutError(
        f"the topic does not exist{others}", topic=names[0], waited=waited, cause=cause
    )


async def _asked(session: Session, topics: list[str]) -> dict[str, int]:
    answer = await session.control.ask(question_about(topics), MetadataResponse)
    return {topic.name: len(topic.partitions) for topic in answer.topics if topic.name and _is_there(topic)}


def _is_there(topic: MetadataResponseTopic) -> bool:
    name = topic.name or ""
    if topic.error_code in REFUSALS:
        raise refusal_of(name, topic.error_code)
    if topic.error_code == 0 and not may_write(topic.topic_authorized_operations):
        raise AuthorizationError("the principal may describe the topic, but not write it", topic=name)
    return bool(topic.partitions)
