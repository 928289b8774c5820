"""An examination of the way from this machine to a cluster: each step, with the action for each failure.

    report = await aioproducer.doctor.examine(ProducerConfig("kafka.example:9092"), ["orders"])
    for check in report.checks:
        print(check.status, check.id, check.target, check.summary, check.advice)

The command `aioproducer doctor` prints the same. It needs no extra but that of the command line.
"""

from __future__ import annotations

from aioproducer._state.diagnosing.finding import Status
from aioproducer.doctor.examination import Examination, examine
from aioproducer.doctor.report import Check, Report, refused

__all__ = ["Check", "Examination", "Report", "Status", "examine", "refused"]
