"""The kinds of values that settings accept.

`check(value)` returns the value in its stored form, or raises a `ValueError` whose text completes "name=value: …".
`parse(text)` converts the string of a property to a value, which `check` then checks. `range` is for the docs.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Final, Protocol

import attrs

from aioproducer.config.endpoints import Endpoint, parse_endpoints
from aioproducer.config.names import topic_problem
from aioproducer.config.shown import shown_value

__all__ = [
    "INT_MAX",
    "LONG_MAX",
    "Acks",
    "Addresses",
    "Choice",
    "Flag",
    "Integer",
    "Kind",
    "Name",
    "Number",
    "Optional",
    "Text",
    "TopicLimits",
    "Topics",
]

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1


class Kind(Protocol):
    """A kind of values."""

    @property
    def range(self) -> str: ...
    def check(self, value: Any) -> Any: ...
    def parse(self, text: str) -> Any: ...


@attrs.frozen
class Integer:
    """A whole number within bounds. A bool, a string or a float is not accepted, whatever its value."""

    low: int
    high: int = INT_MAX
    unit: str = ""

    @property
    def range(self) -> str:
        if self.high in {INT_MAX, LONG_MAX}:
            return f"{self.low} or more"
        return f"{self.low} to {self.high}"

    def check(self, value: Any) -> int:
        number = self._number(value)
        if not self.low <= number <= self.high:
            raise ValueError(
                f"must be {self.low} to {self.high}" if number > self.high else f"must be {self.range}"
            )
        return number

    def _number(self, value: Any) -> int:
        if not isinstance(value, bool):
            try:
                return operator.index(value)
            except TypeError:
                pass
        unit = f" of {self.unit}" if self.unit else ""
        raise ValueError(f"must be a whole number{unit}, not {type(value).__name__}")

    def parse(self, text: str) -> int | str:
        digits = text[1:] if text[:1] in {"+", "-"} else text
        return int(text) if digits.isascii() and digits.isdigit() and len(digits) < 20 else text


@attrs.frozen
class Number:
    """A number within bounds, also one with a fraction."""

    low: float
    high: float

    @property
    def range(self) -> str:
        return f"{self.low:g} to {self.high:g}"

    def check(self, value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"must be a number, not {type(value).__name__}")
        if not self.low <= value <= self.high:
            raise ValueError(f"must be {self.range}")
        return float(value)

    def parse(self, text: str) -> float | str:
        try:
            return float(text)
        except ValueError:
            return text


class Flag:
    """True or False, not another truthy or falsy value."""

    range: Final = "True, False"

    def check(self, value: Any) -> bool:
        if isinstance(value, bool):
            return value
        raise ValueError(f"must be True or False, not {type(value).__name__}")

    def parse(self, text: str) -> bool | str:
        return {"true": True, "false": False}.get(text.lower(), text)


@attrs.frozen
class Choice:
    """One of a few words, in any case; `refused` has the reason for each of Kafka's words that is missing."""

    words: tuple[str, ...]
    refused: dict[str, str] = attrs.field(factory=dict, hash=False)

    @property
    def range(self) -> str:
        return ", ".join(repr(word) for word in self.words)

    def check(self, value: Any) -> str:
        if not isinstance(value, str):
            raise ValueError(f"must be one of {self.range}, not {type(value).__name__}")
        lower = str.lower(value)
        for word in self.words:
            if word.lower() == lower:
                return word
        for word, reason in self.refused.items():
            if word.lower() == lower:
                raise ValueError(reason)
        raise ValueError(f"must be one of {self.range}")

    def parse(self, text: str) -> str:
        return text


class Acks:
    """The number of replicas that must have the record; stored as Kafka's number, -1 for all of them."""

    range: Final = "'all', 1, 0, -1"

    def check(self, value: Any) -> int:
        known = {"all": -1, "-1": -1, "0": 0, "1": 1}
        if not isinstance(value, bool) and isinstance(value, int | str):
            text = str.lower(value) if isinstance(value, str) else int.__repr__(value)
            found = known.get(text)
            if found is not None:
                return found
        raise ValueError("must be 'all' (or -1), 1 or 0")

    def parse(self, text: str) -> str:
        return text


class Addresses:
    """Addresses of brokers."""

    shows_parts: ClassVar[bool] = True
    range: Final = "'host:port,host:port' or a sequence"

    def check(self, value: Any) -> tuple[Endpoint, ...]:
        return parse_endpoints(value)

    def parse(self, text: str) -> str:
        return text


@attrs.frozen
class Name:
    """A string; `problem` returns the reason for which it is invalid, or None."""

    range: str
    problem: Callable[[object], str | None]

    def check(self, value: Any) -> str:
        problem = self.problem(value)
        if problem:
            raise ValueError(problem)
        # Not a subclass, whose methods may return something else the next time.
        return str.__str__(value)

    def parse(self, text: str) -> str:
        return text


class Text:
    """A non-empty printable string."""

    range: Final = "a string"

    def check(self, value: Any) -> str:
        if not isinstance(value, str):
            raise ValueError(f"must be str, not {type(value).__name__}")
        text = str.__str__(value)
        if not text or not text.isprintable():
            raise ValueError("must be a printable string that is not empty")
        return text

    def parse(self, text: str) -> str:
        return text


@attrs.frozen
class Optional:
    """A value of `kind`, or None; `absent` is the meaning of None."""

    kind: Kind
    absent: str

    @property
    def range(self) -> str:
        return f"{self.kind.range}; None: {self.absent}"

    def check(self, value: Any) -> Any:
        return None if value is None else self.kind.check(value)

    def parse(self, text: str) -> Any:
        return self.kind.parse(text)


class Topics:
    """Names of topics."""

    shows_parts: ClassVar[bool] = True
    range: Final = "a sequence of names"

    def check(self, value: Any) -> tuple[str, ...]:
        if isinstance(value, str | bytes) or not isinstance(value, Iterable):
            raise ValueError("must be a sequence of names, such as ['orders']")
        # One by one: an iterable may have no end.
        return tuple(dict.fromkeys(_topic(name) for name in value))

    def parse(self, text: str) -> list[str]:
        return [name for name in map(str.strip, text.split(",")) if name]


class TopicLimits:
    """A number of bytes for each of several topics; stored as a tuple of pairs, sorted by name."""

    shows_parts: ClassVar[bool] = True
    range: Final = "a mapping of topic names to 1 or more bytes"

    def check(self, value: Any) -> tuple[tuple[str, int], ...]:
        pairs = value.items() if isinstance(value, Mapping) else value
        try:
            limits = dict(pairs)
        except (TypeError, ValueError):
            raise ValueError("must be a mapping, such as {'metrics': 1_000_000}") from None
        return tuple(sorted((_topic(name), self._limit(name, limit)) for name, limit in limits.items()))

    def _limit(self, name: Any, limit: Any) -> int:
        try:
            return Integer(1, LONG_MAX, unit="bytes").check(limit)
        except ValueError as error:
            raise ValueError(f"the limit of {shown_value(name, 60) or 'a topic'} {error}") from None

    def parse(self, text: str) -> dict[str, Any]:
        pairs = (pair.partition(":") for pair in filter(None, map(str.strip, text.split(","))))
        return {name.strip(): Integer(1, LONG_MAX).parse(limit.strip()) for name, _, limit in pairs}


def _topic(name: object) -> str:
    problem = topic_problem(name)
    if problem:
        raise ValueError(f"{shown_value(name, 60) or 'a name'}: {problem}")
    assert isinstance(name, str)  # noqa: S101  # topic_problem() has checked it
    return str.__str__(name)
