"""`aioproducer audit`: a table, files, and an exit code."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from aioproducer import Producer
from aioproducer.cli import audit, main
from aioproducer.testing import EmbeddedKafka


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """The command, in a process of its own, as it starts a Spark."""
    command = [sys.executable, "-m", "aioproducer", "audit", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.kafka
async def test_the_command(options: dict[str, str], tmp_path: Path) -> None:
    """One record of three is missing: the output names it, and the exit code is not 0."""
    servers, topic = options["kafka.bootstrap.servers"], options["topic"]
    async with Producer(servers) as producer:
        for sequence in (0, 2):
            await producer.send(topic, f"shop:{sequence}:8cdc1683:x".encode(), key=b"shop")
    files = tmp_path / "verdict.json", tmp_path / "verdict.png"
    done = run("-b", servers, "-t", topic, "--expect", "shop=3", "--json", files[0], "--picture", files[1])
    assert done.returncode == 1, done.stderr
    assert "1 of 3 lost: sequences 1" in done.stdout
    facts = json.loads(files[0].read_text())
    assert (facts["records"], facts["lost"], facts["is_clean"]) == (2, 1, False)
    assert files[1].read_bytes().startswith(b"\x89PNG")


async def test_a_topic_that_is_not_there_and_a_broker_that_is_dead(
    kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Each error is one line, as with every command, before Spark starts."""
    monkeypatch.setattr(audit, "SECONDS_TO_ANSWER", 5.0)
    assert await asyncio.to_thread(main, ["audit", "-b", kafka.bootstrap_servers, "-t", "missing"]) == 1
    output = capfd.readouterr()
    assert output.out == ""
    assert output.err.startswith("aioproducer: UNKNOWN_TOPIC_OR_PART")
    assert "topic 'missing'" in output.err
    assert output.err.count("\n") == 1
    monkeypatch.setattr(audit, "SECONDS_TO_ANSWER", 0.2)
    assert await asyncio.to_thread(main, ["audit", "-b", "127.0.0.1:1", "-t", "orders"]) == 1
    output = capfd.readouterr()
    assert output.err.startswith("aioproducer: no broker answered within 0.2 s")
    assert (output.out, output.err.count("\n")) == ("", 1)


def test_wrong_flags() -> None:
    """Wrong flags end with a line that names the error."""
    done = run("-b", "localhost:1", "-t", "t", "--expect", "shop")
    assert done.returncode == 2
    assert "'shop' is not SOURCE=NUMBER" in done.stderr
