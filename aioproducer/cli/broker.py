"""`aioproducer broker`: the embedded Kafka for local development, until Ctrl-C."""

from __future__ import annotations

import click

from aioproducer.cli.running import heeding_signals, run_to_end
from aioproducer.cli.terminal.numbers import Whole
from aioproducer.testing import EmbeddedKafka

LAST_PORT = 65535


@click.command(
    epilog="\b\nExamples:\n  aioproducer broker --port 9092\n"
    "  aioproducer produce -b localhost:9092 -t orders orders.txt"
)
@click.option(
    "--port",
    metavar="N",
    type=Whole(0, LAST_PORT),
    default=9092,
    show_default=True,
    help="Port of the first broker; the others use the following ports. 0 selects free ports.",
)
@click.option(
    "--brokers", metavar="N", type=Whole(1, 100), default=1, show_default=True, help="The number of brokers."
)
def command(port: int, brokers: int) -> None:
    """Run an embedded Kafka on this machine until Ctrl-C or SIGTERM.

    Everything is kept in memory only. Any Kafka client can use it.
    """
    if port + brokers - 1 > LAST_PORT and port:
        raise click.UsageError(
            f"{brokers} brokers from this port need ports above {LAST_PORT}", click.get_current_context()
        )
    run_to_end(_serve(port, brokers))


async def _serve(port: int, brokers: int) -> None:
    with heeding_signals() as stop:
        async with EmbeddedKafka(brokers=brokers, port=port) as kafka:
            click.echo(f"bootstrap servers: {kafka.bootstrap_servers}")
            await stop.asked.wait()
    click.echo("stopped")
