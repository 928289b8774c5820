"""`aioproducer produce`: the lines of files or of standard input, each a record."""

from __future__ import annotations

from aioproducer.cli.produce.command import command

__all__ = ["command"]
