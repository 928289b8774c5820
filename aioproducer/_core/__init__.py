"""The only import path of the compiled core: other modules do not import the compiled modules directly."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import aioproducer._core.unzipped  # noqa: F401  # before a missing compiled module is reported
from aioproducer._core.accept import APPENDED as APPENDED
from aioproducer._core.accept import INTERCEPTED as INTERCEPTED
from aioproducer._core.accept import NO_ROOM_NOW as NO_ROOM_NOW
from aioproducer._core.accept import PARTITION_UNKNOWN as PARTITION_UNKNOWN
from aioproducer._core.accept import RECORD_TOO_LARGE as RECORD_TOO_LARGE
from aioproducer._core.accept import SERIALIZED as SERIALIZED
from aioproducer._core.accept import Budget as Budget
from aioproducer._core.accept import Column as Column
from aioproducer._core.accept import MemoryShare as MemoryShare
from aioproducer._core.accept import Partition as Partition
from aioproducer._core.accept import SendPath as SendPath
from aioproducer._core.accept import TaskOwner as TaskOwner
from aioproducer._core.accept import Topic as Topic
from aioproducer._core.accept import follow_task as follow_task
from aioproducer._core.accept import forked as forked
from aioproducer._core.accept import join_headers as join_headers
from aioproducer._core.delivery import AckedPrefix as AckedPrefix
from aioproducer._core.delivery import BatchDelivery as BatchDelivery
from aioproducer._core.delivery import Delivery as Delivery
from aioproducer._core.delivery import PrefixPart as PrefixPart
from aioproducer._core.delivery import Sending as Sending
from aioproducer._core.delivery import adopt as adopt
from aioproducer._core.delivery import batches_from as batches_from
from aioproducer._core.delivery import entry_of as entry_of
from aioproducer._core.delivery import failures_were_read as failures_were_read
from aioproducer._core.delivery import hurry as hurry
from aioproducer._core.delivery import observe as observe
from aioproducer._core.delivery import peek as peek
from aioproducer._core.delivery import queued_delivery as queued_delivery
from aioproducer._core.delivery import refuse_record as refuse_record
from aioproducer._core.delivery import reserve_place as reserve_place
from aioproducer._core.delivery import sending_of as sending_of
from aioproducer._core.delivery import settle_into as settle_into
from aioproducer._core.delivery import settled as settled
from aioproducer._core.distribution import Distribution as Distribution
from aioproducer._core.messages import ArrayView as ArrayView
from aioproducer._core.messages import Program as Program
from aioproducer._core.ordinary import Ages as Ages
from aioproducer._core.ordinary import BatchState as BatchState
from aioproducer._core.ordinary import Covered as Covered
from aioproducer._core.ordinary import EventEffects as EventEffects
from aioproducer._core.ordinary import FlushState as FlushState
from aioproducer._core.ordinary import NodeState as NodeState
from aioproducer._core.ordinary import OrdinaryAccumulator as OrdinaryAccumulator
from aioproducer._core.ordinary import OrdinaryDeadlines as OrdinaryDeadlines
from aioproducer._core.ordinary import OrdinaryDrainer as OrdinaryDrainer
from aioproducer._core.ordinary import OrdinaryMaker as OrdinaryMaker
from aioproducer._core.ordinary import OrdinaryOutcomes as OrdinaryOutcomes
from aioproducer._core.ordinary import OrdinarySequences as OrdinarySequences
from aioproducer._core.ordinary import OrdinarySettlement as OrdinarySettlement
from aioproducer._core.ordinary import OrdinaryTally as OrdinaryTally
from aioproducer._core.ordinary import PartitionState as PartitionState
from aioproducer._core.ordinary import TopicCounts as TopicCounts
from aioproducer._core.ordinary import await_answer as await_answer
from aioproducer._core.ordinary import by_topic as by_topic
from aioproducer._core.ordinary import cover as cover
from aioproducer._core.ordinary import names_by_id as names_by_id
from aioproducer._core.records import BATCH_OVERHEAD as BATCH_OVERHEAD
from aioproducer._core.records import OUTCOMES as OUTCOMES
from aioproducer._core.records import Batch as Batch
from aioproducer._core.records import BatchSettings as BatchSettings
from aioproducer._core.records import Clock as Clock
from aioproducer._core.records import ManualClock as ManualClock
from aioproducer._core.records import ReadMark as ReadMark
from aioproducer._core.records import Waker as Waker
from aioproducer._core.records import framed as framed
from aioproducer._core.records import murmur2 as murmur2
from aioproducer._core.records import record_size as record_size
from aioproducer._core.records import size_of as size_of
from aioproducer._core.records import write_topics as write_topics

if TYPE_CHECKING:
    from aioproducer._core.rows import KINDS as KINDS
    from aioproducer._core.rows import REASONS as REASONS
    from aioproducer._core.rows import RowEncoder as RowEncoder

# Loaded when structured rows are first encoded: no other program needs it.
_ROWS: Final = frozenset({"KINDS", "REASONS", "RowEncoder"})


def __getattr__(name: str) -> Any:
    if name not in _ROWS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("aioproducer._core.rows"), name)
