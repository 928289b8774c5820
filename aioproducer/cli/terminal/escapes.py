r"""Escapes such as `\n` and `\x1e` in arguments of the command line."""

from __future__ import annotations

import os
import re

import click

_ESCAPE = re.compile(rb"\\(?:x([0-9A-Fa-f]{2})|(.)|\Z)", re.DOTALL)
_MEANS = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"0": b"\0", b"\\": b"\\"}


def unescaped(_: click.Context, option: click.Parameter, text: str | None) -> bytes | None:
    r"""The bytes of an argument with the escapes `\n`, `\t`, `\r`, `\0`, `\\` and `\x1e`; other bytes are unchanged."""
    if text is None:
        return None
    if not text:
        raise click.BadParameter("must not be empty", param=option)

    def meant(escape: re.Match[bytes]) -> bytes:
        if escape[1]:
            return bytes.fromhex(escape[1].decode())
        if escape[2] not in _MEANS:
            raise click.BadParameter(
                rf"{text!r}: only \n, \t, \r, \0, \\ and \x1e are supported", param=option
            )
        return _MEANS[escape[2]]

    return _ESCAPE.sub(meant, os.fsencode(text))
