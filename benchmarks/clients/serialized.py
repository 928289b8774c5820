"""The common parts of the programs that measure serializers: the objects, their schemas, and the clock."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from benchmarks.measure import Round, Work

TOPIC: Final = "serialized"
ROUNDS: Final = 7

ORDER: Final = {
    "id": 123456789,
    "customer": "customer-0042",
    "amount": 19.95,
    "open": True,
}
AVRO_SCHEMA: Final = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "customer", "type": "string"},
        {"name": "amount", "type": "double"},
        {"name": "open", "type": "boolean"},
    ],
}
JSON_SCHEMA: Final = {
    "title": "Order",
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "customer": {"type": "string"},
        "amount": {"type": "number"},
        "open": {"type": "boolean"},
    },
}
_FIELDS: Final = (("id", 3, 1), ("customer", 9, 1), ("amount", 1, 1), ("open", 8, 1))


def message_class() -> Any:
    """The class of the same object in Protobuf."""
    file = descriptor_pb2.FileDescriptorProto(name="order.proto", syntax="proto3")
    message = file.message_type.add(name="Order")
    for number, (name, kind, label) in enumerate(_FIELDS, 1):
        message.field.add(
            name=name,
            number=number,
            type=descriptor_pb2.FieldDescriptorProto.Type.Name(kind),
            label=descriptor_pb2.FieldDescriptorProto.Label.Name(label),
        )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("Order"))


def measured(one: Work, version: str, **serializers: Callable[[], object]) -> Round:
    """Microseconds of processor time for one object of each serializer: the best of some rounds."""
    began, cpu = time.perf_counter(), time.process_time()
    each = max(1000, one.records // ROUNDS)
    figures = {f"{name}_us": _best(serialize, each) for name, serialize in serializers.items()}
    return Round(one.records, time.perf_counter() - began, time.process_time() - cpu, version, figures)


def _best(serialize: Callable[[], object], each: int) -> float:
    taken = []
    for _ in range(ROUNDS):
        began = time.thread_time()
        for _ in range(each):
            serialize()
        taken.append(time.thread_time() - began)
    return min(taken) / each * 1e6
