"""Files that a command writes at its end: what would keep it from that is said before it begins."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import click

PICTURES = (".png", ".svg")


def to_be_written(_: click.Context, option: click.Parameter, path: Path | None) -> Path | None:
    """A file that may be written: its folder is there, and takes it."""
    if path is None:
        return None
    if not path.parent.is_dir():
        raise click.BadParameter(f"there is no folder '{path.parent}'", param=option)
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise click.BadParameter(f"'{path}' cannot be written", param=option)
    return path


def to_be_drawn(context: click.Context, option: click.Parameter, path: Path | None) -> Path | None:
    """A picture that may be written, of a kind that can be drawn."""
    if path is None:
        return None
    if path.suffix.lower() not in PICTURES:
        raise click.BadParameter(f"'{path}' ends neither in .png nor in .svg", param=option)
    if importlib.util.find_spec("matplotlib") is None:
        raise click.BadParameter("needs matplotlib: pip install 'aioproducer[cli]'", param=option)
    return to_be_written(context, option, path)
