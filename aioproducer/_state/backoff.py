"""The wait after a failure: longer each time, up to a limit, and with jitter (KIP-580)."""

from __future__ import annotations

import math
from typing import Protocol

import attrs

JITTER = 0.2
# 2 to the 64 times any base exceeds any sensible limit, and no float overflows before that.
MOST_DOUBLINGS = 64


class Uniform(Protocol):
    """The one method of `random.Random` that a backoff needs."""

    def random(self) -> float:
        """A number of [0, 1)."""


def _not_negative(_instance: object, attribute: attrs.Attribute[float], value: float) -> None:
    if value < 0:
        raise ValueError(f"{attribute.name} of a backoff must not be negative, but is {value}")


@attrs.frozen
class Backoff:
    """Seconds between attempts: `base`, doubled with every failure, at most `maximum`.

    Used for `retry_backoff_ms`, `reconnect_backoff_ms` and the connection set-up timeout; each counts its own failures.
    """

    base: float = attrs.field(validator=_not_negative)
    maximum: float = attrs.field(validator=_not_negative)

    def plain(self, failures: int) -> float:
        """The wait after `failures` earlier failures, without jitter: 0 failures give `base`."""
        doublings = min(max(failures, 0), MOST_DOUBLINGS)
        return min(math.ldexp(self.base, doublings), self.maximum)

    def after(self, failures: int, rng: Uniform) -> float:
        """The wait after `failures` earlier failures, up to 20 % shorter or longer, and never above `maximum`."""
        # Java's ExponentialBackoff also applies the maximum after the jitter, so that the setting is a promise.
        jittered = self.plain(failures) * (1 - JITTER + 2 * JITTER * rng.random())
        return min(jittered, self.maximum)


# A leader or a coordinator of a group asks the coordinator of the transaction before the first part of a partition in it. It keeps
# one unsent question for each producer (Kafka's AddPartitionsToTxnManager): that of the next request takes its place, and the
# earlier request is refused at once. Nothing is missing then, so the first repetitions come soon, and the usual backoff follows.
REPLACED = Backoff(0.002, 1.0)
SOON = 3
