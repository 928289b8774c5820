"""`aioproducer perf`: throughput and latency, in the manner of Kafka's own kafka-producer-perf-test."""

from __future__ import annotations

from aioproducer.cli.perf.command import command

__all__ = ["command"]
