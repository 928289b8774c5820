"""The application: it gets its producer as an argument, so that a test can pass another one."""

from __future__ import annotations

import json

from aioproducer import DeliveryError, KafkaError, Outcome, Producer

TOPIC = "orders"


class TryAgainError(Exception):
    """The order was not taken; it is safe to place it again."""


class CheckFirstError(Exception):
    """The order may have been taken: check before placing it again."""


class Shop:
    """Takes orders and writes them to Kafka."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer

    async def place(self, customer: str, items: list[str]) -> int:
        """Place one order, and return its number: its offset in the partition of its customer."""
        value = json.dumps({"customer": customer, "items": items}).encode()
        try:
            metadata = await self._producer.send_and_wait(TOPIC, value, key=customer.encode())
        except KafkaError as error:
            if error.outcome is Outcome.UNKNOWN:
                raise CheckFirstError(customer) from error
            raise TryAgainError(customer) from error
        return metadata.offset

    async def place_many(self, orders: dict[str, list[str]]) -> list[str]:
        """Place one order for each customer, together, and return the customers whose orders failed."""
        deliveries = {
            customer: await self._producer.send(TOPIC, json.dumps(items).encode(), key=customer.encode())
            for customer, items in orders.items()
        }
        failed = []
        for customer, delivery in deliveries.items():
            try:
                await delivery
            except DeliveryError:
                failed.append(customer)
        return failed
