"""From bytes to lines, from lines to records, from failures to complaints."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from aioproducer.cli.produce.failures import Failures
from aioproducer.cli.produce.json_lines import JsonLines
from aioproducer.cli.produce.reading_lines import Defaults, LineError, Lines
from aioproducer.cli.produce.splitting import OVERLONG, Splitter

JSON = JsonLines(Defaults("orders"))


def split(text: bytes, delimiter: bytes, piece: int, limit: int = 100) -> list[bytes | None]:
    """The lines of a text that comes in pieces of this size."""
    splitter = Splitter(delimiter, limit)
    pieces = [text[start : start + piece] for start in range(0, len(text), piece)]
    return [line for each in pieces for line in splitter.lines(each)] + list(splitter.last())


@pytest.mark.parametrize("piece", [1, 2, 3, 100])
def test_lines_do_not_depend_on_the_pieces(piece: int) -> None:
    """However the bytes come, lines end at delimiters, and what follows the last one is a line if it is not empty."""
    assert split(b"a\nbc\n\nd", b"\n", piece) == [b"a", b"bc", b"", b"d"]
    assert split(b"a\r\nb\nc\r\r\n", b"\r\n", piece) == [b"a", b"b\nc\r"]
    assert split(b"", b"\n", piece) == []


@pytest.mark.parametrize("piece", [1, 3, 100])
def test_overlong_lines_are_not_kept(piece: int) -> None:
    """A line beyond the limit is reported as such, wherever its delimiter is cut, and the next ones are read."""
    assert split(b"12345--123456--1--1234567", b"--", piece, limit=5) == [b"12345", OVERLONG, b"1", OVERLONG]


def test_endless_line_takes_no_memory() -> None:
    """Of a line that does not end no more than the limit and a piece is kept."""
    splitter = Splitter(b"\n", 1000)
    for _ in range(100):
        assert list(splitter.lines(b"x" * 100)) == []
        assert len(splitter._rest) <= 1000


def test_line_without_key_separator_is_refused() -> None:
    """A line without its separator is no record: a guess would put it into another partition."""
    lines = Lines(Defaults("orders"), key_separator=b":")
    with pytest.raises(LineError, match="has no key separator ':'"):
        lines.record(b"alice")


def test_json_values_are_text_null_or_json() -> None:
    """A string is sent as its text, null as null, anything else as compact JSON; the same for keys."""
    found = [
        JSON.record(line)
        for line in (b'{"value": "\\u00e9"}', b'{"value": null, "key": 7}', b'{"value": [1, {}]}')
    ]
    assert [each and (each.key, each.value) for each in found] == [
        (None, "é".encode()),
        (b"7", None),
        (None, b"[1,{}]"),
    ]


def test_json_headers_keep_order_and_repeats() -> None:
    """Headers are an object, or a list of pairs in which a name may come twice; null is a header without a value."""
    record = JSON.record(b'{"headers": [["a", "1"], ["b", null], ["a", "2"]]}')
    assert record
    assert record.headers == [("a", b"1"), ("b", None), ("a", b"2")]


def test_json_time_may_be_written_out() -> None:
    """A timestamp is milliseconds, or a time with its offset."""
    record = JSON.record(b'{"timestamp": "2026-01-31T13:00:00+01:00"}')
    assert record
    assert record.timestamp == datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b"2 apples", "is not JSON: Extra data at character 3"),
        (b"\xff", "is not JSON: UnicodeDecodeError"),
        (b"[" * 100_000, "is not JSON: RecursionError"),
        (b"[1]", "is not a JSON object such as"),
        (b'{"key": NaN}', "has NaN, which is not JSON"),
        (b'{"key": 1e999}', '"key" has a number that is too large'),
        (b'{"key": %s}' % (b"1" * 4301), "has a number of more than 4,300 digits"),
        (b'{"key": "a", "key": %s}' % (b"1" * 4300), 'has "key" twice'),
        (b'{"key": 1, "key": 2}', 'has "key" twice'),
        (b'{"keys": 1}', 'has the unknown field "keys"'),
        (b'{"a\\u001b[31m": 1}', 'has the unknown field "a\\\\x1b'),
        (b'{"topic": "a/b"}', '"topic": a topic name must consist of ASCII letters'),
        (b'{"topic": 7}', '"topic": a topic name must be str'),
        (b'{"partition": -1}', '"partition" is not a whole number of 0 or more'),
        (b'{"partition": true}', '"partition" is not a whole number of 0 or more'),
        (b'{"timestamp": 1.5}', '"timestamp" is not a whole number of 0 or more'),
        (b'{"timestamp": "2026-01-31T12:00:00"}', '"timestamp" is neither milliseconds nor a time'),
        (b'{"timestamp": "soon"}', '"timestamp" is neither milliseconds nor a time'),
        (b'{"value_base64": "a b"}', '"value_base64" is not Base64'),
        (b'{"value_base64": 7}', '"value_base64" is not Base64'),
        (b'{"value": "", "value_base64": ""}', 'has both "value" and "value_base64"'),
        (b'{"value": "\\ud800"}', '"value" has an incomplete surrogate pair'),
        (b'{"headers": {"a": 1}}', '"headers" is neither'),
        (b'{"headers": [["a"]]}', '"headers" is neither'),
        (b'{"headers": "a"}', '"headers" is neither'),
    ],
)
def test_what_is_wrong_with_a_json_line_is_told(line: bytes, complaint: str) -> None:
    """A JSON line that is no record says why; nothing of it is guessed or left out."""
    with pytest.raises(LineError) as told:
        JSON.record(line)
    assert str(told.value).startswith(complaint.replace("\\\\", "\\"))


def test_json_line_without_any_topic_is_refused() -> None:
    """Without --topic each JSON line has to name one."""
    with pytest.raises(LineError, match='has no "topic", and --topic is not set'):
        JsonLines(Defaults()).record(b'{"value": "1"}')


def test_neighbours_with_one_reason_are_told_once() -> None:
    """Lines are reported in order as ranges, ten on a line, apart for each source and reason, and only once."""
    failures = Failures()
    for line in (3, 1, 2, 7):
        failures.add("a.txt", line, "late")
    for line in range(1, 23, 2):
        failures.add("b.txt", line, "late")
    assert failures.told() == [
        "a.txt:1-3,7: late",
        "b.txt:1,3,5,7,9,11,13,15,17,19: late",
        "b.txt:21: late",
    ]
    assert (failures.told(), failures.count) == ([], 15)
