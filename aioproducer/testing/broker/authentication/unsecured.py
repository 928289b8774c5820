"""Unsecured tokens for OAUTHBEARER, which only a cluster of tests accepts."""

from __future__ import annotations

import base64
import json
import time


def unsecured_token(subject: str, lifetime: float = 3600.0, *, now: float | None = None) -> str:
    """A JWT without a signature (alg "none") for this user, which ends after `lifetime` seconds.

    `EmbeddedKafka` accepts it, and so does a Kafka whose OAUTHBEARER listener has no validator. `now` is the present
    time in seconds since the epoch, that of the system unless given.
    """
    begins = time.time() if now is None else now
    claims = {"sub": subject, "iat": begins, "exp": begins + lifetime}
    return f"{_part({'alg': 'none'})}.{_part(claims)}."


def _part(content: dict[str, object]) -> str:
    return base64.urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")
