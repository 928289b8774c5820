"""Names and values that an error may show: a password, or a line of a private key, may stand in the place of any of them."""

from __future__ import annotations

import functools
import ipaddress
import re
import types

import attrs

from aioproducer.errors import printable
from aioproducer.secret import Secret, SecretCall, SecretEnv, SecretFile

__all__ = ["Origin", "is_like_a_name", "shown_pair", "shown_setting", "shown_value", "shows_name"]

_LONGEST = 80
# Two words and more, each of letters that a few digits may follow: a word alone may be a password, and the lines of a key,
# tokens and identifiers have capitals, dashes, or letters behind digits.
_NAME = re.compile(r"[a-z]{1,16}[0-9]{0,3}[a-z]?(?:[._][a-z]{1,16}[0-9]{0,3}[a-z]?)+")
_LETTERS = re.compile(r"[A-Za-z0-9._-]+")
# A value that has more than its own text: other properties of the same line, a JAAS string, or a key.
_OF_OTHERS = re.compile(r"=|-----BEGIN|passw|secret|jaas", re.IGNORECASE)
# Everything else is an object of the user, whose repr may show its arguments.
_SHOWN = (str, bool, int, float, types.NoneType)
_PLAIN = (*_SHOWN, ipaddress.IPv4Network, ipaddress.IPv6Network, Secret, SecretFile, SecretEnv, SecretCall)
_LONGEST_NUMBER = 10**80
_WITH_NAME = (
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    types.MethodDescriptorType,
    type,
)


@attrs.frozen
class Origin:
    """The place of a name, such as a line of a file. `is_assigned`: a sign such as `=` follows the name there."""

    place: str
    is_assigned: bool = True

    @property
    def is_line(self) -> bool:
        """Whether it is a line of a file."""
        return self.place.startswith("line ")


def is_like_a_name(text: str) -> bool:
    """Whether a text looks like the name of a setting, and like nothing that could be secret."""
    return len(text) <= _LONGEST and _NAME.fullmatch(text) is not None


def shows_name(name: str, value: object, *, is_near: bool, is_assigned: bool = True) -> bool:
    """Whether the error about an unknown name shows it. `is_near`: it is similar to a known name."""
    # The sign behind a line of a key is padding, without a value behind it.
    has_value = not issubclass(type(value), str) or bool(str.__str__(value).strip("=: "))
    if is_like_a_name(name):
        return is_assigned or (is_near and has_value)
    return is_near and has_value and len(name) <= _LONGEST and _LETTERS.fullmatch(name) is not None


def shown_value(value: object, limit: int = _LONGEST) -> str | None:
    """The value as an error shows it; None for one that has the text of other settings, such as their passwords."""
    plain = str.__str__(value) if issubclass(type(value), str) else value
    # Any other repr may contain anything, and Python formats no huge number.
    if type(plain) not in _SHOWN or (type(plain) is int and abs(plain) > _LONGEST_NUMBER):
        return None
    shown = repr(plain)
    return None if _OF_OTHERS.search(shown) else printable(shown, limit)


def shown_pair(name: str, value: object) -> str:
    """A name with its value, or without one that is not shown."""
    shown = shown_value(value)
    return name if shown is None else f"{name}={shown}"


def shown_setting(name: str, value: object) -> str:
    """The value of a setting as the repr of a configuration shows it: of an object of the user, its kind or name alone."""
    # A connection string in place of a user name, a key in the query of a URL.
    if name.startswith("sasl_") and isinstance(value, str) and "=" in value:
        return "'***'"
    return _shown_object(value)


def _shown_object(value: object) -> str:
    if type(value) is tuple:
        return f"({', '.join(map(_shown_object, value))}{',' * (len(value) == 1)})"
    return repr(value) if type(value) in _PLAIN else f"<{_name(value)}>"


def _name(value: object) -> str:
    if type(value) is functools.partial:
        return f"functools.partial of {_name(value.func)}"
    named = value if isinstance(value, _WITH_NAME) else type(value)
    module = getattr(named, "__module__", None)
    return f"{module}.{named.__qualname__}" if isinstance(module, str) else named.__qualname__
