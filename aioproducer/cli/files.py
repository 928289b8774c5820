"""Files that a command writes at its end. They are checked before the command begins."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import click

PICTURES = (".png", ".svg")


def to_be_written(_: click.Context, option: click.Parameter, path: Path | None) -> Path | None:
    """A file that can be written: its folder exists and is writable."""
    if path is None:
        return None
    if not path.parent.is_dir():
        raise click.BadParameter(f"the folder '{path.parent}' does not exist", param=option)
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise click.BadParameter(f"'{path}' cannot be written", param=option)
    return path


def to_be_drawn(context: click.Context, option: click.Parameter, path: Path | None) -> Path | None:
    """A picture file that can be written, of a supported format."""
    if path is None:
        return None
    if path.suffix.lower() not in PICTURES:
        raise click.BadParameter(f"'{path}' must end in .png or .svg", param=option)
    if importlib.util.find_spec("matplotlib") is None:
        raise click.BadParameter("requires matplotlib: pip install 'aioproducer[cli]'", param=option)
    return to_be_written(context, option, path)
