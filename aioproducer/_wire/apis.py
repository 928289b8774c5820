"""The APIs of the client, by key."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from aioproducer._wire.messages import (
    DEFINITIONS,
    add_offsets_to_txn,
    add_partitions_to_txn,
    api_versions,
    describe_transactions,
    end_txn,
    find_coordinator,
    get_telemetry_subscriptions,
    init_producer_id,
    list_transactions,
    offset_fetch,
    produce,
    push_telemetry,
    sasl_authenticate,
    sasl_handshake,
    txn_offset_commit,
)
from aioproducer._wire.messages.declaration import AnyMessage, Api, Message

PRODUCE = produce.API.key
OFFSET_FETCH = offset_fetch.API.key
FIND_COORDINATOR = find_coordinator.API.key
SASL_HANDSHAKE = sasl_handshake.API.key
API_VERSIONS = api_versions.API.key
INIT_PRODUCER_ID = init_producer_id.API.key
ADD_PARTITIONS = add_partitions_to_txn.API.key
ADD_OFFSETS = add_offsets_to_txn.API.key
END_TXN = end_txn.API.key
COMMIT_OFFSETS = txn_offset_commit.API.key
DESCRIBE_TRANSACTIONS = describe_transactions.API.key
SASL_AUTHENTICATE = sasl_authenticate.API.key
LIST_TRANSACTIONS = list_transactions.API.key
GET_TELEMETRY_SUBSCRIPTIONS = get_telemetry_subscriptions.API.key
PUSH_TELEMETRY = push_telemetry.API.key
# A broker that takes metrics of clients has both.
TELEMETRY_APIS = frozenset((GET_TELEMETRY_SUBSCRIPTIONS, PUSH_TELEMETRY))

APIS: Mapping[int, Api] = MappingProxyType({api.key: api for api, _, _ in DEFINITIONS})

_API_OF = {message.type: api for api, *messages in DEFINITIONS for message in messages}
_MESSAGE_OF = {message.type: message for _, *messages in DEFINITIONS for message in messages}


def api_of(message_type: type[AnyMessage]) -> Api:
    """The API of a request or response."""
    return _API_OF[message_type]


def message_of(message_type: type[AnyMessage]) -> Message:
    """The declaration of a request or response; TypeError for any other type."""
    try:
        return _MESSAGE_OF[message_type]
    except (KeyError, TypeError):
        text = f"{message_type!r} is not the type of a Kafka request or response"
        raise TypeError(text) from None
