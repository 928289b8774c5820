"""The four codecs of record batches, in the framing that Kafka's Java client writes and reads."""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cache
from typing import Any

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
NAMES = {number: name for name, number in CODECS.items()}

# snappy-java's SnappyOutputStream: magic, version 1, compatible with 1, then blocks with their length in front.
XERIAL_HEADER = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
XERIAL_BLOCK = 32 * 1024

GZIP_DEFAULT, ZSTD_DEFAULT, LZ4_DEFAULT = 6, 3, 9
# Kafka's Lz4BlockOutputStream takes the fast compressor for its default, 9, and the thorough one for every other level.
LZ4_FAST = 1


@cache
def _codecs() -> Any:  # a compiled module
    """Loaded when the first batch is compressed: nearly two megabytes that most producers without compression never need."""
    import cramjam  # noqa: PLC0415

    return cramjam


def compress(data: bytes, codec: int, level: int | None = None) -> bytes:
    """`data` compressed with the codec of this number (1 gzip, 2 snappy, 3 lz4, 4 zstd)."""
    return _COMPRESSORS[codec](data, level)


def decompress(data: bytes, codec: int) -> bytes:
    """The plain bytes of what `compress` made; only for batches of our own, never for a peer's."""
    return _DECOMPRESSORS[codec](data)


def _gzip(data: bytes, level: int | None) -> bytes:
    return bytes(_codecs().gzip.compress(data, level=GZIP_DEFAULT if level is None else level))


def _zstd(data: bytes, level: int | None) -> bytes:
    return bytes(_codecs().zstd.compress(data, level=ZSTD_DEFAULT if level is None else level))


def _lz4(data: bytes, level: int | None) -> bytes:
    # Java's KafkaLZ4BlockInputStream refuses blocks that depend on each other.
    fast = level is None or level == LZ4_DEFAULT
    compressor = _codecs().lz4.Compressor(
        level=LZ4_FAST if fast else level, content_checksum=False, block_linked=False
    )
    compressor.compress(data)
    return bytes(compressor.finish())


def _snappy(data: bytes, level: int | None) -> bytes:
    del level  # snappy has none
    pieces = [XERIAL_HEADER]
    for start in range(0, len(data), XERIAL_BLOCK):
        block = bytes(_codecs().snappy.compress_raw(data[start : start + XERIAL_BLOCK]))
        pieces += (struct.pack(">i", len(block)), block)
    return b"".join(pieces)


def _unsnappy(data: bytes) -> bytes:
    pieces = []
    at = len(XERIAL_HEADER)
    while at < len(data):
        (size,) = struct.unpack_from(">i", data, at)
        pieces.append(bytes(_codecs().snappy.decompress_raw(data[at + 4 : at + 4 + size])))
        at += 4 + size
    return b"".join(pieces)


def _plain(data: bytes) -> bytes:
    return data


_COMPRESSORS: dict[int, Callable[[bytes, int | None], bytes]] = {1: _gzip, 2: _snappy, 3: _lz4, 4: _zstd}
_DECOMPRESSORS: dict[int, Callable[[bytes], bytes]] = {
    0: _plain,
    1: lambda data: bytes(_codecs().gzip.decompress(data)),
    2: _unsnappy,
    3: lambda data: bytes(_codecs().lz4.decompress(data)),
    4: lambda data: bytes(_codecs().zstd.decompress(data)),
}
