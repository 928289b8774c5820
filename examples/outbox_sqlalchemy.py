"""A transactional outbox beside SQLAlchemy: python examples/outbox_sqlalchemy.py.

An order is a row of the program's own table, and an event for other programs. Both are written in one transaction of
PostgreSQL: the event exists if and only if the order does. A relay, in this process or in others, sends the events to
the topic `orders`.

`KAFKA` and `DATABASE` (a URL of PostgreSQL without a driver) name other places than localhost. It needs sqlalchemy and
asyncpg.
"""

from __future__ import annotations

import asyncio
import json
import os

import asyncpg
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from aioproducer import Producer
from aioproducer.outbox import PostgresStore, Relay

KAFKA = os.environ.get("KAFKA", "localhost:9092")
DATABASE = os.environ.get("DATABASE", "postgresql://postgres@localhost/postgres")


class Base(DeclarativeBase):
    """The tables of the program."""


class Order(Base):
    """An order of a customer."""

    __tablename__ = "orders"

    id: Mapped[int] = mapped_column(primary_key=True)
    customer: Mapped[str]
    item: Mapped[str]
    count: Mapped[int]


async def place(session: AsyncSession, store: PostgresStore, customer: str, item: str, count: int) -> int:
    """One transaction: the order, and its event. Whatever fails in it, neither is there."""
    async with session.begin():
        order = Order(customer=customer, item=item, count=count)
        session.add(order)
        await session.flush()
        if count < 1:
            raise ValueError("an order has at least one item")
        event = json.dumps({"order": order.id, "item": item, "count": count}).encode()
        # The events of a customer have the same key, so they stay in their order.
        await store.add(session, "orders", event, key=customer.encode())
        return order.id


async def main() -> None:
    """Place three orders, one of which fails, and wait until the others are relayed."""
    engine = create_async_engine(DATABASE.replace("postgresql://", "postgresql+asyncpg://", 1))
    async with asyncpg.create_pool(DATABASE, min_size=1, max_size=2) as pool:
        store = PostgresStore(pool, channel="outbox")
        async with engine.begin() as connection:
            await connection.run_sync(Base.metadata.create_all)
            await connection.execute(text(store.schema_sql()))
        sessions = async_sessionmaker(engine)
        async with Producer(KAFKA, gapless=True) as producer, Relay(producer, store) as relay:
            for customer, item, count in (("alice", "apple", 2), ("bob", "pear", 0), ("alice", "plum", 3)):
                async with sessions() as session:
                    try:
                        print(f"order {await place(session, store, customer, item, count)} is placed")
                    except ValueError as error:
                        print(f"no order: {error}")
            while await pool.fetchval("SELECT count(*) FROM outbox"):  # noqa: ASYNC110  # for a program that ends
                await asyncio.sleep(0.01)
            print(f"{relay.stats().deleted} events are relayed")
    await engine.dispose()


if __name__ == "__main__":
    asyncio.run(main())
