"""The factor on time limits of tests, by `AIOPRODUCER_SLOWNESS`: a program under sanitizers is several times slower.

It applies to limits that end hanging tests, and to the allowance for busy machines. The bounds themselves stay.
"""

from __future__ import annotations

import os
from typing import Final

SLOWNESS: Final = float(os.environ.get("AIOPRODUCER_SLOWNESS", "1"))
