"""The finding of a configuration that can be used: a summary of its settings."""

from __future__ import annotations

from aioproducer._state.diagnosing.finding import Finding
from aioproducer.errors import printable

__all__ = ["config_finding"]


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
