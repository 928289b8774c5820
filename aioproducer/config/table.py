"""The row of a setting in the table that the configuration class is."""

from __future__ import annotations

import enum
from typing import Any

import attrs

from aioproducer.config.kinds import Kind, Optional
from aioproducer.config.shown import shown_pair
from aioproducer.errors import text_of

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

    CONNECTING = "Connections"
    SECURITY = "Security"
    DELIVERY = "Delivery and timeouts"
    TRANSACTIONS = "Transactions"
    BATCHING = "Batching, compression and memory"
    PARTITIONING = "Partitioning"
    PIECES = "Serializers and interceptors"
    METADATA = "Metadata"


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
        """The name in a `.properties` file; for a property of Kafka it is Kafka's name."""
        return self.name.replace("_", ".")

    @property
    def hides(self) -> bool:
        """Whether a value that is refused may have a secret, such as a private key in place of its path."""
        return bool(getattr(self._own_kind, "hides", False))

    @property
    def shows_parts(self) -> bool:
        """Whether an error about a value has the part of it that is wrong."""
        return bool(getattr(self._own_kind, "shows_parts", False))

    @property
    def is_secret(self) -> bool:
        """Whether its values are secret."""
        return bool(getattr(self._own_kind, "is_secret", False))

    @property
    def _own_kind(self) -> Kind:
        return self.kind.kind if isinstance(self.kind, Optional) else self.kind

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
    """A field of the configuration class, which is a row of the table."""
    facts = {
        "group": group,
        "kind": kind,
        "meaning": meaning,
        "kafka_default": kafka_default,
        "differs": differs,
    }
    own = kind.kind if isinstance(kind, Optional) else kind
    # Printers such as that of rich show the fields in place of the repr, and the repr of an object may tell a secret.
    return attrs.field(default=default, metadata=facts, repr=not getattr(own, "holds_objects", False))


def rows(cls: type[attrs.AttrsInstance]) -> dict[str, Setting]:
    """The table that the configuration class is, by name."""
    return {
        field.name: Setting(name=field.name, default=field.default, **field.metadata)
        for field in attrs.fields(cls)
        if field.metadata
    }


def complaint(name: str, value: Any, problem: BaseException, *, hides: bool = False) -> str:
    """The line about an invalid value, with as much of the value as may be shown. `hides`: none of it."""
    # A kind raises ValueError; any other error was raised by an object of the user while it was read.
    text = (
        text_of(problem)
        if isinstance(problem, ValueError)
        else f"reading the value raised {type(problem).__name__}"
    )
    # An address may contain a password by mistake.
    if hides or name.replace(".", "_") == "bootstrap_servers":
        return f"{name}: {text}"
    return f"{shown_pair(name, value)}: {text}"
