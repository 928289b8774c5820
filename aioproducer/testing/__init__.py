"""Kafka inside your tests: a broker in this process that speaks the real protocol, and fails when it is told to."""

from __future__ import annotations

from .cluster import ClusterRefusal as ClusterRefusal
from .embedded import BrokerView as BrokerView
from .embedded import EmbeddedKafka as EmbeddedKafka
from .embedded import TransactionView as TransactionView
from .faults import Faults as Faults
from .history import SeenBatch as SeenBatch
from .history import SeenRequest as SeenRequest
from .mock import MockProducer as MockProducer
from .options import Options as Options
from .records import StoredRecord as StoredRecord
from .rules import Fault as Fault

__all__ = [
    "BrokerView",
    "ClusterRefusal",
    "EmbeddedKafka",
    "Fault",
    "Faults",
    "MockProducer",
    "Options",
    "SeenBatch",
    "SeenRequest",
    "StoredRecord",
    "TransactionView",
]
