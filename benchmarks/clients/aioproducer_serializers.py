"""aioproducer: its serializers with a schema registry, called as the producer calls them."""

from __future__ import annotations

from typing import Any

from aioproducer.registry import AvroSerializer, JsonSerializer, ProtobufSerializer, Registry
from aioproducer.serializers import bind
from aioproducer.testing import EmbeddedRegistry
from benchmarks.clients.ours import own_version, run
from benchmarks.clients.serialized import AVRO_SCHEMA, JSON_SCHEMA, ORDER, TOPIC, measured, message_class
from benchmarks.measure import Round, Work


async def _program(one: Work) -> Round:
    order = message_class()
    message = order(**ORDER)
    async with EmbeddedRegistry() as server, Registry(server.url) as registry:
        calls: list[Any] = []
        serializers: list[Any] = [
            AvroSerializer(registry, AVRO_SCHEMA, subject=lambda *_: "avro"),
            JsonSerializer(registry, JSON_SCHEMA, subject=lambda *_: "json", validate=False),
            JsonSerializer(registry, JSON_SCHEMA, subject=lambda *_: "json"),
            ProtobufSerializer(registry, order, subject=lambda *_: "protobuf"),
        ]
        for serializer in serializers:
            bound: Any = bind(serializer)
            await bound.owner.warm(TOPIC)
            calls.append(bound)
    avro, json, validated, protobuf = calls
    return measured(
        one,
        own_version(),
        avro=lambda: avro(TOPIC, None, ORDER),
        json=lambda: json(TOPIC, None, ORDER),
        validated=lambda: validated(TOPIC, None, ORDER),
        protobuf=lambda: protobuf(TOPIC, None, message),
    )


if __name__ == "__main__":
    run(_program)
