"""The condition of a producer that does not run: probes may ask before the first start has loaded the engine."""

from __future__ import annotations

from aioproducer.stats import Health

NOT_RUNNING = {
    "new": "the producer was not started",
    "closing": "the producer is closing",
    "closed": "the producer is closed",
}
FORKED = "this process was forked after the producer was started: create a new one in the child"
LOOP_CLOSED = "the event loop of the producer was closed before the producer: create a new one"


def health_without_engine(state: str) -> Health:
    """The result of `Producer.health()` before the start."""
    return Health(state=state, problems=(NOT_RUNNING[state],) if state in NOT_RUNNING else ())
