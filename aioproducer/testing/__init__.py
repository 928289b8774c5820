"""Kafka inside your tests: a broker in this process with the real protocol, and with faults on demand."""

from __future__ import annotations

from aioproducer.testing.authority import Certificate as Certificate
from aioproducer.testing.authority import Certificates as Certificates
from aioproducer.testing.authority import certificates as certificates
from aioproducer.testing.broker.authentication.unsecured import unsecured_token as unsecured_token
from aioproducer.testing.broker.authorization import Allow as Allow
from aioproducer.testing.broker.cluster.cluster import ClusterRefusal as ClusterRefusal
from aioproducer.testing.broker.cluster.telemetry import Push as Push
from aioproducer.testing.broker.faults import Faults as Faults
from aioproducer.testing.broker.history import SeenBatch as SeenBatch
from aioproducer.testing.broker.history import SeenRequest as SeenRequest
from aioproducer.testing.broker.logs.records import StoredRecord as StoredRecord
from aioproducer.testing.broker.options import Options as Options
from aioproducer.testing.broker.otlp import PushedMetric as PushedMetric
from aioproducer.testing.broker.rules import Fault as Fault
from aioproducer.testing.mock.producer import MockProducer as MockProducer
from aioproducer.testing.registry.embedded import EmbeddedRegistry as EmbeddedRegistry
from aioproducer.testing.registry.faults import RegistryFault as RegistryFault
from aioproducer.testing.registry.faults import RegistryFaults as RegistryFaults
from aioproducer.testing.registry.routes import RegistryRequest as RegistryRequest

from .embedded import BrokerView as BrokerView
from .embedded import EmbeddedKafka as EmbeddedKafka
from .embedded import TransactionView as TransactionView

__all__ = [
    "Allow",
    "BrokerView",
    "Certificate",
    "Certificates",
    "ClusterRefusal",
    "EmbeddedKafka",
    "EmbeddedRegistry",
    "Fault",
    "Faults",
    "MockProducer",
    "Options",
    "Push",
    "PushedMetric",
    "RegistryFault",
    "RegistryFaults",
    "RegistryRequest",
    "SeenBatch",
    "SeenRequest",
    "StoredRecord",
    "TransactionView",
    "certificates",
    "unsecured_token",
]
