"""Comparing the sent records with their deliveries and the log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

import attrs

from aioproducer import Delivery, Outcome

SHOWN = 10


class Stored(Protocol):
    """A record that was read back."""

    @property
    def partition(self) -> int:
        """The partition that it was read from."""
        ...

    @property
    def offset(self) -> int:
        """Its offset in the partition."""
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
    """The result of the comparison."""

    acked: int = 0
    found: int = 0
    wrong: int = 0
    complaints: list[str] = attrs.Factory(list)

    @property
    def is_good(self) -> bool:
        """No record is missing, duplicate, foreign, misplaced or out of order."""
        return self.wrong == 0

    def complain(self, text: str) -> None:
        """Count a defect, and keep the first few."""
        self.wrong += 1
        if len(self.complaints) < SHOWN:
            self.complaints.append(text)


def audit(sent: Mapping[bytes, Delivery], log: Iterable[Stored]) -> Audit:
    """Compare. `sent` maps unique values to deliveries; those of one key are in the order of their sends."""
    result = Audit()
    place_in_order = {value: place for place, value in enumerate(sent)}
    newest: dict[tuple[bytes | None, int], int] = {}
    missing = dict(sent)
    for record in log:
        value = record.value or b""
        delivery = missing.pop(value, None)
        if delivery is None:
            result.complain(f"{_where(record)}: {value[:20]!r} is in the log twice, or was never sent")
            continue
        result.found += 1
        _check_place(result, delivery, record)
        lane = (record.key, record.partition)
        if place_in_order[value] < newest.get(lane, -1):
            result.complain(f"{_where(record)}: {value[:20]!r} is behind a later record of its key")
        newest[lane] = place_in_order[value]
    for value in missing:
        result.complain(f"{value[:20]!r} is not in the log")
    return result


def _check_place(result: Audit, delivery: Delivery, record: Stored) -> None:
    if delivery.outcome is not Outcome.ACKED:
        result.complain(
            f"{_where(record)}: is in the log, but its delivery has the outcome {delivery.outcome.value}"
        )
        return
    result.acked += 1
    metadata = delivery.result()
    if (metadata.partition, metadata.offset) != (record.partition, record.offset):
        told = f"partition {metadata.partition} offset {metadata.offset}"
        result.complain(f"{_where(record)}: its delivery reports {told}")


def _where(record: Stored) -> str:
    return f"partition {record.partition} offset {record.offset}"
