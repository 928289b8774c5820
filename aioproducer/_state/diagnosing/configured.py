"""The findings of a configuration: a summary of what it asks for, or each problem with its fix."""

from __future__ import annotations

from aioproducer._state.diagnosing.finding import Finding
from aioproducer.documentation import page
from aioproducer.errors import ConfigurationError, printable

__all__ = ["config_finding", "unusable"]


def config_finding(
    security_protocol: str,
    *,
    acks: int,
    idempotent: bool,
    compression_type: str,
    transactional_id: str | None,
) -> Finding:
    """The finding of settings that can be used."""
    parts = [security_protocol, f"acks={'all' if acks == -1 else acks}"]
    parts += ["idempotent"] if idempotent else []
    parts += [compression_type] if compression_type != "none" else []
    parts += [f"transactional id {printable(transactional_id)}"] if transactional_id is not None else []
    return Finding.ok(", ".join(parts))


def unusable(error: BaseException) -> list[Finding]:
    """The findings of settings that cannot be used: one for each problem."""
    if isinstance(error, ConfigurationError):
        advice = f"Correct this setting: {page('configuration.md')}"
        return [Finding.fail(problem, advice) for problem in error.problems] or [
            Finding.fail(str(error), advice)
        ]
    text = str(error) or "the files and secrets of the settings were not read in time"
    return [Finding.fail(text, "Check the provider of this secret.")]
