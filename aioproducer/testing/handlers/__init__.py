"""What this broker does with each API: one file for each, named as Kafka names it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from aioproducer._wire.apis import API_VERSIONS
from aioproducer.testing.call import Call, Handler, Message

from . import api_versions, init_producer_id, metadata, produce


def _answer_api_versions(call: Call) -> Message:
    return api_versions.answer_with(call, HANDLERS)


_ALL: Final = (
    Handler(API_VERSIONS, 0, 4, _answer_api_versions),
    init_producer_id.HANDLER,
    metadata.HANDLER,
    produce.HANDLER,
)

HANDLERS: Final[Mapping[int, Handler]] = MappingProxyType({handler.key: handler for handler in _ALL})
