"""The parts of a producer that runs, as its calls use them: loaded by the first `start()`."""

from __future__ import annotations

import contextlib

from aioproducer._net.accepting.bulk_intake import BulkIntake
from aioproducer._net.accepting.ending import (
    check_resolve,
    log_losses,
    log_waits,
    report_of_close,
    resolved,
    searched,
)
from aioproducer._net.accepting.intake import Call, Intake
from aioproducer._net.accepting.serializing import is_being_prepared
from aioproducer._net.accepting.stream import send_stream
from aioproducer._net.connecting.dialing import SOCKETS
from aioproducer._net.observing.closing import counted, waits_for
from aioproducer._net.observing.condition import health_of
from aioproducer._net.observing.counters import Counters
from aioproducer._net.observing.snapshot import connected_brokers, loads, stats_of
from aioproducer._net.runtime.awaiting import first_answer, known_partitions
from aioproducer._net.runtime.engine import Engine, denied
from aioproducer._net.telemetry.start import TelemetryStart
from aioproducer._state.delivery.tally import Totals

with contextlib.suppress(ImportError):
    # anyio imports it with its first use, which is in the event loop.
    import anyio._backends._asyncio  # noqa: F401

__all__ = [
    "SOCKETS",
    "BulkIntake",
    "Call",
    "Counters",
    "Engine",
    "Intake",
    "TelemetryStart",
    "Totals",
    "check_resolve",
    "connected_brokers",
    "counted",
    "denied",
    "first_answer",
    "health_of",
    "is_being_prepared",
    "known_partitions",
    "loads",
    "log_losses",
    "log_waits",
    "report_of_close",
    "resolved",
    "searched",
    "send_stream",
    "stats_of",
    "waits_for",
]
