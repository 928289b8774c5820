"""`aioproducer verifiable-producer`: Kafka's VerifiableProducer, with this library."""

from __future__ import annotations

from aioproducer.cli.verifiable_producer.command import command

__all__ = ["command"]
