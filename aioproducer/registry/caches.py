"""The answers of a registry: a bounded number of them, and some only for a time."""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

import attrs

from aioproducer.registry.errors import RegistryError
from aioproducer.registry.schemas import RegisteredSchema

__all__ = ["Bounded", "Failures", "Latest", "Served"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

# Seconds.
REMEMBERED: Final = 1.0
# How often a newer version is looked for while the registry tells an older one than it told before.
_ATTEMPTS: Final = 10


class Bounded(Generic[K, V]):
    """A mapping that forgets the item that was used longest ago."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._items: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K) -> V | None:
        """The value, which counts as used now."""
        value = self._items.get(key)
        if value is not None:
            self._items.move_to_end(key)
        return value

    def put(self, key: K, value: V) -> None:
        """Set the value."""
        self._items[key] = value
        self._items.move_to_end(key)
        if len(self._items) > self._size:
            self._items.popitem(last=False)

    def __len__(self) -> int:
        return len(self._items)


class Failures:
    """Final refusals, each for a second: a thousand records that need the same do not make a thousand requests."""

    def __init__(self, size: int) -> None:
        self._errors: Bounded[Hashable, tuple[float, RegistryError]] = Bounded(size)

    def put(self, key: Hashable, error: RegistryError, now: float) -> None:
        """Remember a refusal."""
        self._errors.put(key, (now + REMEMBERED, copy.copy(error)))

    def check(self, key: Hashable, now: float) -> None:
        """Raise the refusal that is remembered."""
        known = self._errors.get(key)
        if known is not None and now < known[0]:
            raise copy.copy(known[1])


@attrs.frozen
class Served:
    """A latest version, and whether it is to be asked for again."""

    schema: RegisteredSchema
    is_stale: bool


class Latest:
    """The latest versions of subjects: each serves for `ttl` seconds, and as long again while it is asked for again."""

    def __init__(self, size: int, ttl: float) -> None:
        self.ttl = ttl
        self._known: Bounded[str, _Known] = Bounded(size)

    def get(self, subject: str, now: float) -> Served | None:
        """The version that serves now."""
        known = self._known.get(subject)
        if known is None or now >= known.told_at + 2 * self.ttl:
            return None
        return Served(known.schema, now >= known.ask_at)

    def put(self, subject: str, schema: RegisteredSchema, now: float) -> bool:
        """The registry has told it. False for a version before the one that serves: a server may be behind the others.

        The one that serves goes on until its time is over: a version may have been deleted.
        """
        known = self._known.get(subject)
        if known is None or schema.version >= known.schema.version or now >= known.told_at + 2 * self.ttl:
            self._known.put(subject, _Known(schema, now, now + self.ttl))
            return True
        self._known.put(subject, attrs.evolve(known, ask_at=now + self.ttl / _ATTEMPTS))
        return False


@attrs.frozen
class _Known:
    schema: RegisteredSchema
    told_at: float
    ask_at: float
