"""Ledgers: compacted topics that keep the last committed value of each key for as long as they exist.

Used by parts of this package that must find old commits again. Values are written by a producer, in the
same transaction as the records that they concern.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aioproducer._net.cluster.session import ShortSession
from aioproducer._net.ledgers.reading import last_values
from aioproducer._net.ledgers.topics import LedgerTopic, id_of, require_ledger
from aioproducer._state.cluster.facts import NO_TOPIC_ID
from aioproducer.config.seconds import checked_timeout
from aioproducer.errors import StateError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType
    from typing import Self

    from aioproducer._net.cluster.session import Session
    from aioproducer.config import ProducerConfig
    from aioproducer.producer import Producer

__all__ = ["Ledger", "LedgerTopic", "known_id", "present_id"]


class Ledger:
    """A ledger, over connections of its own: `async with Ledger(config, topic) as ledger:`.

    Each call takes `timeout` seconds at most (default: the setting `max_block_ms`).
    """

    def __init__(self, config: ProducerConfig, topic: LedgerTopic) -> None:
        self.config = config
        self.topic = topic
        self._session: Session | None = None
        self._own: ShortSession | None = None

    @classmethod
    def of(cls, producer: Producer[Any, Any], topic: LedgerTopic) -> Self:
        """The same for a running producer, whose control connection it uses."""
        ledger = cls(producer.config, topic)
        ledger._session = producer._running()  # noqa: SLF001  # the same package
        return ledger

    async def __aenter__(self) -> Self:
        self._session = self._own = ShortSession(self.config)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        own, self._session, self._own = self._own, None, None
        if own is not None:
            await own.__aexit__(kind, error, traceback)

    async def require(self, *, timeout: float | None = None) -> None:
        """Create the topic if it does not exist; raises if it cannot be used, with the command that mends it."""
        await require_ledger(self._asking(), self.topic, self._timeout(timeout))

    async def last_values(
        self, partitions: Iterable[int], wanted: Callable[[bytes], bool], *, timeout: float | None = None
    ) -> dict[bytes, bytes]:
        """The last committed value of each wanted key in these partitions.

        Open transactions without a wanted key are not waited for.
        """
        return await last_values(self._asking(), self.topic.name, partitions, wanted, self._timeout(timeout))

    def _asking(self) -> Session:
        if self._session is None:
            raise StateError("use `async with Ledger(...) as ledger:`")
        return self._session

    def _timeout(self, timeout: float | None) -> float:
        seconds = checked_timeout("timeout", timeout)
        return self.config.max_block_ms / 1000 if seconds is None else seconds


def known_id(producer: Producer[Any, Any], topic: str) -> str | None:
    """The id of a topic that this producer has written; None on brokers without such ids (before Kafka 2.8)."""
    facts = producer._running().view.topic(topic)  # noqa: SLF001  # the same package
    return None if facts is None else _text(facts.topic_id)


async def present_id(producer: Producer[Any, Any], topic: str) -> str | None:
    """The id of a topic as brokers say now; None if they do not say."""
    return _text(await id_of(producer._running(), topic))  # noqa: SLF001  # the same package


def _text(topic_id: bytes) -> str | None:
    return None if topic_id == NO_TOPIC_ID else topic_id.hex()
