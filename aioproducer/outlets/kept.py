"""The arguments of a call as they are at the call, for a dead letter that is made later: the caller may change its objects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

__all__ = ["ReadOnce", "kept", "kept_headers", "readable_again"]

# Headers of each record of a call: a list of them, each with pairs.
_DEEPEST: Final = 3
# The headers of one record, of a call for one or for many.
_OF_A_RECORD: Final = 2


class ReadOnce:
    """The headers of an iterator. The record and its dead letter read them one after the other, and both have all of them."""

    def __init__(self, headers: Iterator[Any]) -> None:
        self._rest = headers
        self._read: list[Any] = []

    def __iter__(self) -> Iterator[Any]:
        yield from tuple(self._read)
        for pair in self._rest:
            self._read.append(kept_headers(pair, 1))
            yield self._read[-1]

    def __repr__(self) -> str:
        return repr(self._rest)


def readable_again(headers: Any) -> Any:
    """The headers of one record: an iterator as an object that can be read twice, any other object unchanged."""
    return ReadOnce(headers) if hasattr(type(headers), "__next__") else headers


def kept(data: Any) -> Any:
    """Bytes that the caller may change later are copied, as at acceptance."""
    if isinstance(data, bytearray | memoryview):
        try:
            return bytes(data)
        except ValueError:
            return data
    return data


def kept_headers(headers: Any, depth: int = _DEEPEST) -> Any:
    """The same of headers: their list or mapping is copied, and their values."""
    kind = type(headers)
    if kind is dict:
        return {name: kept(value) for name, value in headers.items()}
    if depth and (kind is list or kind is tuple):
        return kind(kept_headers(each, depth - 1) for each in headers)
    return kept(headers) if depth < _OF_A_RECORD else readable_again(headers)
