"""The features that a broker is too old for; docs/compatibility.md has the same table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from aioproducer._state.connecting.opening import BrokerVersions
from aioproducer._wire.apis import INIT_PRODUCER_ID, PRODUCE

__all__ = ["Gap", "features_text", "gaps"]

_TRANSACTION_VERSION: Final = "transaction.version"
_METADATA_VERSION: Final = "metadata.version"
# Kafka's names of the levels of metadata.version, from this one on.
_FIRST_NAMED: Final = 7
_METADATA_VERSIONS: Final = (
    "3.3-IV3", "3.4-IV0", "3.5-IV0", "3.5-IV1", "3.5-IV2", "3.6-IV0", "3.6-IV1", "3.6-IV2",
    "3.7-IV0", "3.7-IV1", "3.7-IV2", "3.7-IV3", "3.7-IV4", "3.8-IV0", "3.9-IV0", "4.0-IV0",
    "4.0-IV1", "4.0-IV2", "4.0-IV3", "4.1-IV0", "4.1-IV1", "4.2-IV0", "4.2-IV1", "4.3-IV0",
    "4.4-IV0",
)  # fmt: skip


class Gap(NamedTuple):
    """A missing feature, its consequence, and the version of Kafka that has it."""

    feature: str
    consequence: str
    needs: str


_ZSTD: Final = Gap("compression by zstd", "Records with compression.type=zstd are refused", "Kafka 2.1")
_OF_PRODUCE: Final[Mapping[int, Gap]] = {
    8: Gap("the identification of refused records", "One refused record fails its whole batch", "Kafka 2.4"),
    10: Gap(
        "the next leader in answers", "The producer asks for metadata when a leader changes", "Kafka 3.7"
    ),
    13: Gap(
        "topic ids",
        "A recreated topic is noticed by the next metadata, and not at once",
        "Kafka 4.1",
    ),
}
_PRODUCER_IDS: Final = Gap(
    "producer ids", "An idempotent producer does not start: set enable.idempotence=false", "Kafka 0.11"
)
_RECOVERY: Final = Gap(
    "the detection of takeovers",
    "A transactional producer that recovers fences another one of the same id",
    "Kafka 2.5",
)
_LEVEL_2: Final = Gap(
    "level 2 of transactions", "Transactions follow the former protocol", "Kafka 4.0, transaction.version 2"
)


def gaps(
    versions: BrokerVersions, compression_type: str, *, idempotent: bool, transactional: bool
) -> Iterator[Gap]:
    """The missing features that this client would use."""
    produce = versions.chosen.get(PRODUCE, 0)
    if compression_type == "zstd" and produce < 7:
        yield _ZSTD
    yield from (gap for version, gap in _OF_PRODUCE.items() if produce < version)
    producer_ids = versions.chosen.get(INIT_PRODUCER_ID)
    if producer_ids is None and idempotent:
        yield _PRODUCER_IDS
    if transactional and producer_ids is not None and producer_ids < 3:
        yield _RECOVERY
    if transactional and versions.features.get(_TRANSACTION_VERSION, 0) < 2:
        yield _LEVEL_2


def features_text(features: Mapping[str, int]) -> str:
    """`transaction.version 2, metadata.version 4.3-IV0`: the two levels that people ask for."""
    found = []
    if _TRANSACTION_VERSION in features:
        found.append(f"{_TRANSACTION_VERSION} {features[_TRANSACTION_VERSION]}")
    if _METADATA_VERSION in features:
        level = features[_METADATA_VERSION]
        place = level - _FIRST_NAMED
        is_named = 0 <= place < len(_METADATA_VERSIONS)
        found.append(f"{_METADATA_VERSION} {_METADATA_VERSIONS[place] if is_named else level}")
    return ", ".join(found)
