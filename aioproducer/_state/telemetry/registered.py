"""The metrics of the application that are pushed beside the producer's own (KIP-1076)."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Mapping
from numbers import Integral, Real
from typing import Final, get_args

import attrs

from aioproducer._wire.otlp import Attributes, AttributeValue, Kind, Metric, Point, fits
from aioproducer.errors import ConfigurationError, printable

KINDS: Final[tuple[str, ...]] = get_args(Kind)
KAFKAS_OWN: Final = "org.apache.kafka"
LONGEST_NAME: Final = 255
# Sums that were unregistered, and whose pushed values are kept.
MOST_UNREGISTERED: Final = 100
# `read()` runs in the event loop: one that takes so many seconds is left out.
SLOW: Final = 0.010
_NAME = re.compile(r"[a-z][a-z0-9_]*(\.[a-z0-9_]+)*")

Read = Callable[[], float]


@attrs.define(eq=False)
class RegisteredMetric:
    """One metric of the application, and the values that were pushed."""

    name: str
    read: Read
    kind: Kind
    attributes: Attributes = ()
    # The value of a sum at the last push, and at the push before; the sum counts from `since_ns` on.
    _base: int = 0
    _former: int = 0
    _since_ns: int | None = None
    _has_complained: bool = False

    def point(self, value: object, started_ns: int, before_ns: int, now_ns: int, *, is_delta: bool) -> Point:
        """The point of a push for the value that `read()` gave; ValueError if it cannot be pushed."""
        number = _number(value)
        if self.kind == "gauge":
            return Point(float(number), before_ns, now_ns, self.attributes)
        total = _whole(number)
        former, self._base = self._base, total
        if total < former:
            # The sum has begun again: the next push has its growth from here on.
            self._since_ns = now_ns
            raise ValueError(f"a sum cannot go back: it was {former}, then {total}")
        if is_delta:
            return Point(total - former, before_ns, now_ns, self.attributes)
        since_ns = started_ns if self._since_ns is None else self._since_ns
        # The wall clock may have been set back.
        return Point(total, min(since_ns, now_ns), now_ns, self.attributes)

    def begin(self) -> None:
        """A push begins: all before it was taken."""
        self._former = self._base

    def refused(self) -> None:
        """The last push was not taken. A sum that began again stays where it began."""
        self._base = min(self._base, self._former)

    def go_on_from(self, former: RegisteredMetric) -> None:
        """The name was registered before: a sum counts from the value that was pushed."""
        if self.kind == former.kind == "sum" and self.attributes == former.attributes:
            self._base, self._former, self._since_ns = former._base, former._former, former._since_ns

    def is_first_complaint(self) -> bool:
        """Whether nothing was said about this metric before."""
        first, self._has_complained = not self._has_complained, True
        return first


@attrs.define
class RegisteredMetrics:
    """The metrics of one producer, by name."""

    _by_name: dict[str, RegisteredMetric] = attrs.Factory(dict)
    # Sums that may be registered again.
    _unregistered: dict[str, RegisteredMetric] = attrs.Factory(dict)

    def register(self, name: object, read: object, kind: object, attributes: object) -> None:
        """Add a metric, or replace the one with this name; ConfigurationError if it cannot be pushed."""
        checked = checked_name(name)
        if not callable(read) or _is_coroutine_function(read):
            raise ConfigurationError(
                f"the metric {checked!r}: read must be a function without arguments that returns a number"
            )
        if not isinstance(kind, str) or str.__str__(kind) not in KINDS:
            raise ConfigurationError(
                f"the metric {checked!r}: kind={_shown(kind)}: must be one of {', '.join(map(repr, KINDS))}"
            )
        chosen: Kind = "gauge" if str.__str__(kind) == "gauge" else "sum"
        metric = RegisteredMetric(checked, read, chosen, _checked_attributes(checked, attributes))
        former = self._by_name.get(checked) or self._unregistered.pop(checked, None)
        if former is not None:
            metric.go_on_from(former)
        self._by_name[checked] = metric

    def unregister(self, name: object) -> None:
        """Remove the metric with this name, if there is one."""
        metric = self._by_name.pop(checked_name(name), None)
        if metric is not None and metric.kind == "sum":
            if len(self._unregistered) >= MOST_UNREGISTERED:
                del self._unregistered[next(iter(self._unregistered))]
            self._unregistered[metric.name] = metric

    def wanted(self, wants: Callable[[str], bool]) -> list[RegisteredMetric]:
        """The metrics that are requested, for a push that begins. `read()` may change the table."""
        for metric in self._all():
            metric.begin()
        return [metric for metric in self._by_name.values() if wants(metric.name)]

    def refused(self) -> None:
        """The last push was not taken: the next one has its differences."""
        for metric in self._all():
            metric.refused()

    def _all(self) -> list[RegisteredMetric]:
        return [*self._by_name.values(), *self._unregistered.values()]


def checked_name(name: object) -> str:
    """The name of a metric; ConfigurationError if it cannot be one."""
    # Without the methods of a subclass, which may lie.
    text = str.__str__(name) if isinstance(name, str) else ""
    if not _NAME.fullmatch(text) or len(text) > LONGEST_NAME:
        raise ConfigurationError(
            f"{_shown(name)} cannot be the name of a metric: parts of the characters a-z, 0-9 and _, joined by dots, "
            f"the first character a letter, at most {LONGEST_NAME} in all"
        )
    if text == KAFKAS_OWN or text.startswith(KAFKAS_OWN + "."):
        raise ConfigurationError(
            f"{text!r} cannot be the name of a metric: {KAFKAS_OWN} is that of Kafka's own"
        )
    return text


def _is_coroutine_function(read: object) -> bool:
    try:
        return inspect.iscoroutinefunction(read)
    except Exception:  # noqa: BLE001  # the attributes of a foreign object
        return False


def complaint_about(seconds: float) -> str | None:
    """The reason why a value that was read in this time is left out."""
    return (
        f"read() took {seconds * 1000:.0f} ms in the event loop; {SLOW * 1000:.0f} ms are too much"
        if seconds >= SLOW
        else None
    )


def as_metric(metric: RegisteredMetric, point: Point, *, is_delta: bool) -> Metric:
    """The metric with the one point of a push."""
    return Metric(metric.name, metric.kind, (point,), is_delta)


def _number(value: object) -> float:
    # Real: the numbers of numpy are none of Python's own types.
    if isinstance(value, bool) or not isinstance(value, Real):
        if inspect.iscoroutine(value):
            value.close()  # prevents the warning about a coroutine that was never awaited
        raise ValueError(f"read() must return a number, not {type(value).__name__}")
    number = float(value)
    if not math.isfinite(number):
        raise ValueError("read() must return a finite number")
    return int(value) if isinstance(value, Integral) else number


def _whole(number: float) -> int:
    total = int(number)
    if total < 0 or not fits(total):
        raise ValueError(f"a sum must be from 0 to 2**63 - 1, not {number}")
    return total


def _checked_attributes(name: str, attributes: object) -> Attributes:
    if attributes is None:
        return ()
    try:
        pairs = list(dict(attributes).items()) if isinstance(attributes, Mapping) else None
    except Exception as error:  # noqa: BLE001  # a foreign mapping
        raise ConfigurationError(f"the metric {name!r}: attributes cannot be read: {_shown(error)}") from None
    if pairs is None:
        raise ConfigurationError(f"the metric {name!r}: attributes must be a mapping of names to values")
    return tuple(_checked_attribute(name, key, value) for key, value in pairs)


def _checked_attribute(name: str, key: object, value: object) -> tuple[str, AttributeValue]:
    key = str.__str__(key) if isinstance(key, str) else ""
    if not key or not _can_be_written(key):
        raise ConfigurationError(f"the metric {name!r}: the name of an attribute must be a string")
    plain = _plain(value)
    if plain is None:
        raise ConfigurationError(
            f"the metric {name!r}: the attribute {printable(key, 60)!r} must be a string, a bool, or a number of 64 bits"
        )
    return key, plain


def _plain(value: object) -> AttributeValue | None:
    """The value without the methods of a subclass; None if it cannot be written."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        text = str.__str__(value)
        return text if _can_be_written(text) else None
    if isinstance(value, int):
        number = int.__int__(value)
        return number if fits(number) else None
    return float.__float__(value) if isinstance(value, float) else None


def _can_be_written(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _shown(value: object) -> str:
    try:
        return f"{value!r:.60}"
    except Exception:  # noqa: BLE001  # the repr of a foreign type
        return type(value).__name__
