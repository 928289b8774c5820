"""The versions of requests in the two protocol levels of transactions.

Level 1 names the partitions of a transaction beforehand. On level 2 (KIP-890) a request itself adds the partitions that
it names, and each transaction has an epoch of its own. They must not be mixed within one transaction: after records of
level 2 and an end of level 1, late records could begin another transaction.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from aioproducer._state.connecting.opening import BrokerVersions
from aioproducer._wire.apis import COMMIT_OFFSETS, END_TXN, PRODUCE

FEATURE: Final = "transaction.version"
_FIRST_OF_LEVEL_2: Mapping[int, int] = {PRODUCE: 12, END_TXN: 5, COMMIT_OFFSETS: 5}


def level_of(features: Mapping[str, int]) -> int:
    """The protocol that a cluster with these finalized features wants."""
    return 2 if features.get(FEATURE, 0) >= 2 else 1


def version_for(versions: BrokerVersions, api_key: int, level: int, at_most: int | None = None) -> int:
    """The version to use with a broker in a transaction of this level; or `ProtocolError`."""
    first = _FIRST_OF_LEVEL_2.get(api_key)
    if first is None:
        return versions.choose(api_key, at_most)
    if level == 1:
        return versions.choose(api_key, first - 1)
    return versions.choose(api_key, at_most, at_least=first)
