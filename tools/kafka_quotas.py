"""Quotas of a real Kafka's users."""

from __future__ import annotations

from kio.schema.alter_client_quotas.v1.request import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from kio.schema.alter_client_quotas.v1.response import AlterClientQuotasResponse
from kio.static.primitive import f64

from tools.kafka_jars import KafkaUnavailableError
from tools.kafka_requests import ask


def limit_producer(address: str, user: str, bytes_per_second: float | None) -> None:
    """Let a user produce so many bytes a second, on each broker; None: any number."""
    change = OpData(
        key="producer_byte_rate", value=f64(float(bytes_per_second or 0)), remove=bytes_per_second is None
    )
    entity = EntityData(entity_type="user", entity_name=user)
    request = AlterClientQuotasRequest(
        entries=(EntryData(entity=(entity,), ops=(change,)),), validate_only=False
    )
    answer = ask(address, request, AlterClientQuotasResponse)
    if any(entry.error_code.value for entry in answer.entries):
        raise KafkaUnavailableError(f"the quota of {user} was not changed: {answer}")
