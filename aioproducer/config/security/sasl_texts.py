"""Texts that authentications can send: user names, and the extensions of OAUTHBEARER."""

from __future__ import annotations

import re

from aioproducer.secret import Secret, is_unicode

__all__ = ["extension_problem", "user_name_problem"]

_EXTENSION_KEY = re.compile(r"[A-Za-z]+")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_EXTENSION_VALUE = re.compile(r"[\x21-\x7E \t\r\n]+")


def user_name_problem(name: str) -> str | None:
    """Why no authentication can send this user name; None if one can."""
    if not name:
        return "is empty"
    if _CONTROL.search(name):
        return "has a control character"
    return None if is_unicode(Secret(name)) else "cannot be encoded as UTF-8"


def extension_problem(name: str, value: str) -> str | None:
    """Why no authentication can send this SASL extension; None if one can."""
    if not _EXTENSION_KEY.fullmatch(name) or name == "auth":
        return "the name of a SASL extension has characters other than letters, or is 'auth'"
    if not _EXTENSION_VALUE.fullmatch(value):
        return f"the SASL extension {name!r} is empty or has a character that is not ASCII"
    return None
