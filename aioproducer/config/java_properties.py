r"""Java's `.properties` format, as `java.util.Properties` reads it.

The bytes are UTF-8. Other encodings need `\uXXXX`, which Java's own tools write for all characters beyond ASCII.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import attrs

from aioproducer.config.shown import is_like_a_name

__all__ = ["CUT", "Line", "parse_properties"]

_BLANKS = " \t\f"
_LINE_END = re.compile(r"\r\n|\n|\r")
_TRAILING_BACKSLASHES = re.compile(r"\\+\Z")
_PAIR = re.compile(r"(?P<key>(?:\\.|[^\\=: \t\f])*)[ \t\f]*(?P<sign>[=:]?)[ \t\f]*(?P<value>.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u(?P<code>[0-9A-Fa-f]{4})|(?P<char>.)|\Z)", re.DOTALL)
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_BEGIN, _END = "-----BEGIN ", "-----END "
CUT = (
    r"PEM text of several lines needs \n\ at the end of each line but the last; or put it into a file, and set "
    "ssl.keystore.location or ssl.truststore.location"
)
"""The problem of a line that has the beginning of a PEM text alone."""


@attrs.frozen
class Line:
    """The value of a property, and its place. Its repr does not show the value, which may be a password."""

    number: int
    value: str = attrs.field(repr=False)
    is_assigned: bool
    is_cut: bool


def parse_properties(text: str) -> dict[str, Line]:
    """The pairs in `text`; a later one replaces an earlier one. `ValueError` names the line of a broken escape.

    The lines behind the first one of a PEM text, which has no end there, are left out.
    """
    lines: dict[str, Line] = {}
    for number, match in _without_rest_of_pem(_matches(text)):
        name, value = _unescaped(match["key"], number), _unescaped(match["value"], number)
        lines[name] = Line(number, value, bool(match["sign"]), _is_cut(match[0]))
    return lines


def _matches(text: str) -> Iterator[tuple[int, re.Match[str]]]:
    for number, line in _logical_lines(text):
        match = _PAIR.fullmatch(line)
        if match is None:  # impossible: every part of the pattern may be empty
            raise ValueError(f"line {number} cannot be read")
        yield number, match


def _is_cut(line: str) -> bool:
    return line.count(_BEGIN) > line.count(_END)


def _is_property(match: re.Match[str]) -> bool:
    # In a PEM text, `=` is padding at the end of a line, and `:` belongs to a header.
    return (match["sign"] == "=" and bool(match["value"].strip("= "))) or (
        bool(match["sign"]) and is_like_a_name(match["key"])
    )


def _without_rest_of_pem(
    matches: Iterable[tuple[int, re.Match[str]]],
) -> Iterator[tuple[int, re.Match[str]]]:
    """The lines that are not a part of a PEM text which begins in another line, up to its end or the next property."""
    is_inside = was_inside = False
    for number, match in matches:
        if is_inside and not _is_property(match):
            is_inside = _END not in match[0]
            continue
        if was_inside and match[0].startswith(_BEGIN):
            # The next certificate of the same text.
            is_inside = _is_cut(match[0])
            continue
        yield number, match
        is_inside = was_inside = _is_cut(match[0])


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines with their numbers, with continuations joined, without comments and blank lines."""
    joined, start = "", 0
    for number, natural in enumerate(_LINE_END.split(text), 1):
        line = natural.lstrip(_BLANKS)
        if not start and (not line or line[0] in "#!"):
            continue
        start = start or number
        if _is_continued(line):
            joined += line[:-1]
            continue
        yield start, joined + line
        joined, start = "", 0
    if start:
        yield start, joined


def _is_continued(line: str) -> bool:
    backslashes = _TRAILING_BACKSLASHES.search(line)
    return backslashes is not None and len(backslashes[0]) % 2 == 1


def _unescaped(text: str, line: int) -> str:
    def replaced(match: re.Match[str]) -> str:
        if match["code"]:
            return chr(int(match["code"], 16))
        if match["char"] == "u":
            raise ValueError(f"line {line}: \\u requires four hexadecimal digits")
        return _CONTROLS.get(match["char"] or "", match["char"] or "")

    return _joined_surrogates(_ESCAPE.sub(replaced, text), line)


def _joined_surrogates(text: str, line: int) -> str:
    # Java's characters are UTF-16 units: one beyond the first 65536 is written as two escapes.
    try:
        return text.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        raise ValueError(f"line {line}: incomplete surrogate pair") from None
