"""PushTelemetry: KIP-714, the metrics of a client, compressed OTLP. What cannot be read is refused as INVALID_RECORD."""

from __future__ import annotations

import uuid

from aioproducer._codecs import decompress
from aioproducer._wire.apis import PUSH_TELEMETRY
from aioproducer._wire.error_codes import ErrorCode
from aioproducer._wire.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from aioproducer.testing.broker.call import Call, Handler, Message
from aioproducer.testing.broker.cluster.telemetry import Push
from aioproducer.testing.broker.otlp import read_metrics


def answer(call: Call) -> Message:
    """Keep the metrics, or refuse them."""
    request: PushTelemetryRequest = call.request
    injected = call.plan.error()
    if injected is not None:
        return PushTelemetryResponse(error_code=injected.code)
    error = call.cluster.metrics.pushes_now(
        call.node.id,
        request.client_instance_id,
        subscription_id=request.subscription_id,
        codec=request.compression_type,
        size=len(request.metrics),
        is_last=request.terminating,
    )
    return PushTelemetryResponse(error_code=error or _keep(call, request))


def _keep(call: Call, request: PushTelemetryRequest) -> int:
    try:
        content = read_metrics(decompress(request.metrics, request.compression_type))
    except Exception:  # noqa: BLE001  # any bytes may come
        return ErrorCode.INVALID_RECORD
    call.cluster.metrics.pushes.append(
        Push(
            uuid.UUID(bytes=request.client_instance_id),
            call.header.client_id,
            request.terminating,
            content,
            call.node.id,
            request.compression_type,
        )
    )
    return ErrorCode.NONE


HANDLER = Handler(PUSH_TELEMETRY, 0, 0, answer)
