"""The handlers of the APIs: one file for each, with Kafka's name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from aioproducer._wire.apis import API_VERSIONS
from aioproducer.testing.broker.call import Call, Handler, Message
from aioproducer.testing.broker.handlers import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    api_versions,
    create_partitions,
    create_topics,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_quorum,
    describe_transactions,
    end_txn,
    fetch,
    find_coordinator,
    get_telemetry_subscriptions,
    init_producer_id,
    list_offsets,
    list_transactions,
    metadata,
    offset_commit,
    offset_fetch,
    produce,
    push_telemetry,
    sasl_authenticate,
    sasl_handshake,
    txn_offset_commit,
)


def _answer_api_versions(call: Call) -> Message:
    return api_versions.answer_with(call, HANDLERS)


_ALL: Final = (
    Handler(API_VERSIONS, 0, 4, _answer_api_versions),
    add_offsets_to_txn.HANDLER,
    add_partitions_to_txn.HANDLER,
    create_partitions.HANDLER,
    create_topics.HANDLER,
    delete_topics.HANDLER,
    describe_cluster.HANDLER,
    describe_configs.HANDLER,
    describe_quorum.HANDLER,
    describe_transactions.HANDLER,
    end_txn.HANDLER,
    fetch.HANDLER,
    find_coordinator.HANDLER,
    get_telemetry_subscriptions.HANDLER,
    init_producer_id.HANDLER,
    list_offsets.HANDLER,
    list_transactions.HANDLER,
    metadata.HANDLER,
    offset_commit.HANDLER,
    offset_fetch.HANDLER,
    produce.HANDLER,
    push_telemetry.HANDLER,
    sasl_authenticate.HANDLER,
    sasl_handshake.HANDLER,
    txn_offset_commit.HANDLER,
)

HANDLERS: Final[Mapping[int, Handler]] = MappingProxyType({handler.key: handler for handler in _ALL})
