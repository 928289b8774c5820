"""A changing set of producers, held weakly, whose counters outlive them."""

from __future__ import annotations

import logging
import math
import time
import weakref
from collections import deque
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import attrs

from aioproducer._metrics.locks import ForkSafeLock
from aioproducer._metrics.readings import Counts, gauges_of, merged

if TYPE_CHECKING:
    from aioproducer._metrics.readings import Key
    from aioproducer._metrics.topic_names import TopicNames
    from aioproducer.config import ProducerConfig
    from aioproducer.producer import Producer
    from aioproducer.stats import Stats

__all__ = ["ClientReading", "Producers"]

log: Final = logging.getLogger("aioproducer")

# Client ids without a producer whose counters are kept.
MOST_FORMER_CLIENTS: Final = 1000
# A producer that cannot be read is logged at this interval.
LOG_INTERVAL: Final = 10.0


@attrs.frozen
class ClientReading:
    """The sums over all producers of one `client_id`; gauges and `configs` are those of present producers."""

    client_id: str
    counts: Counts
    gauges: dict[Key, float]
    configs: tuple[ProducerConfig, ...]


@attrs.define(eq=False)
class _Member:
    """One producer, until it is garbage-collected."""

    reference: weakref.ref[Producer[Any, Any]]
    config: ProducerConfig
    topics: TopicNames
    counts: Counts = attrs.Factory(Counts)
    is_shown: bool = True
    has_ended: bool = False
    """The finalizer of the producer has run. Another thread may still hold it for a moment."""


@attrs.define(eq=False)
class _Client:
    """The producers of one `client_id`."""

    former: Counts = attrs.Factory(Counts)
    """The counters of producers that were garbage-collected."""
    members: list[_Member] = attrs.Factory(list)
    is_shown: bool = True


class Producers:
    """Producers that come and go. For any thread.

    The counters of a `client_id` never go back. A producer that is garbage-collected leaves its counters. One that is
    removed leaves those of that moment; the `client_id` is not shown while all of its producers are removed.
    """

    def __init__(self, lock: ForkSafeLock | None = None) -> None:
        self._clients: dict[str, _Client] = {}
        # Last statistics, from finalizers: these run in any thread, and in the middle of any call.
        self._last: deque[tuple[_Member, Stats | None]] = deque()
        # Reentrant: a finalizer of the program may call add() or remove().
        self._lock = ForkSafeLock() if lock is None else lock
        self._logged_at = -math.inf

    def add(self, producer: Producer[Any, Any], topics: TopicNames) -> None:
        """Show this producer, with these topics; a second call changes nothing."""
        config = producer.config
        with self._lock:
            self._let_go()
            client = self._clients.setdefault(config.client_id, _Client())
            client.is_shown = True
            member = _member(client, producer)
            if member is None:
                member = _Member(weakref.ref(producer), config, topics)
                producer._at_end(partial(_note_last, self._last, member))  # noqa: SLF001  # of this package
                client.members.append(member)
            member.is_shown = True

    def remove(self, producer: Producer[Any, Any]) -> None:
        """Show this producer no longer; its counters so far remain in the sums of its `client_id`."""
        with self._lock:
            self._let_go()
            client = self._clients.get(producer.config.client_id)
            member = None if client is None else _member(client, producer)
            if client is None or member is None or not member.is_shown:
                return
            self._read(member, producer)
            member.is_shown = False
            client.is_shown = any(each.is_shown for each in client.members)

    def hide(self, client_id: str) -> None:
        """Do not show this `client_id` until a producer of it is added; its counters stay."""
        with self._lock:
            client = self._clients.get(client_id)
            if client is not None:
                client.is_shown = False

    def take_over(self, other: Producers) -> None:
        """Show the producers of another set, which were not read yet, in its place."""
        with self._lock, other._lock:
            other._let_go()
            for client_id, former in other._clients.items():
                for member in former.members:
                    producer = member.reference()
                    if producer is not None and member.is_shown:
                        self.add(producer, member.topics)
                client = self._clients.setdefault(client_id, _Client(is_shown=former.is_shown))
                client.former.add(former.former)

    def read(self) -> list[ClientReading]:
        """The present numbers of each shown `client_id`."""
        with self._lock:
            self._let_go()
            return [
                self._reading(client_id, client)
                for client_id, client in list(self._clients.items())
                if client.is_shown
            ]

    def _reading(self, client_id: str, client: _Client) -> ClientReading:
        present: list[tuple[bool, ProducerConfig, dict[Key, float]]] = []
        for member in list(client.members):
            producer = member.reference()
            if producer is not None and member.is_shown:
                found = self._read(member, producer)
                if found is not None:
                    is_closed, gauges = found
                    present.append((is_closed, member.config, gauges))
        counts = Counts()
        for each in (client.former, *(member.counts for member in client.members)):
            counts.add(each)
        # A producer that was closed and replaced does not make its successor look unready.
        in_use = [each for each in present if not each[0]] or present
        gauges = merged(each for _, _, each in in_use)
        return ClientReading(client_id, counts, gauges, tuple(config for _, config, _ in present))

    def _read(self, member: _Member, producer: Producer[Any, Any]) -> tuple[bool, dict[Key, float]] | None:
        """Whether the producer is closed, and its gauges; None if it cannot be read."""
        try:
            stats, health = producer.stats(), producer.health()
        except Exception:
            now = time.monotonic()
            if now >= self._logged_at + LOG_INTERVAL:
                self._logged_at = now
                log.exception("%s: the metrics of a producer cannot be read", member.config.client_id)
            return None
        member.counts.update(stats, member.topics)
        return health.state == "closed", gauges_of(stats, health)

    def _let_go(self) -> None:
        """Keep only the counters of the producers that were garbage-collected."""
        while self._last:
            member, stats = self._last.popleft()
            member.has_ended = True
            if member.is_shown and stats is not None:
                member.counts.update(stats, member.topics)
        for client in self._clients.values():
            gone = [member for member in client.members if member.has_ended and member.reference() is None]
            for member in gone:
                client.members.remove(member)
                client.former.add(member.counts)
        self._forget_clients()

    def _forget_clients(self) -> None:
        former = [name for name, client in self._clients.items() if not client.members]
        for name in former[: max(0, len(former) - MOST_FORMER_CLIENTS)]:
            del self._clients[name]


def _member(client: _Client, producer: Producer[Any, Any]) -> _Member | None:
    return next((member for member in client.members if member.reference() is producer), None)


def _note_last(
    last: deque[tuple[_Member, Stats | None]], member: _Member, producer: Producer[Any, Any]
) -> None:
    """Called by the finalizer of the producer."""
    stats = None
    with suppress(Exception):
        stats = producer.stats()
    last.append((member, stats))
