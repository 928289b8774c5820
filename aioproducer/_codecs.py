"""The compression codecs of record batches: one row each, for settings, client and embedded Kafka.

A new codec is a new row here, and a word in the `Literal` of `config/signature.py`, which type checkers read.
Each codec is framed as Kafka's Java client writes and reads it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, NamedTuple

# snappy-java's SnappyOutputStream: magic, version 1, compatible with 1, then blocks with their length in front.
XERIAL_MAGIC = b"\x82SNAPPY\x00"
XERIAL_HEADER = XERIAL_MAGIC + struct.pack(">ii", 1, 1)
XERIAL_BLOCK = 32 * 1024
# Kafka's Lz4BlockOutputStream takes the fast compressor for its default level, and the thorough one for every other level.
LZ4_DEFAULT, LZ4_FAST = 9, 1


class Levels(NamedTuple):
    """How hard a codec can compress."""

    low: int
    high: int
    default: int
    remark: str = ""

    def __str__(self) -> str:
        return f"{self.low} to {self.high}{self.remark}"


class Codec(NamedTuple):
    """One way to compress the records of a batch."""

    name: str
    id: int
    """Its number in the attributes of a batch."""
    compress: Callable[[bytes, int], bytes]
    """The records at a level."""
    decompress: Callable[[bytes], bytes]
    levels: Levels | None = None
    produce_version: int = 0
    """The first version of Produce that takes it."""


@cache
def _cramjam() -> Any:  # a compiled module
    """Loaded when the first batch is compressed: nearly two megabytes that most producers without compression never need."""
    import cramjam  # noqa: PLC0415

    return cramjam


def _plain(data: bytes, level: int = 0) -> bytes:
    del level
    return bytes(data)


def _gzip(data: bytes, level: int) -> bytes:
    return bytes(_cramjam().gzip.compress(data, level=level))


def _ungzip(data: bytes) -> bytes:
    return bytes(_cramjam().gzip.decompress(data))


def _snappy(data: bytes, level: int) -> bytes:
    del level
    pieces = [XERIAL_HEADER]
    for start in range(0, len(data), XERIAL_BLOCK):
        block = bytes(_cramjam().snappy.compress_raw(data[start : start + XERIAL_BLOCK]))
        pieces += (struct.pack(">i", len(block)), block)
    return b"".join(pieces)


def _unsnappy(data: bytes) -> bytes:
    """Raw snappy is read as well: other clients than Java's write it."""
    if not data.startswith(XERIAL_MAGIC):
        return bytes(_cramjam().snappy.decompress_raw(data))
    pieces = []
    at = len(XERIAL_HEADER)
    while at < len(data):
        end = at + 4 + int.from_bytes(data[at : at + 4])
        pieces.append(bytes(_cramjam().snappy.decompress_raw(data[at + 4 : end])))
        at = end
    return b"".join(pieces)


def _lz4(data: bytes, level: int) -> bytes:
    # Java's KafkaLZ4BlockInputStream refuses blocks that depend on each other.
    compressor = _cramjam().lz4.Compressor(
        level=LZ4_FAST if level == LZ4_DEFAULT else level, content_checksum=False, block_linked=False
    )
    compressor.compress(data)
    return bytes(compressor.finish())


def _unlz4(data: bytes) -> bytes:
    return bytes(_cramjam().lz4.decompress(data))


def _zstd(data: bytes, level: int) -> bytes:
    return bytes(_cramjam().zstd.compress(data, level=level))


def _unzstd(data: bytes) -> bytes:
    return bytes(_cramjam().zstd.decompress(data))


_ROWS = (
    Codec("none", 0, _plain, _plain),
    Codec("gzip", 1, _gzip, _ungzip, Levels(1, 9, 6)),
    Codec("snappy", 2, _snappy, _unsnappy),
    Codec(
        "lz4",
        3,
        _lz4,
        _unlz4,
        Levels(1, 17, LZ4_DEFAULT, " (where 9 stands for its fast compressor, as in Kafka)"),
    ),
    Codec("zstd", 4, _zstd, _unzstd, Levels(-131_072, 22, 3), produce_version=7),
)
CODECS: Mapping[str, Codec] = MappingProxyType({codec.name: codec for codec in _ROWS})
CODEC_IDS: Mapping[int, Codec] = MappingProxyType({codec.id: codec for codec in _ROWS})
LEVELS: Mapping[str, Levels] = MappingProxyType({codec.name: codec.levels for codec in _ROWS if codec.levels})


def compress(data: bytes, codec: int, level: int | None = None) -> bytes:
    """`data` compressed by the codec with this id; an unknown id is a ValueError."""
    row = _codec(codec)
    default = row.levels.default if row.levels else 0
    return row.compress(data, default if level is None else level)


def decompress(data: bytes, codec: int) -> bytes:
    """The decompressed bytes; an unknown id of a codec is a ValueError."""
    return _codec(codec).decompress(data)


def _codec(number: int) -> Codec:
    try:
        return CODEC_IDS[number]
    except KeyError:
        known = ", ".join(f"{codec.id} {codec.name}" for codec in _ROWS)
        message = f"compression codec {number} is unknown; Kafka has {known}"
        raise ValueError(message) from None
