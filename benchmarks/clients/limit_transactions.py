"""The limit: transactions of one record over a blocking socket, each with its two necessary requests only.

It has the same knowledge about the broker as this library's producer: how long to wait after the end of a transaction,
so that the broker does not delay the record of the next one.
"""

from __future__ import annotations

import time
import uuid
from typing import Final

import attrs

from aioproducer._core import Batch, BatchSettings
from aioproducer._state.transactions.marker_delay import MarkerDelay
from aioproducer._wire.batches import stamp
from aioproducer._wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from aioproducer._wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from aioproducer._wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from benchmarks.clients.blocking import PRODUCE_VERSION, Wire, check
from benchmarks.measure import Offsets, Round, Stopwatch, Transacted, Work, no_offsets, work

# The first version that returns the next epoch.
_END_VERSION: Final = 5
_FIND_VERSION: Final = 4
_TRANSACTION: Final = 1
_CAPACITY: Final = 1024
_NOW: Final = 1_700_000_000_000
# A sleep takes about so much longer than requested.
_SLEEPS_LONGER: Final = 0.0002


@attrs.define(eq=False)
class _Transactions:
    """Transactions one after the other, each with a record for partition 0."""

    wire: Wire
    topic: str
    value: bytes
    name: str = attrs.field(factory=lambda: f"limit-{uuid.uuid4()}")
    marker_delay: MarkerDelay = attrs.field(factory=MarkerDelay)
    producer_id: int = attrs.field(init=False)
    epoch: int = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        # The first such request lets Kafka create its topic for transactions.
        question = FindCoordinatorRequest(key_type=_TRANSACTION, coordinator_keys=[self.name])
        self.wire.ask(question, _FIND_VERSION, FindCoordinatorResponse)
        self.producer_id, self.epoch = self.wire.identity(self.name)

    def make(self, count: int) -> Transacted:
        """Make so many transactions."""
        done = Transacted()
        for _ in range(count):
            request = self._request()
            _sleep_until(self.marker_delay.until)
            began = time.perf_counter()
            offsets = self._send(request)
            self._commit()
            done.committed(offsets, time.perf_counter() - began)
        return done

    def _request(self) -> ProduceRequest:
        batch = Batch(self.topic, 0, _CAPACITY, BatchSettings())
        batch.append(None, self.value, None, _NOW)
        stamp(batch, self.producer_id, self.epoch, 0, transactional=True)
        partitions = [PartitionProduceData(index=0, records=bytes(batch))]
        topics = [TopicProduceData(name=self.topic, partition_data=partitions)]
        return ProduceRequest(transactional_id=self.name, acks=-1, timeout_ms=30_000, topic_data=topics)

    def _send(self, request: ProduceRequest) -> Offsets:
        self.marker_delay.sent(time.perf_counter())
        answer = self.wire.ask(request, PRODUCE_VERSION, ProduceResponse)
        self.marker_delay.answered(time.perf_counter())
        (topic,) = answer.responses
        (partition,) = topic.partition_responses
        check(partition.error_code)
        offsets = no_offsets()
        offsets[0].append(partition.base_offset)
        return offsets

    def _commit(self) -> None:
        question = EndTxnRequest(self.name, self.producer_id, self.epoch, committed=True)
        answer = self.wire.ask(question, _END_VERSION, EndTxnResponse)
        check(answer.error_code)
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        self.marker_delay.ended(time.perf_counter())


def _sleep_until(moment: float) -> None:
    while (left := moment - time.perf_counter()) > 0:
        if left > _SLEEPS_LONGER:
            time.sleep(left - _SLEEPS_LONGER)


def _run(one: Work) -> Round:
    (value,) = one.values(1)
    with Wire(one.bootstrap_servers) as wire:
        transactions = _Transactions(wire, one.topic, value)
        transactions.make(one.warm_up).check(one.warm_up)
        with Stopwatch() as watch:
            done = transactions.make(one.records)
    done.check(one.records)
    return watch.round(one.records, "blocking socket", **done.figures(watch.seconds))


if __name__ == "__main__":
    _run(work()).tell()
