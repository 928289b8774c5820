"""Argument types that say what is wrong with a value."""

from __future__ import annotations

import argparse
from collections.abc import Callable


def integer(lowest: int, highest: int) -> Callable[[str], int]:
    """A whole number within bounds."""

    def parse(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = lowest - 1
        if not lowest <= number <= highest:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {lowest} to {highest}")
        return number

    return parse
