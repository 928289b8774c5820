"""An asyncio-native producer for Apache Kafka.

    async with Producer("localhost:9092") as producer:
        delivery = await producer.send("orders", b"2 apples", key=b"alice")  # accepted: it has its place in the order
        metadata = await delivery                                           # written: partition, offset, timestamp

Everything public is here, and in `aioproducer.auth`, `partitioners`, `serializers`, `interceptors`, `prometheus` and
`testing`.
"""

from __future__ import annotations

import importlib
import typing

if typing.TYPE_CHECKING:
    from aioproducer._callers.owners import Scope as Scope
    from aioproducer._core import BatchDelivery as BatchDelivery
    from aioproducer._core import Delivery as Delivery
    from aioproducer.config import ConfigProvider as ConfigProvider
    from aioproducer.config import DirectoryProvider as DirectoryProvider
    from aioproducer.config import EnvProvider as EnvProvider
    from aioproducer.config import FileProvider as FileProvider
    from aioproducer.config import ProducerConfig as ProducerConfig
    from aioproducer.coordinators import Coordinators as Coordinators
    from aioproducer.coordinators import committed_offsets as committed_offsets
    from aioproducer.coordinators import fence as fence
    from aioproducer.coordinators import list_transactions as list_transactions
    from aioproducer.errors import AuthenticationError as AuthenticationError
    from aioproducer.errors import AuthorizationError as AuthorizationError
    from aioproducer.errors import BrokerError as BrokerError
    from aioproducer.errors import BrokerUnavailableError as BrokerUnavailableError
    from aioproducer.errors import BufferFullError as BufferFullError
    from aioproducer.errors import CheckpointStoppedError as CheckpointStoppedError
    from aioproducer.errors import CommitOutcomeUnknownError as CommitOutcomeUnknownError
    from aioproducer.errors import ConfigurationError as ConfigurationError
    from aioproducer.errors import DeliveryError as DeliveryError
    from aioproducer.errors import DeliveryTimeoutError as DeliveryTimeoutError
    from aioproducer.errors import KafkaError as KafkaError
    from aioproducer.errors import MetadataTimeoutError as MetadataTimeoutError
    from aioproducer.errors import ProducerFencedError as ProducerFencedError
    from aioproducer.errors import ProtocolError as ProtocolError
    from aioproducer.errors import RecordError as RecordError
    from aioproducer.errors import RecordTooLargeError as RecordTooLargeError
    from aioproducer.errors import SerializationError as SerializationError
    from aioproducer.errors import StateError as StateError
    from aioproducer.errors import TransactionAbortedError as TransactionAbortedError
    from aioproducer.errors import TransactionError as TransactionError
    from aioproducer.errors import TransactionTimeoutError as TransactionTimeoutError
    from aioproducer.listeners import BatchReport as BatchReport
    from aioproducer.listeners import ConnectionReport as ConnectionReport
    from aioproducer.outcome import Outcome as Outcome
    from aioproducer.producer import Producer as Producer
    from aioproducer.records import BatchResult as BatchResult
    from aioproducer.records import CloseReport as CloseReport
    from aioproducer.records import FlushReport as FlushReport
    from aioproducer.records import GroupMetadata as GroupMetadata
    from aioproducer.records import OffsetAndMetadata as OffsetAndMetadata
    from aioproducer.records import PartitionInfo as PartitionInfo
    from aioproducer.records import Record as Record
    from aioproducer.records import RecordMetadata as RecordMetadata
    from aioproducer.records import Resolution as Resolution
    from aioproducer.records import TimestampType as TimestampType
    from aioproducer.records import Timings as Timings
    from aioproducer.records import TopicPartition as TopicPartition
    from aioproducer.records import TransactionListing as TransactionListing
    from aioproducer.secret import Secret as Secret
    from aioproducer.secret import SecretEnv as SecretEnv
    from aioproducer.secret import SecretFile as SecretFile
    from aioproducer.stats import ConnectionStats as ConnectionStats
    from aioproducer.stats import Failure as Failure
    from aioproducer.stats import Health as Health
    from aioproducer.stats import Histogram as Histogram
    from aioproducer.stats import Stats as Stats
    from aioproducer.stats import TopicStats as TopicStats
    from aioproducer.stats import TransactionStats as TransactionStats
    from aioproducer.topics import check_topics as check_topics
    from aioproducer.transaction import Transaction as Transaction
    from aioproducer.transaction import TransactionHandle as TransactionHandle

__version__ = "0.2.0.dev20261123"

__all__ = [
    "AuthenticationError",
    "AuthorizationError",
    "BatchDelivery",
    "BatchReport",
    "BatchResult",
    "BrokerError",
    "BrokerUnavailableError",
    "BufferFullError",
    "CheckpointStoppedError",
    "CloseReport",
    "CommitOutcomeUnknownError",
    "ConfigProvider",
    "ConfigurationError",
    "ConnectionReport",
    "ConnectionStats",
    "Coordinators",
    "Delivery",
    "DeliveryError",
    "DeliveryTimeoutError",
    "DirectoryProvider",
    "EnvProvider",
    "Failure",
    "FileProvider",
    "FlushReport",
    "GroupMetadata",
    "Health",
    "Histogram",
    "KafkaError",
    "MetadataTimeoutError",
    "OffsetAndMetadata",
    "Outcome",
    "PartitionInfo",
    "Producer",
    "ProducerConfig",
    "ProducerFencedError",
    "ProtocolError",
    "Record",
    "RecordError",
    "RecordMetadata",
    "RecordTooLargeError",
    "Resolution",
    "Scope",
    "Secret",
    "SecretEnv",
    "SecretFile",
    "SerializationError",
    "StateError",
    "Stats",
    "TimestampType",
    "Timings",
    "TopicPartition",
    "TopicStats",
    "Transaction",
    "TransactionAbortedError",
    "TransactionError",
    "TransactionHandle",
    "TransactionListing",
    "TransactionStats",
    "TransactionTimeoutError",
    "__version__",
    "check_topics",
    "committed_offsets",
    "fence",
    "list_transactions",
]

# Where each public name comes from: its module is imported when the name is first used. A test compares this with the imports
# above, which are those that type checkers read.
_NAMES: typing.Final = {
    "_callers.owners": ("Scope",),
    "_core": ("BatchDelivery", "Delivery"),
    "config": ("ConfigProvider", "DirectoryProvider", "EnvProvider", "FileProvider", "ProducerConfig"),
    "coordinators": ("Coordinators", "committed_offsets", "fence", "list_transactions"),
    "errors": (
        "AuthenticationError",
        "AuthorizationError",
        "BrokerError",
        "BrokerUnavailableError",
        "BufferFullError",
        "CheckpointStoppedError",
        "CommitOutcomeUnknownError",
        "ConfigurationError",
        "DeliveryError",
        "DeliveryTimeoutError",
        "KafkaError",
        "MetadataTimeoutError",
        "ProducerFencedError",
        "ProtocolError",
        "RecordError",
        "RecordTooLargeError",
        "SerializationError",
        "StateError",
        "TransactionAbortedError",
        "TransactionError",
        "TransactionTimeoutError",
    ),
    "listeners": ("BatchReport", "ConnectionReport"),
    "outcome": ("Outcome",),
    "producer": ("Producer",),
    "records": (
        "BatchResult",
        "CloseReport",
        "FlushReport",
        "GroupMetadata",
        "OffsetAndMetadata",
        "PartitionInfo",
        "Record",
        "RecordMetadata",
        "Resolution",
        "TimestampType",
        "Timings",
        "TopicPartition",
        "TransactionListing",
    ),
    "secret": ("Secret", "SecretEnv", "SecretFile"),
    "stats": ("ConnectionStats", "Failure", "Health", "Histogram", "Stats", "TopicStats", "TransactionStats"),
    "topics": ("check_topics",),
    "transaction": ("Transaction", "TransactionHandle"),
}
_HOMES: typing.Final = {name: home for home, names in _NAMES.items() for name in names}
# Modules that are reached as attributes, without an import of their own.
_MODULES: typing.Final = {*_NAMES, "auth", "interceptors", "partitioners", "serializers"}

if not typing.TYPE_CHECKING:  # a type checker would believe that each name is there

    def __getattr__(name: str) -> typing.Any:
        if name in _MODULES:
            return importlib.import_module(f"aioproducer.{name}")
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
        value = globals()[name] = getattr(importlib.import_module(f"aioproducer.{home}"), name)
        return value


def __dir__() -> list[str]:
    return __all__
