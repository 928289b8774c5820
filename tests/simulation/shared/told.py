"""The results of all calls of a shared producer, by the number of the transaction, and their comparison with the log."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any, Final

import attrs

from aioproducer import (
    AuthorizationError,
    Delivery,
    Outcome,
    Producer,
    ProducerFencedError,
    TransactionError,
)
from tests.net.support import engine
from tests.simulation.world import World

DOCUMENTED: Final = "or the transaction exceeded"
"""The text of the one refusal with two possible reasons (docs/transactions.md)."""


@attrs.define(eq=False)
class Shared:
    """One producer, its transactions by number, and the results of the calls for them."""

    world: World
    producer: Producer[Any, Any]
    topics: tuple[str, ...]
    records: defaultdict[int, list[tuple[bytes, Delivery]]] = attrs.Factory(lambda: defaultdict(list))
    committed: set[int] = attrs.Factory(set)
    """Transactions that a call, or the end of a block, reported as committed."""
    aborted: set[int] = attrs.Factory(set)
    denied: set[int] = attrs.Factory(set)
    """Transactions whose commit ended with an error that says that nothing is written."""
    wrong: list[str] = attrs.Factory(list)
    story: list[str] = attrs.Factory(list)

    @property
    def number(self) -> int:
        """The number of the present transaction, or of the last one."""
        transactions = engine(self.producer).transactions
        assert transactions is not None
        return transactions.number

    def note(self, call: str, number: int | None, error: Exception | None = None) -> None:
        """A call has ended. There is one producer only, so no call may report another one."""
        self.story.append(f"{self.world.now:.3f} {call} of {number}: {error or 'done'}")
        ends = (
            isinstance(error, TransactionError | AuthorizationError) and error.outcome is Outcome.NOT_WRITTEN
        )
        if call == "commit" and number is not None and ends and number not in self.committed:
            self.denied.add(number)
        if isinstance(error, ProducerFencedError) and DOCUMENTED not in str(error):
            self.wrong.append(f"fenced without another producer: {self.story[-1]}")

    async def send(self, number: int, topic: str, partition: int) -> Delivery:
        """Send a record in the transaction with this number."""
        value = b"%d.%d" % (number, len(self.records[number]))
        delivery = await self.producer.send(topic, value, partition=partition)
        if self.number != number:
            self.wrong.append(f"a record of transaction {number} was accepted in {self.number}")
        self.records[number].append((value, delivery))
        return delivery

    async def judge(self) -> list[str]:
        """Each result that the logs contradict."""
        seen = Counter(record.value for topic in self.topics for record in self.world.kafka.records(topic))
        findings = [
            *self.wrong,
            *(f"{value!r} is there {count} times" for value, count in seen.items() if count > 1),
        ]
        for number, records in self.records.items():
            outcomes = {value: await delivery.wait(None) for value, delivery in records}
            findings += self._findings(number, outcomes, {value for value in outcomes if seen[value]})
        known = {value for records in self.records.values() for value, _ in records}
        return findings + [f"{value!r} was not sent" for value in seen if value not in known]

    def _findings(self, number: int, outcomes: dict[bytes, Outcome], visible: set[bytes]) -> list[str]:
        acked = {value for value, outcome in outcomes.items() if outcome is Outcome.ACKED}
        not_written = {value for value, outcome in outcomes.items() if outcome is Outcome.NOT_WRITTEN}
        checks = {
            "is visible in part": bool(visible) and not acked <= visible,
            "was reported as committed, and is not visible": number in self.committed
            and not acked <= visible,
            "was reported as aborted, and is visible": number in self.aborted and bool(visible),
            "was reported as not written, and is visible": number in self.denied and bool(visible),
            "has visible records that were not written": bool(not_written & visible),
        }
        return [f"transaction {number} {text}" for text, is_found in checks.items() if is_found]
