"""Numbers on the command line, with error messages in plain words."""

from __future__ import annotations

import math
from typing import Any

import click

# The bounds of Java's int, and its largest long.
LEAST_INT = -(2**31)
MOST_INT = 2**31 - 1
MOST_LONG = 2**63 - 1


class Whole(click.IntRange):
    """A whole number within bounds."""

    name = "whole number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Refuse other texts without showing them: `-p` is for passwords in other programs."""
        try:
            int(value)
        except ValueError:
            self.fail("must be a whole number.", param, ctx)
        return int(super().convert(value, param, ctx))


class Real(click.FloatRange):
    """A finite number within bounds."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Refuse other texts without showing them; and infinity, and `nan`, which passes every check of bounds."""
        try:
            float(value)
        except ValueError:
            self.fail("must be a number.", param, ctx)
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number.", param, ctx)
        return number
