"""`aioproducer perf`: throughput and latency, like Kafka's own kafka-producer-perf-test."""

from __future__ import annotations

from aioproducer.cli.perf.command import command

__all__ = ["command"]
