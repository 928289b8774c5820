"""Keys are hashed, and so land, where the Java client puts them."""

from __future__ import annotations

from collections import Counter

from aioproducer._core import murmur2
from tests.golden.vectors import golden_keys

_KEYS = golden_keys()


def test_the_vectors_cover_every_short_length() -> None:
    """There are more than 1,000 different keys, and some of every length from 0 to 64."""
    lengths = Counter(len(golden.key) for golden in _KEYS)
    assert len({golden.key for golden in _KEYS}) > 1000
    assert set(lengths) == set(range(65))


def test_murmur2_equals_javas() -> None:
    """The hash of every key, as an unsigned number, is that of Utils.murmur2."""
    wrong = [golden for golden in _KEYS if murmur2(golden.key) != golden.murmur2 & 0xFFFFFFFF]
    assert wrong == []


def test_murmur2_takes_any_bytes_like() -> None:
    """A key hashes alike as bytes, bytearray and memoryview."""
    for golden in _KEYS[:100]:
        assert murmur2(bytearray(golden.key)) == murmur2(memoryview(golden.key)) == murmur2(golden.key)
