"""The mutants: each of them a defect of a kind that clients of Kafka have had, in one line of this one."""

from __future__ import annotations

from typing import Final

from tests.mutants.answers import ANSWERS
from tests.mutants.busy import BUSY
from tests.mutants.callers import CALLERS
from tests.mutants.days import DAYS
from tests.mutants.driver import DRIVER
from tests.mutants.ends import ENDS
from tests.mutants.exactly_once import EXACTLY_ONCE
from tests.mutants.flushing import FLUSHING
from tests.mutants.gapless import GAPLESS
from tests.mutants.identity import IDENTITY
from tests.mutants.memory import MEMORY
from tests.mutants.metadata import METADATA
from tests.mutants.mutant import Mutant
from tests.mutants.order import ORDER
from tests.mutants.quiet import QUIET
from tests.mutants.room import ROOM
from tests.mutants.runtime import RUNTIME
from tests.mutants.timing import TIMING
from tests.mutants.told import TOLD
from tests.mutants.transactional import TRANSACTIONAL
from tests.mutants.truth import TRUTH
from tests.mutants.waking import WAKING
from tests.mutants.wire import WIRE

MUTANTS: Final[tuple[Mutant, ...]] = (
    *ORDER,
    *IDENTITY,
    *TRUTH,
    *ROOM,
    *WAKING,
    *TIMING,
    *METADATA,
    *WIRE,
    *GAPLESS,
    *RUNTIME,
    *TRANSACTIONAL,
    *ANSWERS,
    *EXACTLY_ONCE,
    *BUSY,
    *ENDS,
    *TOLD,
    *DRIVER,
    *QUIET,
    *DAYS,
    *CALLERS,
    *FLUSHING,
    *MEMORY,
)
