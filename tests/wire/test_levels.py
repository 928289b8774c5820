"""The compression level of batches, by default and with the setting."""

from __future__ import annotations

import random

import pytest

from aioproducer._codecs import CODECS, compress, decompress

WORDS = [b"%x" % random.Random(number).getrandbits(30) for number in range(300)]
TEXT = b" ".join(random.Random(7).choices(WORDS, k=8000))


def size(codec: str, level: int | None) -> int:
    """How large the text is afterwards; it must come back as it was."""
    packed = compress(TEXT, CODECS[codec].id, level)
    assert decompress(packed, CODECS[codec].id) == TEXT
    return len(packed)


def test_the_default_of_lz4_is_its_fast_compressor() -> None:
    """Kafka's default is called 9, and is the fast one: a thorough level 9 would take ten times as long."""
    fast = size("lz4", None)
    assert size("lz4", 9) == fast == size("lz4", 1)
    assert size("lz4", 8) < fast
    assert size("lz4", 10) < fast


@pytest.mark.parametrize(("codec", "low", "default", "high"), [("gzip", 1, 6, 9), ("zstd", 1, 3, 19)])
def test_levels_count(codec: str, low: int, default: int, high: int) -> None:
    """The default is Kafka's, and a higher level makes it smaller."""
    assert size(codec, None) == size(codec, default)
    assert size(codec, high) < size(codec, low)
