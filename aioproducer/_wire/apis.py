"""The APIs of the client, by key."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from aioproducer._wire import messages
from aioproducer._wire.messages import DEFINITIONS
from aioproducer._wire.messages.declaration import AnyMessage, Api, Message

APIS: Mapping[int, Api] = MappingProxyType({api.key: api for api in DEFINITIONS})

_KEYS: Final = {api.name: api.key for api in DEFINITIONS}
PRODUCE: Final = _KEYS["Produce"]
FETCH: Final = _KEYS["Fetch"]
OFFSET_FETCH: Final = _KEYS["OffsetFetch"]
FIND_COORDINATOR: Final = _KEYS["FindCoordinator"]
SASL_HANDSHAKE: Final = _KEYS["SaslHandshake"]
API_VERSIONS: Final = _KEYS["ApiVersions"]
INIT_PRODUCER_ID: Final = _KEYS["InitProducerId"]
ADD_PARTITIONS: Final = _KEYS["AddPartitionsToTxn"]
ADD_OFFSETS: Final = _KEYS["AddOffsetsToTxn"]
END_TXN: Final = _KEYS["EndTxn"]
COMMIT_OFFSETS: Final = _KEYS["TxnOffsetCommit"]
DESCRIBE_TRANSACTIONS: Final = _KEYS["DescribeTransactions"]
SASL_AUTHENTICATE: Final = _KEYS["SaslAuthenticate"]
LIST_TRANSACTIONS: Final = _KEYS["ListTransactions"]
GET_TELEMETRY_SUBSCRIPTIONS: Final = _KEYS["GetTelemetrySubscriptions"]
PUSH_TELEMETRY: Final = _KEYS["PushTelemetry"]
# A broker that takes metrics of clients has both.
TELEMETRY_APIS = frozenset((GET_TELEMETRY_SUBSCRIPTIONS, PUSH_TELEMETRY))

# By the module of its messages.
_API_IN = {f"{messages.__name__}.{api.module}": api for api in DEFINITIONS}


def api_of(message_type: type[AnyMessage]) -> Api:
    """The API of a request or response."""
    return _API_IN[message_type.__module__]


def message_of(message_type: type[AnyMessage]) -> Message:
    """The declaration of a request or response; TypeError for any other type."""
    api = _API_IN.get(getattr(message_type, "__module__", ""))
    for message in () if api is None else api.messages:
        if message.type is message_type:
            return message
    text = f"{message_type!r} is not the type of a Kafka request or response"
    raise TypeError(text)
