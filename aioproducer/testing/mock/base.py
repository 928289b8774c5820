"""What `MockProducer` and its transactions stand on when they run. Type checkers are told more: see the stub."""

from __future__ import annotations

from aioproducer._core import SendPath as ProducerBase

__all__ = ["HandleBase", "ProducerBase", "TransactionBase"]


class TransactionBase:
    """A `Transaction`, to type checkers."""


class HandleBase:
    """A `TransactionHandle`, to type checkers."""
