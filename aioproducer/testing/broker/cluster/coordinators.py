"""The coordinators of groups and transactional ids, and whether they are loaded.

The name determines the coordinator, among the running brokers, until a fault moves it. A new coordinator may be loading
for a while.
"""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

import attrs

from aioproducer._wire.error_codes import ErrorCode


@attrs.define
class Coordinators:
    """The coordinators of all groups and transactional ids."""

    _moved: dict[str, int] = attrs.field(factory=dict, init=False)
    _epochs: dict[str, int] = attrs.field(factory=dict, init=False)
    _loading: dict[str, float] = attrs.field(factory=dict, init=False)

    def find(self, key: str, live: Sequence[int]) -> int | None:
        """The coordinator of a key, None if no broker is up."""
        if not live:
            return None
        moved = self._moved.get(key)
        return moved if moved in live else live[crc32(key.encode()) % len(live)]

    def epoch(self, key: str) -> int:
        """The number of its moves; markers contain it."""
        return self._epochs.get(key, 0)

    def move(self, key: str, broker_id: int, loaded_at: float | None = None) -> None:
        """Move a key to another broker, which loads until `loaded_at`."""
        self._moved[key] = broker_id
        self._epochs[key] = self.epoch(key) + 1
        if loaded_at is None:
            self._loading.pop(key, None)
        else:
            self._loading[key] = loaded_at

    def error(self, key: str, broker_id: int, live: Sequence[int], now: float) -> ErrorCode:
        """The error of a broker that is asked as the coordinator."""
        if self.find(key, live) != broker_id:
            return ErrorCode.NOT_COORDINATOR
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if now < self._loading.get(key, now) else ErrorCode.NONE
