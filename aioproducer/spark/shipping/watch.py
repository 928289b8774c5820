"""The longest delivery of a producer since a task began: a listener, as counters have no largest number."""

from __future__ import annotations

from typing import Any

from aioproducer import BatchReport, Producer, ProducerConfig

__all__ = ["Watch", "watch_of", "watched"]


class Watch:
    """The longest time from the opening of a batch to its outcome; a task sets it back."""

    def __init__(self) -> None:
        self.longest = 0.0

    def on_batch(self, report: BatchReport) -> None:
        """Called by the producer for each batch."""
        if report.answered_at is not None and report.opened_at is not None:
            self.longest = max(self.longest, report.answered_at - report.opened_at)


def watched(config: ProducerConfig) -> ProducerConfig:
    """The configuration of a producer with a watch of its own."""
    return config.evolve(listeners=[*config.listeners, Watch()])


def watch_of(producer: Producer[Any, Any]) -> Watch:
    """The watch of a producer; a new one for a producer without."""
    return next((each for each in producer.config.listeners if isinstance(each, Watch)), Watch())
