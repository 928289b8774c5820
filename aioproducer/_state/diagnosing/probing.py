"""The finding of a record that was sent to try a topic."""

from __future__ import annotations

import attrs

from aioproducer._state.diagnosing.finding import Finding, duration
from aioproducer.documentation import page
from aioproducer.errors import AuthorizationError, KafkaError
from aioproducer.outcome import Outcome

__all__ = ["ProbeFacts", "failed_probe", "probe_finding"]

_SLOW = 1.0


@attrs.frozen
class ProbeFacts:
    """The way of one acknowledged record: the seconds until it was accepted, in the queue, and on the network."""

    partition: int
    offset: int | None
    accepted: float
    queued: float
    network: float
    throttled: float = 0.0


def probe_finding(facts: ProbeFacts) -> Finding:
    """The finding of a record that was acknowledged."""
    times = f"accepted {duration(facts.accepted)}, queued {duration(facts.queued)}, network {duration(facts.network)}"
    at = "" if facts.offset is None else f" offset {facts.offset}"
    summary = f"acknowledged at partition {facts.partition}{at}: {times}"
    detail = {
        "partition": facts.partition,
        "offset": facts.offset,
        "accepted_ms": round(facts.accepted * 1000, 3),
        "queued_ms": round(facts.queued * 1000, 3),
        "network_ms": round(facts.network * 1000, 3),
        "throttled_ms": round(facts.throttled * 1000, 3),
    }
    if facts.throttled > 0:
        return Finding.warn(
            f"{summary}; throttled for {duration(facts.throttled)}",
            "The broker limits this client: raise its quota (producer_byte_rate, request_percentage).",
            **detail,
        )
    if facts.accepted + facts.queued + facts.network > _SLOW:
        return Finding.warn(
            f"{summary}; slower than {duration(_SLOW)}",
            "Look at the load of the leader and of its replicas: with acks=all each of them has to answer.",
            **detail,
        )
    return Finding.ok(summary, **detail)


def failed_probe(error: KafkaError) -> Finding:
    """The finding of a record that was not acknowledged."""
    outcome = "it may have been written" if error.outcome is Outcome.UNKNOWN else "it was not written"
    advice = (
        "Grant this principal the ACL WRITE on the topic."
        if isinstance(error, AuthorizationError)
        else f"See the findings above, and the table of errors: {page('guarantees.md')}"
    )
    text = str(error)
    return Finding.fail(
        text if outcome in text else f"{text}; {outcome}",
        advice,
        error=type(error).__name__,
        outcome=error.outcome.name,
    )
