"""What this broker does with each API: one file for each, named as Kafka names it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from aioproducer._wire.apis import API_VERSIONS
from aioproducer.testing.call import Call, Handler, Message

from . import (
    api_versions,
    create_partitions,
    create_topics,
    delete_topics,
    describe_cluster,
    describe_configs,
    fetch,
    find_coordinator,
    init_producer_id,
    list_offsets,
    metadata,
    offset_commit,
    offset_fetch,
    produce,
)


def _answer_api_versions(call: Call) -> Message:
    return api_versions.answer_with(call, HANDLERS)


_ALL: Final = (
    Handler(API_VERSIONS, 0, 4, _answer_api_versions),
    create_partitions.HANDLER,
    create_topics.HANDLER,
    delete_topics.HANDLER,
    describe_cluster.HANDLER,
    describe_configs.HANDLER,
    fetch.HANDLER,
    find_coordinator.HANDLER,
    init_producer_id.HANDLER,
    list_offsets.HANDLER,
    metadata.HANDLER,
    offset_commit.HANDLER,
    offset_fetch.HANDLER,
    produce.HANDLER,
)

HANDLERS: Final[Mapping[int, Handler]] = MappingProxyType({handler.key: handler for handler in _ALL})
