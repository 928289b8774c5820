"""`aioproducer doctor`: its lines, its JSON, its exit codes, and its end by Ctrl-C."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from aioproducer.testing import EmbeddedKafka, certificates
from tests.cli.program import COLOUR, Ended, ended, run, run_in_terminal, start
from tests.doctor.support import advertise
from tests.net.support import until

CANARY = "canary-7"


def checks(result: Ended) -> list[dict[str, Any]]:
    """The checks in JSON, the only thing on stdout."""
    told = json.loads(result.out)
    assert told["version"] == 1
    found: list[dict[str, Any]] = told["checks"]
    return found


async def test_lines_for_a_pipe(kafka: EmbeddedKafka) -> None:
    """Words in place of signs, a line for each step, and the count at the end."""
    result = await run("doctor", "-b", kafka.bootstrap_servers, "-t", "orders")
    lines = result.out.splitlines()
    assert (result.code, result.err) == (0, "")
    assert lines[0] == "ok   config      PLAINTEXT, acks=all, idempotent"
    assert lines[1].startswith(f"ok   dns, tcp    {kafka.bootstrap_servers} (")
    assert "ok   topic       orders: 2 partitions × 1 replica, writable" in lines  # noqa: RUF001
    assert lines[-1].startswith("0 failed, 0 warnings, 10 fine in ")
    assert kafka.records("orders") == []


async def test_signs_for_a_terminal(kafka: EmbeddedKafka, unused_port: int) -> None:
    """Signs with colours; the failure has its advice below it."""
    advertise(kafka, 1, "localhost", unused_port)
    code, drawn = await run_in_terminal(
        "doctor", "-b", kafka.bootstrap_servers, "-t", "orders", columns=100, LC_ALL="C.UTF-8"
    )
    plain = [line.rstrip() for line in COLOUR.sub("", drawn).replace("\x1b[0m", "").splitlines()]
    assert code == 1
    assert "✓ config      PLAINTEXT, acks=all, idempotent" in plain
    place = plain.index("✗ brokers     0 of 1 reachable")
    assert plain[place + 1] == f"  ✗ 1 localhost:{unused_port}: connection refused"
    assert plain[place + 2].startswith(
        f"      The cluster tells that broker 1 is at localhost:{unused_port}."
    )
    assert "✗ topic       orders: 2 partitions × 1 replica, writable" in plain  # noqa: RUF001
    assert COLOUR.search(drawn)


async def test_checks_that_are_alike(kafka: EmbeddedKafka, unused_port: int) -> None:
    """One advice for those that need the same; a step of which a part is fine was not skipped."""
    servers = f"{kafka.bootstrap_servers},127.0.0.1:{unused_port}"
    lines = (await run("doctor", "-b", servers, "--probe")).out.splitlines()
    assert "ok   protocol    1 of 2 fine" in lines
    assert "skip probe       no topic was given" in lines
    assert f"  skip 127.0.0.1:{unused_port}: tcp failed" in lines
    made = certificates()
    async with EmbeddedKafka(brokers=2, tls=made.broker_context()) as secured:
        out = (await run("doctor", "-b", secured.bootstrap_servers)).out
    assert out.count(": the port speaks TLS") == 2
    assert out.count("Set security.protocol to SSL") == 1


async def test_json(kafka: EmbeddedKafka) -> None:
    """One object, with each check."""
    result = await run("doctor", "-b", kafka.bootstrap_servers, "-t", "orders", "--json", "--probe")
    assert result.code == 0
    found = {check["id"]: check for check in checks(result)}
    assert list(found) == [
        "config", "dns", "tcp", "protocol", "cluster", "brokers", "clock", "idempotence", "topic", "probe", "telemetry",
    ]  # fmt: skip
    assert found["probe"]["detail"]["offset"] == 0
    [record] = kafka.records("orders")
    assert record.value == b"aioproducer doctor"


async def test_exit_codes(kafka: EmbeddedKafka) -> None:
    """1 where a step failed, with --strict also for a warning, 2 for usage and configuration."""
    assert (await run("doctor", "-b", kafka.bootstrap_servers, "-t", "nope")).code == 1
    servers = f"{kafka.bootstrap_servers},kafka.invalid:9092"
    assert (await run("doctor", "-b", servers, "--strict")).code == 1
    assert (await run("doctor", "-b", kafka.bootstrap_servers, "-t", "a b")).code == 2


async def test_a_configuration_with_several_problems() -> None:
    """Each has a line with its fix; nothing is dialed."""
    result = await run("doctor", "-b", "127.0.0.1:1", "-X", "acks=7", "-X", "linger.mss=3", "--json")
    assert (result.code, [check["status"] for check in checks(result)]) == (2, ["fail", "fail"])


async def test_ctrl_c_prints_what_is_known(kafka: EmbeddedKafka) -> None:
    """The checks that are not finished are skipped, and the exit code says that something is missing."""
    kafka.faults.silence(api="InitProducerId", times=None)
    process = await start("doctor", "-b", kafka.bootstrap_servers, "--timeout", "600", "--json")
    await until(lambda: any(request.api == "InitProducerId" for request in kafka.requests))
    process.send_signal(signal.SIGINT)
    result = await ended(process)
    found = {check["id"]: check["status"] for check in checks(result)}
    assert (result.code, json.loads(result.out)["ok"]) == (1, False)
    assert (found["cluster"], found["idempotence"]) == ("ok", "skip")


async def test_a_resolver_that_hangs(tmp_path: Path) -> None:
    """The thread of the look-up cannot be ended; the program ends all the same."""
    (tmp_path / "sitecustomize.py").write_text(
        "import socket, threading\nsocket.getaddrinfo = lambda *_, **__: threading.Event().wait()\n"
    )
    command = ("doctor", "-b", "kafka.example:9092", "--timeout", "0.5", "--json")
    code, drawn = await run_in_terminal(*command, columns=1000, PYTHONPATH=str(tmp_path))
    assert (code, "the name server did not answer" in drawn) == (1, True)


@pytest.mark.parametrize(
    ("flags", "password", "code"), [((), f"{CANARY}-wrong", 1), (("--json",), CANARY, 0)]
)
async def test_no_secret_is_printed(flags: tuple[str, ...], password: str, code: int, tmp_path: Path) -> None:
    """Neither of a password that is refused, nor of one that is accepted."""
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    file = tmp_path / "client.properties"
    file.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nallow.plaintext.credentials=true\n"
        f'sasl.jaas.config={module} required username="alice" password="{password}";\n'
    )
    async with EmbeddedKafka(users={"alice": CANARY}, mechanisms=["PLAIN"]) as kafka:
        result = await run("doctor", "-b", kafka.bootstrap_servers, "-F", file, *flags)
    assert result.code == code, result
    assert CANARY not in result.out + result.err
