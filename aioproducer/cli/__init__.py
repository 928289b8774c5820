"""The command line: what `aioproducer` and `python -m aioproducer` run."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

import aioproducer
from aioproducer.cli import broker, demo

__all__ = ["main"]

OK, FAILED = 0, 1  # And 2 for wrong usage, which argparse says itself.

Command = Callable[[argparse.Namespace], int]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code: 0 all went well, 1 something failed, 2 wrong usage."""
    parsed = _parser().parse_args(arguments)
    command: Command = parsed.command
    try:
        return command(parsed)
    except KeyboardInterrupt:
        return _failed("interrupted")
    except (aioproducer.KafkaError, OSError) as error:
        return _failed(str(error))


def _failed(reason: str) -> int:
    print(f"aioproducer: {reason}", file=sys.stderr)
    return FAILED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="aioproducer", description="An asyncio-native producer for Apache Kafka."
    )
    parser.add_argument("--version", action="version", version=f"aioproducer {aioproducer.__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    demo.add_to(commands)
    broker.add_to(commands)
    return parser
