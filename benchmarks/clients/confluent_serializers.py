"""confluent-kafka: its serializers with a schema registry, as its examples call them."""

from __future__ import annotations

import json
from typing import Any

import confluent_kafka
from anyio.from_thread import start_blocking_portal
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from aioproducer.testing import EmbeddedRegistry
from benchmarks.clients.serialized import AVRO_SCHEMA, JSON_SCHEMA, ORDER, measured, message_class
from benchmarks.measure import Round, Work, work


def _run(one: Work) -> Round:
    order = message_class()
    message = order(**ORDER)
    contexts = {name: SerializationContext(name, MessageField.VALUE) for name in ("avro", "json", "pb")}
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(EmbeddedRegistry()) as server:
        client = SchemaRegistryClient({"url": server.url})
        avro: Any = AvroSerializer(client, json.dumps(AVRO_SCHEMA))
        plain: Any = JSONSerializer(json.dumps(JSON_SCHEMA), client, conf={"validate": False})
        validated: Any = JSONSerializer(json.dumps(JSON_SCHEMA), client)
        protobuf: Any = ProtobufSerializer(order, client, {"use.deprecated.format": False})
        return measured(
            one,
            f"confluent-kafka {confluent_kafka.version()}",
            avro=lambda: avro(ORDER, contexts["avro"]),
            json=lambda: plain(ORDER, contexts["json"]),
            validated=lambda: validated(ORDER, contexts["json"]),
            protobuf=lambda: protobuf(message, contexts["pb"]),
        )


if __name__ == "__main__":
    _run(work()).tell()
