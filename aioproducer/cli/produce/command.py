"""The flags of `aioproducer produce`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from aioproducer import ProducerConfig
from aioproducer.cli.connecting import (
    checked_topic,
    configuration,
    pair,
    properties_option,
    secrets_option,
    wait_option,
)
from aioproducer.cli.produce.json_lines import JsonLines
from aioproducer.cli.produce.reading_lines import Defaults, Format, Headers, Lines
from aioproducer.cli.produce.run import Job, produce
from aioproducer.cli.produce.sources import Source
from aioproducer.cli.running import run_to_end
from aioproducer.cli.terminal.escapes import unescaped
from aioproducer.cli.terminal.numbers import Whole
from aioproducer.cli.terminal.screen import Screen
from aioproducer.config import SETTINGS

FILE = click.Path(exists=True, dir_okay=False, readable=True)
ONLY_FOR_LINES = ("key_separator", "null_marker", "skip_empty")
PROPERTY_OF = {
    "bootstrap_server": "bootstrap.servers",
    "compression": "compression.type",
    "acks": "acks",
}
EPILOG = """
\b
Examples:
  aioproducer produce -b localhost:9092 -t orders orders.txt
  aioproducer produce -b localhost:9092 -t users --key-separator : users.txt
  tail -f app.log | aioproducer produce --config client.properties --topic log
  aioproducer produce -F client.properties --format jsonl events.jsonl

Exit code: 0 all that was read is acknowledged, 1 something is not (stderr
says what), 2 wrong usage.
"""


def _headers(_: click.Context, option: click.Parameter, given: tuple[str, ...]) -> Headers:
    return [(name, os.fsencode(value)) for name, value in (pair(option, text) for text in given)]


@click.command(epilog=EPILOG)
@click.argument("files", nargs=-1, type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option("-b", "--bootstrap-server", metavar="HOST:PORT,...", help="Addresses of the first brokers.")
@click.option(
    "-t", "--topic", callback=checked_topic, help="The topic of the records. JSON lines may name another."
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["lines", "jsonl"]),
    default="lines",
    show_default=True,
    help='Format of a line: the value itself, or JSON such as {"key": "alice", "value": "2 apples"}.',
)
@click.option(
    "-K",
    "--key-separator",
    metavar="TEXT",
    callback=unescaped,
    help=r"The separator between key and value; \t works.",
)
@click.option(
    "-D",
    "--delimiter",
    metavar="TEXT",
    callback=unescaped,
    default=r"\n",
    show_default=True,
    help="The end of a line.",
)
@click.option(
    "--null-marker", metavar="TEXT", callback=unescaped, help="A key or value equal to this text is null."
)
@click.option("--skip-empty", is_flag=True, help="Send no records for empty lines.")
@click.option(
    "-H",
    "--header",
    "headers",
    metavar="NAME=VALUE",
    multiple=True,
    callback=_headers,
    help="A header of every record.",
)
@click.option(
    "-p",
    "--partition",
    metavar="N",
    type=Whole(0, 2**31 - 1),
    help="The partition, instead of that of the key.",
)
@click.option(
    "-z", "--compression", metavar="TYPE", help=f"One of {SETTINGS['compression_type'].kind.range}."
)
@click.option("--acks", help="all, 1 or 0.")
@properties_option
@click.option("-F", "--config", type=FILE, help="A properties file, as for Java clients.")
@secrets_option
@click.option(
    "--on-error",
    type=click.Choice(["stop", "continue"]),
    default="stop",
    show_default=True,
    help="End at the first failure, or send the other lines.",
)
@click.option(
    "--dead-letters",
    metavar="TOPIC",
    callback=checked_topic,
    help="A topic for records that can never be written; they are no failures then.",
)
@wait_option
@click.option("--progress/--no-progress", default=None, help="On stderr.  [default: in a terminal]")
def command(**flags: Any) -> int:
    """Send the lines of FILES, or of standard input, to a topic.

    Each line is a record. It ends with a summary; lines that are not acknowledged are named on stderr, with the
    reason. Ctrl-C (or SIGTERM) stops reading, sends the lines that were read, and reports undelivered ones.
    """
    return run_to_end(produce(_job(**flags), Screen()))


def _job(**flags: Any) -> Job:
    return Job(
        config=_config(flags),
        sources=[Source.of(name) for name in flags["files"] or ["-"]],
        form=_format(flags),
        topic=flags["topic"],
        delimiter=flags["delimiter"],
        stops_at_failure=flags["on_error"] == "stop",
        dead_letters=flags["dead_letters"],
        wait=flags["wait"],
        progress=flags["progress"],
    )


def _config(flags: dict[str, Any]) -> ProducerConfig:
    """Flags take precedence over properties, and properties over the file."""
    given = {name: flags[flag] for flag, name in PROPERTY_OF.items() if flags[flag] is not None}
    file = None if flags["config"] is None else Path(flags["config"])
    config = configuration(file, flags["properties"] | given, flags["secrets"])
    if config.transactional_id is not None:
        text = "transactional.id: this command does not use transactions; remove it"
        raise click.UsageError(text, click.get_current_context())
    return config


def _format(flags: dict[str, Any]) -> Format:
    defaults = Defaults(flags["topic"], flags["partition"], flags["headers"])
    if flags["form"] == "lines":
        if flags["topic"] is None:
            raise click.UsageError("Missing option '--topic'", click.get_current_context())
        return Lines(defaults, flags["key_separator"], flags["null_marker"], flags["skip_empty"])
    for name in ONLY_FOR_LINES:
        if flags[name]:
            flag = name.replace("_", "-")
            raise click.UsageError(f"--{flag} requires --format lines", click.get_current_context())
    return JsonLines(defaults)
