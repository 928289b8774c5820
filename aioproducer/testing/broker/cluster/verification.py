"""A broker's check with the transaction's coordinator before the first transactional write to a partition.

The rules are those of Kafka's `AddPartitionsToTxnManager` (KIP-890): newer requests add the partition to the
transaction; for older ones it must have been added. A partition that already has records of the transaction is not
verified again, so that a late write can still reach one whose markers are not written.
"""

from __future__ import annotations

from aioproducer._wire.error_codes import ErrorCode
from aioproducer.testing.broker.cluster.cluster import Cluster
from aioproducer.testing.broker.cluster.transactions import (
    Identity,
    TopicPartition,
    TransactionRefusal,
)


def verify_write(
    cluster: Cluster,
    transactional_id: str,
    who: Identity,
    partition: TopicPartition,
    *,
    adds: bool,
    knows_abortable: bool,
) -> None:
    """Raise `TransactionRefusal` with the writer's error, if it may not write."""
    coordinator = cluster.coordinator(transactional_id)
    if coordinator is None:
        raise TransactionRefusal(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    unready = cluster.coordinator_error(transactional_id, coordinator.id)
    if unready != ErrorCode.NONE:
        raise TransactionRefusal(unready)
    try:
        if adds:
            cluster.transactions.add_partitions(transactional_id, who, [partition])
        else:
            cluster.transactions.verify(transactional_id, who, partition)
    except TransactionRefusal as refused:
        raise TransactionRefusal(_as_told(refused.error, knows_abortable=knows_abortable)) from None


def _as_told(error: ErrorCode, *, knows_abortable: bool) -> ErrorCode:
    if error == ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error == ErrorCode.TRANSACTION_ABORTABLE and not knows_abortable:
        return ErrorCode.INVALID_TXN_STATE
    return error
