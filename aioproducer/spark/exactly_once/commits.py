"""The commits of a driver: the open transactions of thousands of tasks, over a few connections."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final

from aioproducer import CommitOutcomeUnknownError, Coordinators, ProducerConfig, TransactionHandle

__all__ = ["AT_ONCE", "commit_all"]

AT_ONCE: Final = 20
# Seconds after which an unanswered commit is repeated behind the others: a coordinator that is being elected holds up its own
# transactions only.
TURN: Final = 10.0
# The time without any answer that a cluster may take to recover: so many times `max_block_ms`.
LIMITS: Final = 3


async def commit_all(handles: Sequence[TransactionHandle], config: ProducerConfig) -> Mapping[str, Exception]:
    """Commit these transactions. Returns the errors of those that are not certainly committed, by transactional id.

    Ends when each has an answer, or when there was none for too long.
    """
    loop = asyncio.get_running_loop()
    limit = config.max_block_ms / 1000
    failed: dict[str, Exception] = {}
    left = deque(handles)
    until = loop.time() + LIMITS * limit

    async def work(coordinators: Coordinators) -> None:
        nonlocal until
        while left:
            handle = left.popleft()
            name, seconds = handle.transactional_id, min(TURN, limit, until - loop.time())
            if seconds <= 0:
                failed.setdefault(name, CommitOutcomeUnknownError(_NOT_TRIED))
                continue
            try:
                await _committed(handle, coordinators, seconds)
            except CommitOutcomeUnknownError as error:
                failed[name] = error
                left.append(handle)
                continue
            except Exception as error:  # noqa: BLE001  # told with its transaction
                failed[name] = error
            else:
                failed.pop(name, None)
            until = loop.time() + LIMITS * limit

    async with Coordinators.from_config(config) as coordinators, asyncio.TaskGroup() as group:
        for _ in range(min(AT_ONCE, len(handles))):
            group.create_task(work(coordinators))
    return failed


_NOT_TRIED: Final = "brokers answered no other commit of this job for too long"


async def _committed(handle: TransactionHandle, coordinators: Coordinators, timeout: float) -> None:
    await coordinators.commit(handle, timeout=timeout)
