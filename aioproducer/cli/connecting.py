"""The configuration of the flags, and the wait for a broker that answers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import click

from aioproducer import DirectoryProvider, FileProvider, MetadataTimeoutError, Producer, ProducerConfig
from aioproducer.cli.terminal.numbers import Real
from aioproducer.config import KAFKAS, SETTINGS, ConfigProvider, UnresolvedError, topic_problem

ANSWER_TIMEOUT = 10.0


def pairs(_: click.Context, option: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    """All NAME=VALUE arguments; a later one replaces an earlier one of the same name. Secrets are refused."""
    found = dict(pair(option, text) for text in given)
    for name in found:
        row = SETTINGS.get(name.replace(".", "_"))
        if row is not None and row.is_secret:
            # Here: an argument behind it, which may be a part of the secret, is not looked at.
            raise click.UsageError(
                f"{name}: other users of this machine see the command line: put it into the file of --config"
            )
    return found


def pair(option: click.Parameter, text: str) -> tuple[str, str]:
    """NAME=VALUE as a pair. An error does not show the text, which may have a password."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise click.BadParameter("must be NAME=VALUE", param=option)
    return name.strip(), value


def checked_topic(_: click.Context, option: click.Parameter, name: str | None) -> str | None:
    """A valid topic name."""
    problem = None if name is None else topic_problem(name)
    if problem:
        raise click.BadParameter(problem, param=option)
    return name


wait_option = click.option(
    "--wait",
    "wait",
    type=Real(0, min_open=True),
    default=ANSWER_TIMEOUT,
    show_default=True,
    metavar="SECONDS",
    help="The longest initial wait for a broker and the topic.",
)


properties_option = click.option(
    "-X",
    "--property",
    "properties",
    metavar="NAME=VALUE",
    multiple=True,
    callback=pairs,
    help="Any Kafka producer property.",
)


secrets_option = click.option(
    "--secrets",
    "secrets",
    type=click.Path(exists=True, file_okay=False, resolve_path=True),
    multiple=True,
    metavar="FOLDER",
    help="A folder that ${file:...} and ${dir:...} of the properties may read.",
)


class _Providers(dict[str, ConfigProvider]):
    """The providers of the command line."""

    def __missing__(self, name: str) -> ConfigProvider:
        # A name that is none of Kafka's may be a part of a password.
        raise UnresolvedError(
            f"${{{name if name in KAFKAS else '…'}:…}} has no provider: with --secrets FOLDER, ${{file:…}} and ${{dir:…}} read the files below FOLDER"
        )


def given_providers(secrets: Sequence[str]) -> Mapping[str, ConfigProvider]:
    """The providers of references that lead to files below these folders."""
    providers = _Providers()
    if secrets:
        providers |= {"file": FileProvider(secrets), "dir": DirectoryProvider(secrets)}
    return providers


def configuration(
    file: Path | None, properties: Mapping[str, str], secrets: Sequence[str] = ()
) -> ProducerConfig:
    """The settings of the file, replaced by the properties, which are Kafka's dotted names and strings.

    References may lead to files below the folders of `secrets`.
    """
    providers = given_providers(secrets)
    if file is None:
        return ProducerConfig.from_properties(properties, providers=providers)
    overrides = {name.replace(".", "_"): _parsed(name, text) for name, text in properties.items()}
    return ProducerConfig.from_properties(file, providers=providers, **cast("Any", overrides))


def _parsed(name: str, text: str) -> object:
    row = SETTINGS.get(name.replace(".", "_"))
    return text if row is None else row.kind.parse(text.strip())


async def reach(producer: Producer, topic: str | None, wait: float) -> None:
    """Wait until a broker has answered and the topic is known, or raise the reason."""
    began = asyncio.get_running_loop().time()
    await producer.ready(wait)
    if topic is None:
        return
    left = began + wait - asyncio.get_running_loop().time()
    try:
        await producer.partitions_for(topic, timeout=max(left, 0))
    except MetadataTimeoutError as error:
        text = "no broker returned metadata of the topic: check that the topic exists"
        cause = error.cause
        raise MetadataTimeoutError(text, topic=topic, waited=wait, cause=cause) from cause
