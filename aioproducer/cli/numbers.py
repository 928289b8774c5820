"""Numbers on the command line, with complaints in plain words."""

from __future__ import annotations

import click


class Whole(click.IntRange):
    """A whole number within bounds."""

    name = "whole number"


class Real(click.FloatRange):
    """A number within bounds."""

    name = "number"
