"""Transactions of a mock: their handles find the mock in this process."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

import attrs

from aioproducer.coordinators import Coordinators
from aioproducer.errors import StateError
from aioproducer.transaction import Transaction, TransactionHandle

if TYPE_CHECKING:
    from aioproducer.config import ProducerConfig
    from aioproducer.testing.broker.pipes import Pipes

# The connections to each mock, by the producer ids that its cluster has given out.
networks: weakref.WeakValueDictionary[int, Pipes] = weakref.WeakValueDictionary()


@attrs.frozen
class MockTransactionHandle(TransactionHandle):
    """The open transaction of a mock. It can be pickled."""

    def _coordinators(self, config: ProducerConfig) -> Coordinators:
        network = networks.get(self.producer_id)
        if network is None:
            raise StateError("the MockProducer of this transaction handle does not exist in this process")
        coordinators = Coordinators.from_config(config)
        coordinators._network = network  # noqa: SLF001  # as of a mock
        return coordinators


class MockTransaction(Transaction):
    """A transaction of a mock. Its handle ends it in this process only, whatever address the handle is given."""

    _handle_type = MockTransactionHandle
