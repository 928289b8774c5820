"""How much longer tests wait, by `AIOPRODUCER_SLOWNESS`: under sanitizers a program takes several times as long.

It is for limits that end what hangs, and for what tests allow beyond a bound because machines are busy. The bounds themselves stay.
"""

from __future__ import annotations

import os
from typing import Final

SLOWNESS: Final = float(os.environ.get("AIOPRODUCER_SLOWNESS", "1"))
