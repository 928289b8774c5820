"""GetTelemetrySubscriptions: KIP-714, the metrics that clients are asked for, and the id of a client that has none.

Kafka refuses a client that asks again before its interval is over, unless a push was refused because of the subscription.
"""

from __future__ import annotations

from aioproducer._wire.apis import GET_TELEMETRY_SUBSCRIPTIONS
from aioproducer._wire.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from aioproducer.testing.broker.call import Call, Handler, Message
from aioproducer.testing.broker.cluster.telemetry import COMPRESSION_TYPES


def answer(call: Call) -> Message:
    """The subscription of all clients."""
    request: GetTelemetrySubscriptionsRequest = call.request
    injected = call.plan.error()
    if injected is not None:
        return GetTelemetrySubscriptionsResponse(error_code=injected.code)
    metrics = call.cluster.metrics
    instance_id = request.client_instance_id
    if not any(instance_id):
        instance_id = metrics.new_id()
    error = metrics.asks(call.node.id, instance_id)
    if error:
        return GetTelemetrySubscriptionsResponse(error_code=error)
    asked_for = metrics.asked_for
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=instance_id,
        subscription_id=asked_for.id,
        accepted_compression_types=list(COMPRESSION_TYPES),
        push_interval_ms=asked_for.interval_ms,
        telemetry_max_bytes=metrics.max_bytes,
        delta_temporality=True,
        requested_metrics=list(asked_for.prefixes),
    )


HANDLER = Handler(GET_TELEMETRY_SUBSCRIPTIONS, 0, 0, answer)
