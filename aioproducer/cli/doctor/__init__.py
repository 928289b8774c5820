"""`aioproducer doctor`: the way to a cluster, step by step, with the action for each failure."""

from __future__ import annotations

from aioproducer.cli.doctor.command import command

__all__ = ["command"]
