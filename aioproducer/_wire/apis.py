"""Which APIs we speak, by key."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from aioproducer._wire.messages import DEFINITIONS
from aioproducer._wire.messages.declaration import AnyMessage, Api, Message

__all__ = ["APIS", "API_VERSIONS", "Api", "api_of", "message_of"]

API_VERSIONS = 18

APIS: Mapping[int, Api] = MappingProxyType({api.key: api for api, _, _ in DEFINITIONS})

_API_OF = {message.type: api for api, *messages in DEFINITIONS for message in messages}
_MESSAGE_OF = {message.type: message for _, *messages in DEFINITIONS for message in messages}


def api_of(message_type: type[AnyMessage]) -> Api:
    """The API that a request or response belongs to."""
    return _API_OF[message_type]


def message_of(message_type: type[AnyMessage]) -> Message:
    """How a request or response is declared; TypeError for anything else."""
    try:
        return _MESSAGE_OF[message_type]
    except (KeyError, TypeError):
        text = f"{message_type!r} is not the type of a Kafka request or response"
        raise TypeError(text) from None
