"""The contents that an answer of a coordinator must have."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from aioproducer.errors import ProtocolError

if TYPE_CHECKING:
    from aioproducer._net.connecting.connection.connection import Connection
    from aioproducer._wire.messages.end_txn import EndTxnResponse
    from aioproducer._wire.messages.init_producer_id import InitProducerIdResponse


def require_identity(
    connection: Connection, answer: InitProducerIdResponse | EndTxnResponse, api: str
) -> None:
    """A response without an error must have a producer id and an epoch: without them, batches would have no sequence numbers."""
    if not answer.error_code and min(answer.producer_id, answer.producer_epoch) < 0:
        raise leaves_out(connection, api)


def leaves_out(connection: Connection, api: str) -> ProtocolError:
    """The error of an answer that lacks requested entries. Its connection ends, as after an unreadable answer."""
    error = ProtocolError(f"the broker's {api} answer lacks entries of the request", broker=connection.broker)
    connection.close(copy.copy(error))
    return error
