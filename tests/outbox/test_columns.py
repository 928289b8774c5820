"""Headers of rows: a text that has no names and values is left as it is, so that its record is refused."""

from __future__ import annotations

import pytest

from aioproducer.outbox.columns import headers_of


@pytest.mark.parametrize(
    "text", ['["ab"]', '[[1,"b"]]', '["a"]', "[[]]", '[["a"]]', '[["a","b","c"]]', "5", '[["a",1]]']
)
def test_no_headers(text: str) -> None:
    """A text of two characters has two parts as well, and a name is a text."""
    assert headers_of(text) == text


@pytest.mark.parametrize("text", ['[["a","b"],["c",null]]', '{"a":"b","c":null}', [("a", "b"), ("c", None)]])
def test_headers(text: object) -> None:
    """Pairs, or an object; a column of JSON may have been read already."""
    assert headers_of(text) == [("a", b"b"), ("c", None)]
