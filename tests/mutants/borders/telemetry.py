"""The mutants of client telemetry: pushes that lose or double values, or that cost records and brokers."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Kind

_mutant = Kind("telemetry")

TELEMETRY: Final = (
    _mutant(
        "telemetry-goes-before-other-requests",
        "_net/telemetry/telemetry.py",
        "        elif connection.in_flight:\n",
        "        elif False:\n",
        "A start opens a connection more than it needs, because a request about metrics is in the way of that for a producer id.",
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
        "_net/cluster/control.py",
        "        return connection.has_optional or is_muted\n",
        "        return is_muted\n",
        "A receiver that hangs in a push holds up each metadata request behind it, until the push is given up.",
        "tests/simulation/telemetry/test_telemetry.py",
    ),
    _mutant(
        "nonsense-of-a-receiver-costs-the-broker",
        "_net/connecting/connection/connection.py",
        "            ending = Ending.LEFT if self.has_optional and not self.in_flight else Ending.GIVEN_UP\n",
        "            ending = Ending.GIVEN_UP\n",
        "A receiver whose answers cannot be read makes its broker count as unreachable, and the pauses before connections grow.",
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
        "pushes-as-often-as-told",
        "_state/telemetry/subscription.py",
        "    return max(milliseconds / 1000, LEAST_INTERVAL) if",
        "    return milliseconds / 1000 if",
        "A broker that asks for metrics each millisecond keeps the event loop busy.",
        "tests/state/telemetry/test_schedule.py",
    ),
    _mutant(
        "metadata-waits-behind-throttled-metrics",
        "_net/cluster/control.py",
        "        return connection.has_optional or is_muted\n",
        "        return connection.has_optional\n",
        "A broker that throttles metrics holds up each metadata request for as long, and then counts as unreachable.",
        "tests/simulation/telemetry/test_telemetry.py",
    ),
    _mutant(
        "throttled-metrics-go-on",
        "_net/telemetry/telemetry.py",
        "        due_at = max(self.schedule.at, self.muted_until)\n",
        "        due_at = self.schedule.at\n",
        "A producer sends metrics to a broker that has throttled them.",
        "tests/simulation/telemetry/test_telemetry.py",
    ),
    _mutant(
        "intervals-turn-around",
        "_state/telemetry/readings.py",
        "        self._former, self.base = self.base.before(reading), reading\n",
        "        self._former, self.base = self.base, reading\n",
        "After the wall clock was set back, the values of a push end before they begin.",
        "tests/simulation/telemetry/test_telemetry.py::test_the_wall_clock_is_set_back",
    ),
    _mutant(
        "metrics-of-a-former-id",
        "_net/telemetry/telemetry.py",
        "None if transactions is None else transactions.transactional_id\n",
        "self.engine.config.transactional_id\n",
        "The metrics of a producer that has changed its transactional id are pushed under the former one.",
        "tests/simulation/telemetry/test_telemetry.py",
    ),
    _mutant(
        "star-is-a-prefix",
        "_state/telemetry/subscription.py",
        'ALL_METRICS: Final = (("",), ("*",))\n',
        'ALL_METRICS: Final = (("",),)\n',
        "A cluster that asks for all metrics, as brokers write it, gets none.",
        "tests/state/telemetry/test_schedule.py",
    ),
    _mutant(
        "no-ratio-without-compression",
        "_net/telemetry/reading.py",
        '    if engine.config.compression_type == "none":\n',
        "    if False:\n",
        "A producer without compression pushes no compression rate, which Java's always does.",
        "tests/simulation/telemetry/test_telemetry.py",
    ),
)
