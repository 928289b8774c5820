"""Kafka's hash, at its edges; thousands of keys are compared with Java's in tests/golden."""

from __future__ import annotations

import pytest

from aioproducer._core import murmur2


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_the_vectors_of_kafkas_own_tests(key: bytes, expected: int) -> None:
    """UtilsTest.testMurmur2."""
    assert murmur2(key) == expected % (1 << 32)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_bytes_like_is_hashed_alike(kind: type) -> None:
    """The key's bytes count, not their type."""
    assert murmur2(kind(b"foobar")) == murmur2(b"foobar")


def test_the_empty_key_has_a_hash() -> None:
    """b"" is a key; None is not."""
    assert murmur2(b"") == 0x106E08D9
    with pytest.raises(TypeError):
        murmur2(None)
