"""The public door: what `import aioproducer` offers, and nothing else."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
import typing
from typing import Final

import pytest

import aioproducer
from tests.repo.source import ROOT

ERRORS = """
    AuthenticationError AuthorizationError BrokerError BrokerUnavailableError BufferFullError CheckpointStoppedError
    CommitOutcomeUnknownError ConfigurationError DeliveryError DeliveryTimeoutError KafkaError MetadataTimeoutError
    ProducerFencedError ProtocolError RecordError RecordTooLargeError SerializationError StateError
    TransactionAbortedError TransactionError TransactionTimeoutError
"""
VOCABULARY = """
    BatchDelivery BatchResult CloseReport Delivery FlushReport GroupMetadata Health OffsetAndMetadata Outcome
    PartitionInfo Producer ProducerConfig Record RecordMetadata Stats TopicPartition Transaction TransactionHandle
    TransactionListing committed_offsets fence list_transactions
"""


def test_all_names_are_importable() -> None:
    """`__all__` is what can be imported: no name is missing and none is public by accident."""
    for name in aioproducer.__all__:
        assert getattr(aioproducer, name) is not None
    visible = {
        name
        for name, value in vars(aioproducer).items()
        if not name.startswith("_") and not inspect.ismodule(value) and name != "annotations"
    }
    assert set(aioproducer.__all__) == visible | {"__version__"}
    assert aioproducer.__all__ == sorted(aioproducer.__all__)


def test_names_of_the_contract_are_there() -> None:
    """Every error and every noun of the public contract can be imported from the root."""
    assert set((ERRORS + VOCABULARY).split()) - set(aioproducer.__all__) == set()


MEMBERS = {
    aioproducer.Producer: """
        abort_transaction begin_transaction client_instance_id close commit_transaction committed_offsets fence flush
        from_config from_properties health init_transactions list_transactions partitions_for purge ready register_metric
        reload_certificates run_transaction scope send send_all send_and_wait send_batch send_nowait
        send_offsets_to_transaction send_threadsafe set_credentials start stats transaction unregister_metric
    """,
    aioproducer.Coordinators: "abort commit committed_offsets fence from_config list_transactions",
    aioproducer.Delivery: """
        add_done_callback cancel cancelled done exception get_loop outcome partition remove_done_callback resolve_unknown result timings
        topic try_cancel wait
    """,
    aioproducer.BatchDelivery: "accepted done topic total",
    aioproducer.Transaction: "consumed detach send_offsets",
    aioproducer.TransactionHandle: "abort commit epoch is_empty producer_id transactional_id version",
    aioproducer.Scope: "flush",
}


def test_dir_shows_the_public_names() -> None:
    """`dir(aioproducer)` is `__all__`; modules and internals are not listed."""
    assert dir(aioproducer) == aioproducer.__all__


@pytest.mark.parametrize("kind", MEMBERS, ids=lambda kind: kind.__name__)
def test_dir_shows_the_public_members(kind: type) -> None:
    """`dir()` of a class shows what its users call; a new member is added to the list on purpose."""
    assert [name for name in dir(kind) if not name.startswith("_")] == sorted(MEMBERS[kind].split())


PUBLIC_MODULES = {
    "asgi": "Probes lifespan",
    "auth": "AwsCredentials GivenToken Token msk_iam token_file",
    "doctor": "Check Examination Report Status examine refused",
    "interceptors": "Intercepting Interceptor",
    "outbox": "DeadLetterOutlet ID_HEADER PostgresStore Relay RelayStats Row SqliteStore Store",
    "partitioners": "Partitioner PerProducer Random RoundRobin default murmur3 random round_robin",
    "prometheus": "ProducerCollector",
    "registry": (
        "AvroSerializer IncompatibleSchemaError JsonSerializer ProtobufSerializer Reference RegisteredSchema Registry RegistryError Schema SchemaId "
        "SchemaNotFoundError"
    ),
    "serializers": "Encoded Json NotPrepared Serializer String TopicSerializer json string",
    "stats": "ConnectionStats Failure Health Histogram Stats TopicStats TransactionStats",
}


@pytest.mark.parametrize("name", PUBLIC_MODULES)
def test_public_modules_export_no_internals(name: str) -> None:
    """A new public name of a module is added to the list on purpose."""
    assert sorted(importlib.import_module(f"aioproducer.{name}").__all__) == PUBLIC_MODULES[name].split()


def test_errors_export_errors() -> None:
    """`aioproducer.errors` exports the errors of the root, and nothing else."""
    assert set(aioproducer.errors.__all__) == set(ERRORS.split())


def test_public_names_have_contracts() -> None:
    """Every public class and function has a docstring, and so has every public method."""
    bare = []
    for name in aioproducer.__all__:
        thing = getattr(aioproducer, name)
        if not callable(thing):
            continue
        members = vars(thing).items() if inspect.isclass(thing) else ()
        bare += [
            f"{name}.{key}" for key, each in members if needs_contract(key, each) and not inspect.getdoc(each)
        ]
        if not inspect.getdoc(thing):
            bare.append(name)
    assert bare == []


# A program does not construct these, or the package that a type is from is an extra.
UNRESOLVED: Final = {
    "Transaction.__init__",
    "SentRecord.__init__",
    "PostgresStore.__init__",
    "DeadLetters.begin",
}


@pytest.mark.parametrize("name", ["", ".outbox", ".outlets", ".registry", ".serializers", ".testing"])
def test_annotations_can_be_evaluated(name: str) -> None:
    """Frameworks that inject objects read the types of classes, constructors and calls with `typing.get_type_hints`."""
    module = importlib.import_module(f"aioproducer{name}")
    failed = {}
    for public in module.__all__:
        thing = getattr(module, public)
        members = inspect.getmembers(thing, inspect.isroutine) if inspect.isclass(thing) else []
        for key, each in [("", thing), *members]:
            is_private = key.startswith("_") and key != "__init__"
            if is_private or not (inspect.isclass(each) or inspect.isroutine(each)):
                continue
            try:
                typing.get_type_hints(each)
            except (NameError, TypeError) as error:
                failed[f"{public}.{key}"] = error
    assert {each: error for each, error in failed.items() if each not in UNRESOLVED} == {}


def needs_contract(name: str, member: object) -> bool:
    """Methods and properties that a user may call."""
    kinds = (property, classmethod, staticmethod)
    return not name.startswith("_") and (inspect.isroutine(member) or isinstance(member, kinds))


def test_help_shows_the_real_signature_of_send() -> None:
    """help(Producer.send) names each parameter, none of them hidden in *args or **kwargs."""
    parameters = inspect.signature(aioproducer.Producer.send).parameters
    names = ["self", "topic", "value", "key", "partition", "timestamp", "headers", "timeout", "max_block"]
    assert list(parameters) == names
    assert all(each.kind is each.KEYWORD_ONLY for each in list(parameters.values())[3:])
    assert "key" in (inspect.getdoc(aioproducer.Producer.send) or "")


def test_public_modules_are_importable_on_their_own() -> None:
    """Whichever public module is imported first, it imports."""
    for name in (
        "errors",
        "records",
        "config",
        "partitioners",
        "serializers",
        "interceptors",
        "testing",
        "cli",
    ):
        assert importlib.import_module(f"aioproducer.{name}").__doc__


def test_importing_starts_nothing() -> None:
    """Importing makes no thread, no event loop and no socket, and does not load optional packages."""
    code = (
        "import sys, threading, aioproducer\n"
        "assert threading.active_count() == 1\n"
        "optional = {'pyarrow', 'pytest', 'uvloop', 'aioproducer.testing', 'aioproducer.cli', 'prometheus_client'}\n"
        "optional |= {'aioproducer.registry', 'httpx2', 'fastavro', 'jsonschema_rs', 'google.protobuf'}\n"
        "optional &= set(sys.modules)\n"
        "assert not optional, optional\n"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], cwd=ROOT, check=True)
