"""Waits for an answer of the brokers: any answer, or one about a topic."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from aioproducer._net.observing.snapshot import out_of_reach, trouble_with
from aioproducer._state.admission.topic_errors import still_unknown
from aioproducer.errors import MetadataTimeoutError
from aioproducer.records import PartitionInfo

if TYPE_CHECKING:
    from collections.abc import Callable

    from aioproducer._net.runtime.engine import Engine


async def first_answer(engine: Engine, timeout: float | None, usable: Callable[[], object]) -> None:
    """Wait until a broker has answered a metadata request; `usable` raises the error that ends the wait."""
    try:
        async with asyncio.timeout(timeout):
            while not engine.cluster.known:
                await engine.cluster.metadata_changed()
                usable()
                engine.cluster.raise_denial()
    except TimeoutError:
        servers = ", ".join(str(server) for server in engine.config.bootstrap_servers)
        cause = out_of_reach(engine)
        raise MetadataTimeoutError(f"no broker answered ({servers})", waited=timeout, cause=cause) from cause


async def known_partitions(
    engine: Engine, topic: str, timeout: float, usable: Callable[[], object]
) -> tuple[PartitionInfo, ...]:
    """The partitions of a topic, when its metadata is known; `usable` raises the error that ends the wait."""
    try:
        async with asyncio.timeout(timeout):
            while (facts := engine.view.topic(topic)) is None:
                engine.cluster.raise_refusal(topic)
                engine.cluster.want(topic)
                await engine.cluster.metadata_changed()
                usable()
                engine.cluster.raise_denial()
    except TimeoutError:
        error = still_unknown(topic, timeout, trouble_with(engine, topic))
        raise error from error.cause
    return tuple(
        PartitionInfo(
            each.partition,
            None if each.leader < 0 else each.leader,
            each.replicas,
            each.in_sync,
            each.offline,
        )
        for each in facts.partitions
    )
