"""The report of an examination: its checks, and what they come to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Self

import attrs

from aioproducer._state.diagnosing.finding import Finding, Status
from aioproducer.doctor.configuring import unusable
from aioproducer.errors import ConfigurationError

__all__ = ["IDS", "Check", "Report", "refused"]

IDS: Final = (
    "config",
    "dns",
    "tcp",
    "tls",
    "sasl",
    "protocol",
    "cluster",
    "brokers",
    "clock",
    "idempotence",
    "transactions",
    "topic",
    "probe",
    "telemetry",
)
_VERSION: Final = 1


@attrs.frozen
class Check:
    """One check. `target` is the address, broker, topic or id that was examined, None for the whole.

    `advice` has the action for a failure or a warning; `detail` has plain JSON types.
    """

    id: str
    target: str | None
    status: Status
    summary: str
    detail: Mapping[str, Any]
    advice: str | None
    seconds: float

    @classmethod
    def of(cls, kind: str, target: str | None, finding: Finding, seconds: float = 0.0) -> Self:
        """The check with this finding."""
        return cls(kind, target, finding.status, finding.summary, finding.detail, finding.advice, seconds)

    def as_dict(self) -> dict[str, Any]:
        """The check in plain JSON types."""
        return attrs.asdict(self) | {"status": str(self.status), "seconds": round(self.seconds, 6)}


@attrs.frozen
class Report:
    """All checks in the order of their ids.

    `strict`: a warning counts as a failure. `finished`: False for an examination that was interrupted, or is not over.
    """

    checks: tuple[Check, ...]
    seconds: float
    strict: bool = False
    finished: bool = True

    @property
    def ok(self) -> bool:
        """Whether everything was examined, and no check failed."""
        return self.exit_code == 0

    @property
    def exit_code(self) -> int:
        """0: no check failed; 1: one did, or was not made; 2: the configuration cannot be used."""
        if any(check.id == "config" and check.status is Status.FAIL for check in self.checks):
            return 2
        bad = (Status.FAIL, Status.WARN) if self.strict else (Status.FAIL,)
        return int(not self.finished or any(check.status in bad for check in self.checks))

    def count(self, status: Status) -> int:
        """The number of checks with this status."""
        return sum(check.status is status for check in self.checks)

    def as_dict(self) -> dict[str, Any]:
        """The report in plain JSON types."""
        return {
            "version": _VERSION,
            "ok": self.ok,
            "seconds": round(self.seconds, 6),
            "checks": [check.as_dict() for check in self.checks],
        }


def refused(error: ConfigurationError, *, strict: bool = False) -> Report:
    """The report of a configuration that was refused: nothing was dialed."""
    return Report(tuple(Check.of("config", None, finding) for finding in unusable(error)), 0.0, strict)
