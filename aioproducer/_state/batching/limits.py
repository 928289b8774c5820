"""The settings that batching follows."""

from __future__ import annotations

from collections.abc import Mapping

import attrs


@attrs.frozen
class Limits:
    """The settings that the accumulator follows, in seconds and bytes."""

    linger: float
    batch_size: int
    max_request_size: int
    delivery_timeout: float
    codec: int = 0
    adaptive: bool = True
    ignore_keys: bool = False
    custom_partitioner: bool = False
    linger_awaited: bool = False
    # Records without a key prefer leaders in this rack (KIP-1123), and avoid brokers that take nothing for so long.
    rack: str | None = None
    availability_timeout: float = 0.0
    # An open batch refuses records after this time, so that late ones have their full delivery time.
    max_age: float = 1.0
    # How many bytes of `buffer_memory` a topic may hold, where that is limited.
    topic_buffers: Mapping[str, int] = attrs.field(factory=dict, hash=False)
