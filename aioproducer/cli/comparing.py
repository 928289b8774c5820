"""Comparing what was sent, what the deliveries said, and what the log holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

import attrs

from aioproducer import Delivery, Outcome

SHOWN = 10


class Stored(Protocol):
    """A record as it was read back."""

    @property
    def partition(self) -> int:
        """Where it was read."""
        ...

    @property
    def offset(self) -> int:
        """Its place in the partition."""
        ...

    @property
    def key(self) -> bytes | None:
        """As it was written."""
        ...

    @property
    def value(self) -> bytes | None:
        """As it was written."""
        ...


@attrs.define
class Audit:
    """What was found of the records that were sent."""

    acked: int = 0
    found: int = 0
    wrong: int = 0
    complaints: list[str] = attrs.Factory(list)

    @property
    def is_good(self) -> bool:
        """Nothing is missing, doubled, foreign, misplaced or out of order."""
        return self.wrong == 0

    def complain(self, text: str) -> None:
        """Count what is wrong and keep the first few."""
        self.wrong += 1
        if len(self.complaints) < SHOWN:
            self.complaints.append(text)


def audit(sent: Mapping[bytes, Delivery], log: Iterable[Stored]) -> Audit:
    """Compare. `sent` has the deliveries by unique value, those of one key in the order of their sends."""
    result = Audit()
    place_in_order = {value: place for place, value in enumerate(sent)}
    newest: dict[tuple[bytes | None, int], int] = {}
    missing = dict(sent)
    for record in log:
        value = record.value or b""
        delivery = missing.pop(value, None)
        if delivery is None:
            result.complain(f"{_where(record)}: {value[:20]!r} was read twice or never sent")
            continue
        result.found += 1
        _check_place(result, delivery, record)
        lane = (record.key, record.partition)
        if place_in_order[value] < newest.get(lane, -1):
            result.complain(f"{_where(record)}: {value[:20]!r} comes after a later record of its key")
        newest[lane] = place_in_order[value]
    for value in missing:
        result.complain(f"{value[:20]!r} is not in the log")
    return result


def _check_place(result: Audit, delivery: Delivery, record: Stored) -> None:
    if delivery.outcome is not Outcome.ACKED:
        result.complain(f"{_where(record)}: is in the log, but its delivery says {delivery.outcome.value}")
        return
    result.acked += 1
    metadata = delivery.result()
    if (metadata.partition, metadata.offset) != (record.partition, record.offset):
        told = f"partition {metadata.partition} offset {metadata.offset}"
        result.complain(f"{_where(record)}: its delivery says {told}")


def _where(record: Stored) -> str:
    return f"partition {record.partition} offset {record.offset}"
