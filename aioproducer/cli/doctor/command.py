"""The flags of `aioproducer doctor`."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from aioproducer import ConfigurationError
from aioproducer.cli.connecting import checked_topic, configuration, properties_option, secrets_option
from aioproducer.cli.doctor.printing import lines
from aioproducer.cli.running import heeding_signals, run_to_end
from aioproducer.cli.terminal.numbers import Real
from aioproducer.cli.terminal.screen import Screen
from aioproducer.doctor import Examination, Report, refused

EPILOG = """
\b
Examples:
  aioproducer doctor -b kafka.example:9092 -t orders
  aioproducer doctor -F client.properties -t orders --probe
  aioproducer doctor -F client.properties --json

Exit code: 0 no step failed, 1 one did (with --strict also a warning), 2 wrong
usage or configuration.
"""
# The thread of a look-up that hangs in the system's resolver cannot be ended.
_A_MOMENT = 0.2


def _checked_topics(
    context: click.Context, option: click.Parameter, names: tuple[str, ...]
) -> tuple[str, ...]:
    for name in names:
        checked_topic(context, option, name)
    return names


@click.command(epilog=EPILOG)
@click.option("-b", "--bootstrap-server", metavar="HOST:PORT,...", help="Addresses of the first brokers.")
@click.option(
    "-F",
    "--config",
    "file",
    type=click.Path(exists=True, dir_okay=False, readable=True),
    help="A properties file, as for Java clients.",
)
@properties_option
@secrets_option
@click.option(
    "-t",
    "--topic",
    "topics",
    metavar="TOPIC",
    multiple=True,
    callback=_checked_topics,
    help="A topic to examine; may be repeated.",
)
@click.option("--probe", is_flag=True, help="Send one record to each topic.")
@click.option(
    "--transactional-id", metavar="ID", help="Look this transactional id up; it is not initialized."
)
@click.option(
    "--timeout",
    type=Real(0, min_open=True, max=3600),
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="The limit of each wait; the whole ends within 6 times this.",
)
@click.option("--strict", is_flag=True, help="A warning counts as a failure.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    bootstrap_server: str | None,
    file: str | None,
    properties: Mapping[str, str],
    secrets: Sequence[str],
    topics: Sequence[str],
    probe: bool,  # a flag
    transactional_id: str | None,
    timeout: float,
    strict: bool,  # a flag
    as_json: bool,  # a flag
) -> int:
    """Examine the way from this machine to a cluster, step by step.

    Each step tells its time, and of a failure what to do. It changes nothing, except that --probe sends one record to each
    topic. Ctrl-C prints the checks that are finished.
    """
    screen = Screen()
    given = {} if bootstrap_server is None else {"bootstrap.servers": bootstrap_server}
    try:
        config = configuration(None if file is None else Path(file), {**properties, **given}, secrets)
        examination = Examination(
            config,
            topics,
            probe=probe,
            transactional_id=transactional_id,
            timeout=timeout,
            strict=strict,
        )
    except ConfigurationError as error:
        report = refused(error, strict=strict)
    else:
        report = run_to_end(_examined(examination, screen))
    _show(report, screen, as_json=as_json)
    return _left(report.exit_code)


async def _examined(examination: Examination, screen: Screen) -> Report:
    """The report; after Ctrl-C, that of the checks that are finished."""
    with screen.log(), heeding_signals() as stop:
        await stop.unless_asked(examination.run())
    return examination.report


def _show(report: Report, screen: Screen, *, as_json: bool) -> None:
    if as_json:
        screen.say(json.dumps(report.as_dict()))
        return
    for line in lines(report, has_signs=screen.out.is_terminal and screen.blocks, width=_width(screen)):
        screen.say(line)


def _width(screen: Screen) -> int:
    return max(40, min(100, screen.out.width)) if screen.out.is_terminal else 100


def _left(code: int) -> int:
    """The exit code; a look-up that hangs does not hold the program up."""
    for thread in threading.enumerate():
        if thread.name.startswith("AnyIO worker") and not thread.daemon:
            thread.join(_A_MOMENT)
            if thread.is_alive():
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
    return code
