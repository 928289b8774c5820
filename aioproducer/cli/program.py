"""The program: commands that are imported on use, and one line for each failure."""

from __future__ import annotations

import importlib
import io
import re
import sys
from collections.abc import Sequence

import click

import aioproducer
from aioproducer.cli import INTERRUPTED

FAILED, USAGE = 1, 2
_EXTRA = re.compile(r"(Got unexpected extra arguments?) \(.*\)", re.DOTALL)

COMMANDS = {
    "demo": "Send, read back and verify, without any Kafka.",
    "produce": "Send the lines of files or of standard input.",
    "perf": "Measure throughput and latency, with the flags of Kafka's own tool.",
    "broker": "Run an embedded Kafka for local development.",
    "doctor": "Examine the way to a cluster, and tell what to do about each failure.",
    "audit": "Verify the records of topics with Spark.",
    "verifiable-producer": "Send numbers and tell outcomes, in place of Kafka's own tool.",
}


class Commands(click.Group):
    """Each command is a module of its own, which is imported when the command is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands in the order of the documentation."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of this name."""
        if cmd_name not in COMMANDS:
            return None
        try:
            command: click.Command = importlib.import_module(
                f"aioproducer.cli.{cmd_name.replace('-', '_')}"
            ).command
        except KeyboardInterrupt:
            # The command has not begun, so there is no message.
            raise click.exceptions.Exit(INTERRUPTED) from None
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list in --help, without importing any of them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(
    cls=Commands,
    name="aioproducer",
    no_args_is_help=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="\b\nExamples:\n"
    "  aioproducer demo\n"
    "  aioproducer produce -b localhost:9092 -t orders orders.txt\n"
    "  aioproducer COMMAND --help",
)
@click.version_option(aioproducer.__version__, message="aioproducer %(version)s")
def program() -> None:
    """An asyncio-native producer for Apache Kafka."""


def run(arguments: Sequence[str] | None) -> int:
    """Run one command; a failure is one line on stderr."""
    _forgive_encodings()
    try:
        code = program.main(arguments, prog_name="aioproducer", standalone_mode=False)
    except click.UsageError as error:
        reason = _without_values(error.format_message(), sys.argv[1:] if arguments is None else arguments)
        return _said(f"{reason.rstrip('.')}; see '{_path(error)} --help'", error.exit_code)
    except click.ClickException as error:
        return _said(error.format_message(), error.exit_code)
    except click.Abort:
        return _said("interrupted", FAILED)
    except aioproducer.ConfigurationError as error:
        return _said("; ".join(error.problems), USAGE)
    except (aioproducer.KafkaError, OSError) as error:
        return _said(str(error), FAILED)
    return int(code or 0)


def _without_values(message: str, arguments: Sequence[str]) -> str:
    """The message without texts behind `=`, and without arguments that have no place: they may be parts of a password."""
    message = _EXTRA.sub(r"\1", message)
    for text in arguments:
        rest = text
        while "=" in rest:
            whole, (name, _, rest) = rest, rest.partition("=")
            for form in (whole, repr(whole)[1:-1]):
                message = message.replace(form, f"{name}=…")
    return message


def _path(error: click.UsageError) -> str:
    return error.ctx.command_path if error.ctx else "aioproducer"


def _said(reason: str, code: int) -> int:
    print(f"aioproducer: {' '.join(reason.split())}", file=sys.stderr)
    return code


def _forgive_encodings() -> None:
    """Replace characters that the encoding of the streams lacks, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
