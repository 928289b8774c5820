"""Questions about topics before anything is written."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Unpack

from aioproducer._net.cluster.session import ShortSession
from aioproducer._net.cluster.topic_checks import check_all
from aioproducer.config import BootstrapServers, ConnectionSettings, config_of_call
from aioproducer.config.seconds import checked_timeout
from aioproducer.errors import ConfigurationError

__all__ = ["check_topics"]


async def check_topics(
    topics: Iterable[str],
    /,
    bootstrap_servers: BootstrapServers,
    *,
    timeout: float | None = None,
    **settings: Unpack[ConnectionSettings],
) -> dict[str, int]:
    """How many partitions each of these topics has, if all of them are there and may be written; raises if not.

    For a start that should fail early, with `AuthorizationError` or `MetadataTimeoutError`. Waits at most `timeout` seconds
    (default: `max_block_ms`) for brokers that answer, and a moment for topics that were made just now. None is created.
    """
    # First: no frame of a traceback keeps a secret of the settings.
    config = config_of_call(bootstrap_servers, settings)
    if isinstance(topics, str):
        raise ConfigurationError(f"topics={topics!r:.60} is one str; pass a list of topic names")
    timeout = checked_timeout("timeout", timeout)
    async with ShortSession(config) as session:
        return await check_all(session, topics, config.max_block_ms / 1000 if timeout is None else timeout)
