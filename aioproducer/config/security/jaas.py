"""A JAAS string, such as `sasl.jaas.config`, read as Kafka reads it; nothing in it is loaded or looked up.

    org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="secret";

Kafka uses Java's `StreamTokenizer`: words, texts in quotes, comments, and single characters. Errors name a position in the
string, and never show the string, which has passwords.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

import attrs

__all__ = ["LoginModule", "parse_jaas"]

_FLAGS = frozenset(("required", "requisite", "sufficient", "optional"))
_LONGEST = 64 * 1024
_ESCAPES = {"a": "\x07", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\x0b"}
_LINE_ENDS = "\r\n"


@attrs.frozen
class LoginModule:
    """A login module by its class name, and its options. They may be secret, so the repr does not show them."""

    class_name: str
    options: Mapping[str, str] = attrs.field(repr=False)

    @property
    def name(self) -> str:
        """The last part of the class name."""
        return self.class_name.rpartition(".")[2]


def parse_jaas(text: str) -> LoginModule:
    """The only login module of a JAAS string; ValueError for any other string."""
    if len(text) > _LONGEST:
        raise ValueError(f"it has more than {_LONGEST} characters")
    tokens = _Tokens(text)
    class_name = tokens.word("a login module")
    if tokens.word("a flag, such as 'required',").lower() not in _FLAGS:
        raise ValueError(f"no flag, such as 'required', before position {tokens.position}")
    options = dict(_options(tokens))
    if not tokens.is_at_end:
        raise ValueError(f"another login module begins at position {tokens.position}")
    return LoginModule(class_name, MappingProxyType(options))


def _options(tokens: _Tokens) -> Iterator[tuple[str, str]]:
    while not tokens.take(";"):
        key = tokens.word("an option or ';'")
        if not tokens.take("="):
            raise ValueError(f"no '=' at position {tokens.position}")
        yield key, tokens.word("a value; put it in double quotes, or it")


class _Tokens:
    """The tokens of a string, taken from the front."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.position = 0
        self._skip()

    @property
    def is_at_end(self) -> bool:
        return self.position >= len(self._text)

    def take(self, character: str) -> bool:
        """Take this character, if it is next."""
        if self.is_at_end:
            raise ValueError("it does not end with ';'")
        found = self._text[self.position] == character
        if found:
            self.position += 1
            self._skip()
        return found

    def word(self, expected: str) -> str:
        """Take a word, or a text in quotes."""
        if self.is_at_end:
            raise ValueError(f"it ends where {expected} is missing")
        first = self._text[self.position]
        if first in "\"'":
            found = self._quoted(first)
        elif _begins_word(first):
            found = self._unquoted()
        else:
            raise ValueError(f"{expected} cannot begin at position {self.position}")
        self._skip()
        return found

    def _unquoted(self) -> str:
        start = self.position
        while not self.is_at_end and _continues_word(self._text[self.position]):
            self.position += 1
        return self._text[start : self.position]

    def _quoted(self, quote: str) -> str:
        """The text behind a quote; as in Java, the end of the line ends it as well."""
        self.position += 1
        found: list[str] = []
        while not self.is_at_end and self._text[self.position] not in _LINE_ENDS:
            character = self._text[self.position]
            self.position += 1
            if character == quote:
                break
            found.append(self._escaped() if character == "\\" else character)
        return "".join(found)

    def _escaped(self) -> str:
        octal = self._octal()
        if octal:
            self.position += len(octal)
            return chr(int(octal, 8))
        if self.is_at_end:
            raise ValueError("it ends behind a backslash")
        character = self._text[self.position]
        self.position += 1
        return _ESCAPES.get(character, character)

    def _octal(self) -> str:
        """The octal digits here: three at most, two if the first is more than 3."""
        digits = self._text[self.position : self.position + 3]
        count = next((i for i, digit in enumerate(digits) if digit not in "01234567"), len(digits))
        return digits[: min(count, 2) if digits[:1] > "3" else count]

    def _skip(self) -> None:
        """Skip white space and comments."""
        text = self._text
        while not self.is_at_end:
            if text[self.position] <= " ":
                self.position += 1
            elif text.startswith("/*", self.position):
                end = text.find("*/", self.position + 2)
                self.position = len(text) if end < 0 else end + 2
            elif text[self.position] == "/":
                self.position = self._end_of_comment()
            else:
                return

    def _end_of_comment(self) -> int:
        """The end of the line; a single slash begins a comment as well, and hides the end of the line behind it."""
        ends = (self._text.find(end, self.position + 2) for end in _LINE_ENDS)
        return min((end for end in ends if end >= 0), default=len(self._text))


def _begins_word(character: str) -> bool:
    return (character.isascii() and character.isalpha()) or character in "_$" or character >= "\xa0"


def _continues_word(character: str) -> bool:
    return _begins_word(character) or character in "-.0123456789"
