"""The encoders alone: fastavro, orjson with jsonschema-rs, protobuf."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import fastavro
import jsonschema_rs
import orjson

from benchmarks.clients.serialized import AVRO_SCHEMA, JSON_SCHEMA, ORDER, measured, message_class
from benchmarks.measure import Round, Work, work


def _run(one: Work) -> Round:
    message = message_class()(**ORDER)
    schema: Any = fastavro.parse_schema(AVRO_SCHEMA)
    is_valid = jsonschema_rs.validator_for(JSON_SCHEMA).is_valid

    def avro() -> bytes:
        buffer = BytesIO()
        fastavro.schemaless_writer(buffer, schema, ORDER)
        return buffer.getvalue()

    def validated() -> bytes:
        is_valid(ORDER)
        return orjson.dumps(ORDER)

    return measured(
        one,
        f"fastavro {fastavro.__version__}, orjson {orjson.__version__}",
        avro=avro,
        json=lambda: orjson.dumps(ORDER),
        validated=validated,
        protobuf=lambda: message.SerializeToString(),  # noqa: PLW0108 - a call as the others
    )


if __name__ == "__main__":
    _run(work()).tell()
