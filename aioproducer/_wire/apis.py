"""Which APIs we speak, by key."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from aioproducer._wire.messages import MODULES
from aioproducer._wire.messages.declaration import AnyMessage, Api, Message

__all__ = ["APIS", "API_VERSIONS", "Api", "api_of", "message_of"]

API_VERSIONS = 18

APIS: Mapping[int, Api] = MappingProxyType({module.API.key: module.API for module in MODULES})

_API_OF = {kind: module.API for module in MODULES for kind in (module.API.request, module.API.response)}
_MESSAGES = {message.type: message for module in MODULES for message in (module.REQUEST, module.RESPONSE)}


def api_of(message_type: type[AnyMessage]) -> Api:
    """The API that a request or response belongs to."""
    return _API_OF[message_type]


def message_of(message_type: type[AnyMessage]) -> Message:
    """How a request or response is declared; TypeError for anything else."""
    try:
        return _MESSAGES[message_type]
    except (KeyError, TypeError):
        text = f"{message_type!r} is not the type of a Kafka request or response"
        raise TypeError(text) from None
