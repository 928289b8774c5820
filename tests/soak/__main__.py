"""Run a soak: a fault every ten seconds under load, and checks for lost records and growth.

    python -m tests.soak --minutes 10
    python -m tests.soak --minutes 10 --real      against three nodes of a real Kafka
    python -m tests.soak --minutes 30 --secured OAUTHBEARER    the same over SASL_SSL, and secrets change

Ctrl-C ends it properly, with the report so far. The exit code is 1 if there are problems.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import signal
import sys

from tests.soak.access import PLAIN, SCRAM, TOKENS
from tests.soak.report import PLACE, Report
from tests.soak.run import Plan, Soak, silence_the_log, succeeded


async def soaked(plan: Plan) -> Report:
    """One soak, which Ctrl-C ends early."""
    soak = Soak(plan)
    loop = asyncio.get_running_loop()

    def interrupted() -> None:
        # A second Ctrl-C ends the process at once.
        loop.remove_signal_handler(signal.SIGINT)
        soak.stop.set()

    loop.add_signal_handler(signal.SIGINT, interrupted)
    try:
        return await soak.run()
    finally:
        loop.remove_signal_handler(signal.SIGINT)


def plan_of(arguments: list[str]) -> Plan:
    """The plan of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.soak",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--minutes", type=float, default=10.0, help="how long (default: 10)")
    parser.add_argument("--real", action="store_true", help="against a real Kafka of three nodes")
    parser.add_argument(
        "--secured",
        choices=(SCRAM, TOKENS),
        default=PLAIN,
        help="against a secured real Kafka whose secrets change, with this mechanism",
    )
    parser.add_argument("--seed", type=int, default=None, help="draws the same faults and records again")
    parser.add_argument(
        "--period", type=float, default=10.0, help="seconds from fault to fault (default: 10)"
    )
    parser.add_argument("--rate", type=float, default=9_000.0, help="records a second that users try to send")
    parser.add_argument(
        "--least", type=float, default=5_000.0, help="records a second below which it has failed"
    )
    options = parser.parse_args(arguments)
    seed = random.randrange(2**31) if options.seed is None else options.seed
    seconds = options.minutes * 60
    return Plan(
        seconds,
        seed,
        options.period,
        options.rate,
        options.least,
        real=options.real,
        mechanism=options.secured,
        say=_say,
    )


def _say(line: str) -> None:
    print(line, flush=True)


def main(arguments: list[str]) -> int:
    """Soak and report."""
    plan = plan_of(arguments)
    silence_the_log()
    print(f"replay these faults with --seed {plan.seed}", flush=True)
    report = asyncio.run(soaked(plan))
    print(report.write())
    print(f"all measurements: {PLACE.relative_to(PLACE.parents[2])}")
    return 0 if succeeded(report) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
