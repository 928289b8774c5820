"""A transactional outbox: rows that a program writes in its own database transactions become records, in order.

    store = PostgresStore(pool)
    await store.add(connection, "orders", b"2 apples")    # in the transaction of the caller

    async with Relay(producer, store):                    # in any process, in several of them at once
        ...

The relay sends rows in the order of their ids, deletes acknowledged ones, and sends all others again: at least once,
with a header by which readers drop copies. See docs/outbox.md.
"""

from __future__ import annotations

from aioproducer.outbox.postgres import PostgresStore
from aioproducer.outbox.relay import Relay
from aioproducer.outbox.rows import ID_HEADER, Row
from aioproducer.outbox.sqlite import SqliteStore
from aioproducer.outbox.statistics import RelayStats
from aioproducer.outbox.store import DeadLetterOutlet, Store

__all__ = [
    "ID_HEADER",
    "DeadLetterOutlet",
    "PostgresStore",
    "Relay",
    "RelayStats",
    "Row",
    "SqliteStore",
    "Store",
]
