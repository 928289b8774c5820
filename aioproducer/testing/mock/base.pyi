"""To a type checker a `MockProducer` is a `Producer`, so that it can be given to whatever asks for one.

It cannot be one when it runs: `Producer` stands on `_net` and `_state`, which `testing` does not import. That every
public name of `Producer` is there, with the same signature, is a test. The same holds for its transactions and handles.
"""

from aioproducer.producer import Producer as ProducerBase
from aioproducer.transaction import Transaction as TransactionBase
from aioproducer.transaction import TransactionHandle as HandleBase

__all__ = ["HandleBase", "ProducerBase", "TransactionBase"]
