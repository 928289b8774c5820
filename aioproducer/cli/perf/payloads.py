"""The payloads of a measurement."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import count
from pathlib import Path

SUPPLY = 1 << 23
LETTERS = bytes(ord("A") + number % 26 for number in range(256))


def random_payloads(size: int) -> Iterator[bytes]:
    """Random capital letters, as in Kafka's tool: no sequence repeats within 8 MiB."""
    supply = random.Random(0).randbytes(max(SUPPLY, 2 * size)).translate(LETTERS)  # noqa: S311  # not a secret
    end = len(supply) - size
    while True:
        for start in range(0, end, size):
            yield supply[start : start + size]


def payloads_of(lines: list[bytes]) -> Iterator[bytes]:
    """An endless random choice of these."""
    choice = random.Random(0).choice  # noqa: S311  # not a secret
    while True:
        yield choice(lines)


def read_payloads(path: Path, delimiter: bytes) -> list[bytes]:
    """The texts between the delimiters of a file."""
    lines = path.read_bytes().split(delimiter)
    return lines if lines[-1] else lines[:-1]


def growing_numbers() -> Iterator[bytes]:
    """0, 1, 2 and so on, as text."""
    return (b"%d" % number for number in count())
