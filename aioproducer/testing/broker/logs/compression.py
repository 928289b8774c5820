"""The codecs of record batches, by the number in their attributes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import cramjam

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER_SIZE: Final = 16

NAMES: Final[Mapping[str, int]] = MappingProxyType({"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4})


def _snappy_decompress(data: bytes) -> bytes:
    """Raw snappy, or the framing of the snappy-java library that Kafka's Java client writes."""
    if not data.startswith(_XERIAL_MAGIC):
        return bytes(cramjam.snappy.decompress_raw(data))
    parts = []
    at = _XERIAL_HEADER_SIZE
    while at < len(data):
        end = at + 4 + int.from_bytes(data[at : at + 4], "big")
        parts.append(bytes(cramjam.snappy.decompress_raw(data[at + 4 : end])))
        at = end
    return b"".join(parts)


def _lz4_compress(data: bytes) -> bytes:
    """Frames whose blocks stand alone: Kafka's `Lz4BlockInputStream` reads no others."""
    compressor = cramjam.lz4.Compressor(content_checksum=False, block_linked=False)
    compressor.compress(data)
    return bytes(compressor.finish())


_DECOMPRESS: Final[Mapping[int, Callable[[bytes], bytes]]] = MappingProxyType(
    {
        0: bytes,
        1: lambda data: bytes(cramjam.gzip.decompress(data)),
        2: _snappy_decompress,
        3: lambda data: bytes(cramjam.lz4.decompress(data)),
        4: lambda data: bytes(cramjam.zstd.decompress(data)),
    }
)

_COMPRESS: Final[Mapping[int, Callable[[bytes], bytes]]] = MappingProxyType(
    {
        0: bytes,
        1: lambda data: bytes(cramjam.gzip.compress(data)),
        2: lambda data: bytes(cramjam.snappy.compress_raw(data)),
        3: _lz4_compress,
        4: lambda data: bytes(cramjam.zstd.compress(data)),
    }
)


def decompress(codec: int, data: bytes) -> bytes:
    """The records of a batch without compression; an unknown codec is a ValueError."""
    return _pick(_DECOMPRESS, codec)(data)


def compress(codec: int, data: bytes) -> bytes:
    """The records of a batch, compressed."""
    return _pick(_COMPRESS, codec)(data)


def _pick(table: Mapping[int, Callable[[bytes], bytes]], codec: int) -> Callable[[bytes], bytes]:
    try:
        return table[codec]
    except KeyError:
        message = f"compression codec {codec} is unknown; Kafka has 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd"
        raise ValueError(message) from None
