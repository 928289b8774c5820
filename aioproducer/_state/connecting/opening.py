"""The versions of a broker, which are asked first on each connection."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType

import attrs

from aioproducer._state.connecting.dialogue import Ask, Dialogue
from aioproducer._state.connecting.sessions import AuthenticatedSession
from aioproducer._wire.apis import API_VERSIONS, APIS, PRODUCE
from aioproducer._wire.codec import decode_response
from aioproducer._wire.error_codes import ErrorCode, describe
from aioproducer._wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from aioproducer.errors import BrokerUnavailableError, ProtocolError

__all__ = ["NO_VERSIONS", "BrokerVersions", "Opened", "ask_versions"]

_SOFTWARE = "aioproducer"

# What we speak, where it is less than what the definitions allow.
_OURS: Mapping[int, tuple[int, int]] = {
    0: (3, 13),  # brokers advertise 0-2 for the sake of old clients, and refuse them (KAFKA-18659)
    3: (0, 13),
    22: (0, 5),  # 6 is two-phase commit, unstable
    24: (0, 3),  # from 4 on it is for brokers among themselves
}


@attrs.frozen
class BrokerVersions:
    """The API versions and features of one broker, as it listed them when this connection was opened.

    `features` are the cluster's finalized feature levels ("transaction.version": 2), valid as of `features_epoch`;
    -1 says that the broker does not know them.
    """

    broker: str
    chosen: Mapping[int, int] = attrs.field(factory=dict)
    ranges: Mapping[int, tuple[int, int]] = attrs.field(factory=dict)
    features: Mapping[str, int] = attrs.field(factory=dict)
    features_epoch: int = -1

    def choose(self, api_key: int, at_most: int | None = None, *, at_least: int = 0) -> int:
        """The highest version of this API that both sides know, within these bounds; or `ProtocolError`."""
        version = self.chosen.get(api_key)
        if version is None or version < at_least:
            raise self._no_common_version(api_key, at_most, at_least)
        if at_most is not None and version > at_most:
            if at_most < max(self.ranges[api_key][0], _our_range(api_key)[0]):
                raise self._no_common_version(api_key, at_most)
            return at_most
        return version

    def named_ranges(self) -> dict[str, tuple[int, int]]:
        """The ranges of the broker by Kafka's names of the APIs."""
        return {APIS[key].name: each for key, each in self.ranges.items()}

    def _no_common_version(self, api_key: int, at_most: int | None, at_least: int = 0) -> ProtocolError:
        name = APIS[api_key].name
        low, high = _our_range(api_key)
        low = max(low, at_least)
        ours = f"v{low}-v{high if at_most is None else at_most}"
        theirs = self.ranges.get(api_key)
        offer = f"{name} v{theirs[0]}-v{theirs[1]}" if theirs else f"no {name} requests"
        hint = (
            " (a controller's listener? producers need a broker's)"
            if api_key == PRODUCE and not theirs
            else ""
        )
        return ProtocolError(
            f"the broker supports {offer}{hint}; this client needs {ours}", broker=self.broker
        )


NO_VERSIONS = BrokerVersions(broker="a broker that was not asked yet")


@attrs.frozen
class Opened:
    """The result of opening a connection. `session` is None where no authentication was needed."""

    versions: BrokerVersions
    session: AuthenticatedSession | None = None


def _ignored(_count: int) -> None:
    pass


def ask_versions(
    broker: str, software_version: str, surplus: Callable[[int], None] = _ignored
) -> Dialogue[BrokerVersions]:
    """The first question of a connection; `surplus`: see `decode_response`."""
    request = ApiVersionsRequest(_SOFTWARE, software_version)
    version = APIS[API_VERSIONS].max_version
    frame = yield from Ask(request, version)
    if _error_code(frame) == ErrorCode.UNSUPPORTED_VERSION:
        # By the code alone: what follows it depends on the broker's age, and some leave it out.
        version = 0
        frame = yield from Ask(ApiVersionsRequest(), version)
    code = _error_code(frame)
    if code:
        told = f"it refused to tell its API versions: {describe(code)} (error {code})"
        raise BrokerUnavailableError(told, broker=broker)
    return negotiated(broker, decode_response(ApiVersionsResponse, version, frame, surplus)[1])


def _error_code(frame: bytes) -> int:
    # Behind the correlation id; the same place in every version.
    return int.from_bytes(frame[4:6], signed=True)


def negotiated(broker: str, answer: ApiVersionsResponse) -> BrokerVersions:
    """The versions to use with a broker; `ProtocolError` if its answer is invalid or has no version for a producer."""
    chosen, ranges = _tables(tuple(_ranges(broker, answer.api_keys).items()))
    known = answer.finalized_features_epoch >= 0
    features = {f.name: f.max_version_level for f in answer.finalized_features} if known else {}
    versions = BrokerVersions(
        broker,
        chosen,
        ranges,
        MappingProxyType(features),
        answer.finalized_features_epoch,
    )
    versions.choose(PRODUCE)
    return versions


# Brokers of one cluster, and of most clusters, list the same: four kilobytes that all connections share.
@lru_cache(maxsize=16)
def _tables(
    listed: tuple[tuple[int, tuple[int, int]], ...],
) -> tuple[Mapping[int, int], Mapping[int, tuple[int, int]]]:
    """The version of each API that both sides know, and the ranges that the broker listed."""
    chosen = {key: version for key, theirs in listed if (version := _common(key, theirs)) is not None}
    return MappingProxyType(chosen), MappingProxyType(dict(listed))


def _ranges(broker: str, offered: Iterable[ApiVersion]) -> dict[int, tuple[int, int]]:
    """The ranges of the known APIs; other APIs are ignored."""
    ranges = {}
    for api_key, low, high in offered:
        if api_key not in APIS:
            continue
        if low > high:
            told = f"its ApiVersions answer is invalid: {APIS[api_key].name} from version {low} to {high}"
            raise ProtocolError(told, broker=broker)
        ranges[api_key] = (low, high)
    return ranges


def _our_range(api_key: int) -> tuple[int, int]:
    api = APIS[api_key]
    low, high = _OURS.get(api_key, (api.min_version, api.max_version))
    return max(low, api.min_version), min(high, api.max_version)


def _common(api_key: int, theirs: tuple[int, int]) -> int | None:
    ours = _our_range(api_key)
    highest = min(ours[1], theirs[1])
    return highest if highest >= max(ours[0], theirs[0]) else None
