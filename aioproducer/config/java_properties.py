r"""Java's `.properties` format, as `java.util.Properties` reads it.

The bytes are UTF-8. Other encodings need `\uXXXX`, which Java's own tools write for all characters beyond ASCII.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

__all__ = ["parse_properties"]

_BLANKS = " \t\f"
_LINE_END = re.compile(r"\r\n|\n|\r")
_TRAILING_BACKSLASHES = re.compile(r"\\+\Z")
_PAIR = re.compile(r"(?P<key>(?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*(?P<value>.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u(?P<code>[0-9A-Fa-f]{4})|(?P<char>.)|\Z)", re.DOTALL)
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(text: str) -> dict[str, str]:
    """The pairs in `text`; a later one replaces an earlier one. `ValueError` names the line of a broken escape."""
    pairs: dict[str, str] = {}
    for number, line in _logical_lines(text):
        match = _PAIR.fullmatch(line)
        if match is None:  # impossible: every part of the pattern may be empty
            raise ValueError(f"line {number} cannot be read")
        pairs[_unescaped(match["key"], number)] = _unescaped(match["value"], number)
    return pairs


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
