"""The mutants of client telemetry: pushes that lose or double values, or that cost records and brokers."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Kind

_mutant = Kind("telemetry")

TELEMETRY: Final = (
    _mutant(
        "telemetry-goes-before-the-first-metadata",
        "_net/telemetry/telemetry.py",
        "YIELDS_FOR: Final = 1.0\n",
        "YIELDS_FOR: Final = 0.0\n",
        "The first request about metrics is written before that for metadata: a receiver that hangs delays every record.",
        "tests/simulation/telemetry/test_telemetry.py",
    ),
    _mutant(
        "refused-metrics-are-lost",
        "_net/telemetry/telemetry.py",
        "        if not self.schedule.pushed(answer.error_code, self.loop.time()):\n"
        "            self._not_taken()\n",
        "        self.schedule.pushed(answer.error_code, self.loop.time())\n",
        "The values of a push that the broker has refused are in no other push.",
        "tests/simulation/telemetry/test_telemetry.py",
    ),
    _mutant(
        "a-hanging-push-costs-the-broker",
        "_net/connecting/connection/asking.py",
        "        if connection.answers <= answers_before:\n            connection.close()\n",
        "",
        "A broker that hangs in a push counts as unreachable, because the next metadata request behind the push times out.",
        "tests/simulation/telemetry/test_telemetry.py",
    ),
    _mutant(
        "final-refusals-are-repeated",
        "_state/telemetry/schedule.py",
        "        else:\n            self.stop()\n",
        "        else:\n            self.later(now)\n",
        "A broker that refuses metrics for good is asked again and again, for as long as the producer lives.",
        "tests/state/telemetry/test_schedule.py",
    ),
    _mutant(
        "star-is-a-prefix",
        "_state/telemetry/subscription.py",
        'ALL_METRICS: Final = (("",), ("*",))\n',
        'ALL_METRICS: Final = (("",),)\n',
        "A cluster that asks for all metrics, as brokers write it, gets none.",
        "tests/state/telemetry/test_schedule.py",
    ),
)
