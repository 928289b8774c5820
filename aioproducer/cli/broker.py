"""`aioproducer broker`: the embedded Kafka for local development, until Ctrl-C."""

from __future__ import annotations

import argparse
import asyncio
import signal

from aioproducer.cli.arguments import integer
from aioproducer.testing import EmbeddedKafka


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "broker",
        help="run an embedded Kafka for local development",
        description="Run an embedded Kafka on this machine until Ctrl-C or SIGTERM. Everything is kept in memory only.",
    )
    parser.add_argument(
        "--port",
        type=integer(0, 65535),
        default=9092,
        help="port of the first broker, the others follow; 0 for any free ports (default: %(default)s)",
    )
    parser.add_argument(
        "--brokers", type=integer(1, 100), default=1, help="how many brokers (default: %(default)s)"
    )
    parser.set_defaults(command=run)


def run(arguments: argparse.Namespace) -> int:
    """Serve until told to stop."""
    asyncio.run(_serve(arguments.port, arguments.brokers))
    return 0


async def _serve(port: int, brokers: int) -> None:
    async with EmbeddedKafka(brokers=brokers, port=port) as kafka:
        print(f"bootstrap servers: {kafka.bootstrap_servers}", flush=True)
        await _told_to_stop()
    print("stopped", flush=True)


async def _told_to_stop() -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    await stop.wait()
