"""The facts that are kept of each setting: the configuration class is the table, this is its row."""

from __future__ import annotations

import enum
from typing import Any

import attrs

from aioproducer.config.kinds import Kind
from aioproducer.errors import printable, text_of

__all__ = ["DERIVED", "REQUIRED", "SAME", "Group", "Setting", "complaint", "rows", "setting"]


class _Word(enum.Enum):
    REQUIRED = "required"
    DERIVED = "derived from other settings"
    SAME = "as in Kafka"


REQUIRED = _Word.REQUIRED
DERIVED = _Word.DERIVED
SAME = _Word.SAME


class Group(enum.Enum):
    """The chapters of the reference, in their order."""

    CONNECTING = "Connecting"
    DELIVERY = "Delivery and its time limits"
    TRANSACTIONS = "Transactions"
    BATCHING = "Batching, compression and memory"
    PARTITIONING = "Choosing partitions"
    PIECES = "Pieces that you supply"
    METADATA = "Knowing the cluster"


@attrs.frozen
class Setting:
    """One row. `kafka_default` is SAME, a value that differs, or None where Kafka has no such property."""

    name: str
    group: Group
    kind: Kind
    default: Any
    meaning: str
    kafka_default: Any
    differs: str

    @property
    def dotted(self) -> str:
        """The name in a `.properties` file, which is Kafka's name for what is Kafka's."""
        return self.name.replace("_", ".")

    @property
    def is_kafkas(self) -> bool:
        """Whether Kafka's producer has this property."""
        return self.kafka_default is not None


def setting(
    default: Any,
    kind: Kind,
    group: Group,
    meaning: str,
    *,
    kafka_default: Any = SAME,
    differs: str = "",
) -> Any:
    """A field of the configuration class that is a row of the table."""
    facts = {
        "group": group,
        "kind": kind,
        "meaning": meaning,
        "kafka_default": kafka_default,
        "differs": differs,
    }
    return attrs.field(default=default, metadata=facts)


def rows(cls: type[attrs.AttrsInstance]) -> dict[str, Setting]:
    """The table that the configuration class is, by name."""
    return {
        field.name: Setting(name=field.name, default=field.default, **field.metadata)
        for field in attrs.fields(cls)
        if field.metadata
    }


PLAIN = (str, bool, int, float, type(None))
LONGEST_NUMBER = 10**80


def complaint(name: str, value: Any, problem: BaseException) -> str:
    """The line about a value that cannot be, with as much of it as may be shown."""
    # What a kind says of a value is a ValueError; all else was raised by an object of the user's while it was read.
    text = (
        text_of(problem) if isinstance(problem, ValueError) else f"reading it raised {type(problem).__name__}"
    )
    # An address may hold a password by mistake, an object whatever its repr likes to tell, and Python writes no huge number.
    is_plain = type(value) in PLAIN and not (type(value) is int and abs(value) > LONGEST_NUMBER)
    if not is_plain or name.replace(".", "_") == "bootstrap_servers":
        return f"{name}: {text}"
    return f"{name}={printable(repr(value), 80)}: {text}"
