"""What `MockProducer` stands on: the core's way of sending. Type checkers are told more: see the stub."""

from __future__ import annotations

from aioproducer._core import SendPath as ProducerBase

__all__ = ["ProducerBase"]
