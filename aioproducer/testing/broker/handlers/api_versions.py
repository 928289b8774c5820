"""ApiVersions: the versions that this broker supports.

v0-2 the list; v3 (KIP-511) adds the client's name and version, and the features (KIP-584), of which
`transaction.version` matters to producers. The answer's header is always version 0. A newer version is answered in
version 0 with UNSUPPORTED_VERSION and one range, that of ApiVersions itself. Produce is announced from version 0 on
(librdkafka requires it, KAFKA-18659) but refused below 3.
"""

from __future__ import annotations

from collections.abc import Mapping

from aioproducer._wire.apis import API_VERSIONS, PRODUCE
from aioproducer._wire.error_codes import ErrorCode
from aioproducer._wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from aioproducer.testing.broker.call import Call, Handler, Message
from aioproducer.testing.broker.cluster.cluster import Cluster

FEATURE = "transaction.version"
MAX_TRANSACTION_VERSION = 2


def announced(cluster: Cluster, handlers: Mapping[int, Handler]) -> list[ApiVersion]:
    """The ranges of all APIs, as far as the cluster is not limited to older ones."""
    ranges = []
    for handler in filter(cluster.offers, handlers.values()):
        low, high = cluster.versions(handler)
        ranges.append(ApiVersion(handler.key, 0 if handler.key == PRODUCE and low == 3 else low, high))
    return sorted(ranges)


def answer_with(call: Call, handlers: Mapping[int, Handler]) -> Message:
    """The ranges and the features."""
    error = call.plan.error()
    if error is not None and error.code == ErrorCode.UNSUPPORTED_VERSION:
        return refusal(call.cluster, handlers[API_VERSIONS])
    if error is not None:
        return ApiVersionsResponse(error_code=error.code)
    level = call.cluster.transaction_version
    return ApiVersionsResponse(
        api_keys=announced(call.cluster, handlers),
        supported_features=[SupportedFeatureKey(FEATURE, 0, MAX_TRANSACTION_VERSION)],
        finalized_features_epoch=call.cluster.features_epoch,
        finalized_features=[FinalizedFeatureKey(FEATURE, level, level)] if level else [],
    )


def refusal(cluster: Cluster, handler: Handler) -> ApiVersionsResponse:
    """The answer to an unknown version, to be written in version 0."""
    return ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        api_keys=[ApiVersion(API_VERSIONS, *cluster.versions(handler))],
    )
