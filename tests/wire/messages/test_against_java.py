"""Kafka's own classes read what we write, and write the same again."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from aioproducer._wire.apis import api_of
from aioproducer._wire.codec import encode
from aioproducer._wire.messages.declaration import Message
from tests.kafka_jars import jar_folder
from tests.wire.messages.random_messages import message_versions, random_message

PROGRAM = Path(__file__).with_name("EchoMessages.java")
MESSAGES_PER_VERSION = 5


def echoed(lines: list[str]) -> list[str]:
    """The answer of Java to each line."""
    command = ["java", "-XX:+UseSerialGC", "-cp", f"{jar_folder()}/*", str(PROGRAM)]
    done = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def line(rng: random.Random, message: Message, version: int) -> str:
    api = api_of(message.type)
    kind = "request" if message.type is api.request else "response"
    return f"{kind} {api.key} {version} {encode(random_message(rng, message, version), version).hex()}"


@pytest.mark.kafka
def test_equal_to_java(rng: random.Random) -> None:
    """Random messages of every API and version are to Java what they are to us, byte for byte."""
    lines = [
        line(rng, message, version)
        for message, version in message_versions()
        for _ in range(MESSAGES_PER_VERSION)
    ]
    for sent, got in zip(lines, echoed(lines), strict=True):
        assert sent.rpartition(" ")[2] == got, sent
