"""The question whether topics exist and may be written: it creates no topic, and asks each broker in its version."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from aioproducer._wire.apis import api_of
from aioproducer._wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

if TYPE_CHECKING:
    from aioproducer._state.connecting.opening import BrokerVersions

__all__ = ["question_about"]

# Brokers tell the operations that they allow from Kafka 2.3 on.
_TELLS_OPERATIONS: Final = 8


def question_about(topics: Iterable[str]) -> Callable[[BrokerVersions], MetadataRequest]:
    """The request for these topics, as a broker with these versions understands it."""
    names = list(topics)

    def question(versions: BrokerVersions) -> MetadataRequest:
        return MetadataRequest(
            topics=[MetadataRequestTopic(name=name) for name in names],
            # A misspelled name must fail and not create a topic.
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=versions.choose(api_of(MetadataResponse).key)
            >= _TELLS_OPERATIONS,
        )

    return question
