"""The flags of `aioproducer verifiable-producer`, which are those of Kafka's VerifiableProducer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from aioproducer import ConfigurationError, ProducerConfig
from aioproducer.cli.connecting import checked_topic, given_providers, secrets_option
from aioproducer.cli.running import run_to_end
from aioproducer.cli.terminal.numbers import LEAST_INT, MOST_INT, MOST_LONG, Whole
from aioproducer.cli.terminal.screen import Screen
from aioproducer.cli.verifiable_producer.run import Job, verify
from aioproducer.config import properties_of

CLIENT_ID = "verifiable-producer"
IN_FLIGHT = "max.in.flight.requests.per.connection"
IDEMPOTENT_IN_FLIGHT = 5
EPILOG = """
\b
Example:
  aioproducer verifiable-producer --bootstrap-server localhost:9092 \\
    --topic orders --max-messages 1000 --throughput 100

Exit code: 0 also when records failed, 1 wrong usage, unusable settings or a
stdout that cannot be written to. stdout has JSON lines and nothing else.
"""


class WrongUsageError(click.UsageError):
    """Wrong usage, with the exit code of Kafka's tool."""

    exit_code = 1


class KafkasCodes(click.Command):
    """Ends with 1 where its usage is wrong, as Kafka's tool does."""

    def make_context(self, *arguments: Any, **extra: Any) -> click.Context:
        """Read the flags."""
        with _wrong_usage_is_one():
            return super().make_context(*arguments, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        with _wrong_usage_is_one():
            return super().invoke(ctx)


@contextmanager
def _wrong_usage_is_one() -> Iterator[None]:
    try:
        yield
    except click.UsageError as error:
        raise WrongUsageError(error.format_message(), error.ctx) from None
    except ConfigurationError as error:
        raise WrongUsageError("; ".join(error.problems), click.get_current_context(silent=True)) from None


@click.command("verifiable-producer", cls=KafkasCodes, epilog=EPILOG)
@click.option("--topic", required=True, callback=checked_topic, help="The topic of the records.")
@click.option(
    "--bootstrap-server",
    "--broker-list",
    "servers",
    metavar="HOST:PORT,...",
    required=True,
    help="Addresses of the first brokers.",
)
@click.option(
    "--max-messages",
    "records",
    metavar="N",
    type=Whole(LEAST_INT, MOST_INT),
    default=-1,
    show_default=True,
    help="The number of records; -1: until a signal.",
)
@click.option(
    "--throughput",
    "rate",
    metavar="N",
    type=Whole(LEAST_INT, MOST_INT),
    default=-1,
    show_default=True,
    help="Limit in records/s; -1: no limit.",
)
@click.option(
    "--acks",
    type=click.Choice(["-1", "0", "1"]),
    default="-1",
    show_default=True,
    help="The acknowledgements that a record needs.",
)
@click.option(
    "--command-config",
    "--producer.config",
    "config",
    type=click.Path(exists=True, dir_okay=False, readable=True, path_type=Path),
    metavar="FILE",
    help="A properties file, which takes precedence over the flags.",
)
@secrets_option
@click.option(
    "--message-create-time",
    "create_time",
    metavar="MS",
    type=Whole(-1, MOST_LONG),
    default=-1,
    show_default=True,
    help="The time of the first record, in ms since 1970; -1: the present.",
)
@click.option(
    "--value-prefix",
    "prefix",
    metavar="INT",
    type=Whole(LEAST_INT, MOST_INT),
    help="Values are INT.0, INT.1, ... instead of 0, 1, ...",
)
@click.option(
    "--repeating-keys",
    "keys",
    metavar="N",
    type=Whole(1, MOST_INT),
    help="Keys are 0 to N-1, again and again, instead of null.",
)
def command(**flags: Any) -> int:
    """Send growing numbers, and tell each outcome as a JSON line.

    The flags and lines are those of Kafka's own kafka-verifiable-producer, so that Kafka's system tests can use it in
    its place.
    """
    return run_to_end(verify(job_of(**flags), Screen()))


def job_of(
    *, servers: str, acks: str, config: Path | None, secrets: Sequence[str], create_time: int, **others: Any
) -> Job:
    """The run that the flags ask for."""
    flags = {"bootstrap.servers": servers, "acks": acks, "retries": "0", "client.id": CLIENT_ID}
    file = {} if config is None else properties_of(config)
    settings = as_kafka_does(flags, {name: line.value for name, line in file.items()})
    if "transactional.id" in settings:
        raise click.UsageError("transactional.id: this command begins no transactions: remove it")
    # With the lines of the file, which errors name.
    placed = {name: file.get(name, text) for name, text in settings.items()}
    return Job(
        config=ProducerConfig.from_properties(placed, providers=given_providers(secrets)),
        create_time=None if create_time == -1 else create_time,
        **others,
    )


def as_kafka_does(flags: Mapping[str, str], file: Mapping[str, str]) -> dict[str, str]:
    """The flags, and the file over them. Kafka's tool retries nothing by itself, and sends strings."""
    settings = {**flags, **file}
    for name in ("key.serializer", "value.serializer"):
        settings.pop(name, None)
    if "enable.idempotence" not in settings and not _allows_idempotence(settings):
        # Java turns it off without an error unless it was asked for.
        settings["enable.idempotence"] = "false"
    return settings


def _allows_idempotence(settings: Mapping[str, str]) -> bool:
    in_flight = settings.get(IN_FLIGHT, "").strip()
    return (
        settings["acks"].strip().lower() in ("-1", "all")
        and settings["retries"].strip() != "0"
        and not (in_flight.isdecimal() and int(in_flight) > IDEMPOTENT_IN_FLIGHT)
    )
