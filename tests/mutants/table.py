"""The mutants: each one is a defect that clients of Kafka have had, in one line of this one."""

from __future__ import annotations

from typing import Final

from tests.mutants.borders.answers import ANSWERS
from tests.mutants.borders.callers import CALLERS
from tests.mutants.borders.doctor import DOCTOR
from tests.mutants.borders.driver import DRIVER
from tests.mutants.borders.metadata import METADATA
from tests.mutants.borders.programs import PROGRAMS
from tests.mutants.borders.registry import REGISTRY
from tests.mutants.borders.runtime import RUNTIME
from tests.mutants.borders.security import SECURITY
from tests.mutants.borders.serializers import SERIALIZERS
from tests.mutants.borders.structured import STRUCTURED
from tests.mutants.borders.telemetry import TELEMETRY
from tests.mutants.borders.tracing import TRACING
from tests.mutants.borders.wire import WIRE
from tests.mutants.engine.busy import BUSY
from tests.mutants.engine.days import DAYS
from tests.mutants.engine.ends import ENDS
from tests.mutants.engine.memory import MEMORY
from tests.mutants.engine.quiet import QUIET
from tests.mutants.engine.room import ROOM
from tests.mutants.engine.timing import TIMING
from tests.mutants.engine.waking import WAKING
from tests.mutants.mutant import Mutant
from tests.mutants.promise.errors import ERRORS
from tests.mutants.promise.exactly_once import EXACTLY_ONCE
from tests.mutants.promise.flushing import FLUSHING
from tests.mutants.promise.gapless import GAPLESS
from tests.mutants.promise.identity import IDENTITY
from tests.mutants.promise.order import ORDER
from tests.mutants.promise.outbox import OUTBOX
from tests.mutants.promise.outlets import OUTLETS
from tests.mutants.promise.resolving import RESOLVING
from tests.mutants.promise.transactional import TRANSACTIONAL
from tests.mutants.promise.truth import TRUTH

MUTANTS: Final[tuple[Mutant, ...]] = (
    *ORDER,
    *IDENTITY,
    *TRUTH,
    *ROOM,
    *WAKING,
    *TIMING,
    *METADATA,
    *WIRE,
    *TELEMETRY,
    *SECURITY,
    *GAPLESS,
    *RUNTIME,
    *TRANSACTIONAL,
    *ANSWERS,
    *EXACTLY_ONCE,
    *BUSY,
    *ENDS,
    *ERRORS,
    *DRIVER,
    *QUIET,
    *DAYS,
    *CALLERS,
    *SERIALIZERS,
    *FLUSHING,
    *MEMORY,
    *DOCTOR,
    *PROGRAMS,
    *TRACING,
    *REGISTRY,
    *OUTBOX,
    *OUTLETS,
    *RESOLVING,
    *STRUCTURED,
)
