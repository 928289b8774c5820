"""The header of a record batch: producer id, epoch, sequence, and the checksum of the whole batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import crc32c

if TYPE_CHECKING:
    from aioproducer._core import Batch

NO_PRODUCER_ID = -1
NO_EPOCH = -1
NO_SEQUENCE = -1

# CRC-32C of the bytes behind it in the header.
checksum = crc32c.crc32c


def stamp(batch: Batch, producer_id: int, epoch: int, sequence: int, transactional: bool) -> None:
    """Write the header of `batch` with this identity; the batch does not change afterwards."""
    batch.stamp(producer_id, epoch, sequence, checksum, transactional)


def stamp_anonymous(batch: Batch) -> None:
    """Write the header of a batch of a producer without idempotence."""
    stamp(batch, NO_PRODUCER_ID, NO_EPOCH, NO_SEQUENCE, False)
