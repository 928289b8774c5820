"""The container and the Kubernetes manifest fit the applications that they run; the worker ends well."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import signal
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from aioproducer import Producer
from aioproducer.testing import EmbeddedKafka
from examples import web_app
from examples.deploy import worker
from tests.examples.programs import EXAMPLES, ended, example, started

DEPLOY = EXAMPLES / "deploy"
MARGIN = 5
"""Seconds between the end that a pod needs at most, and the one at which it is killed."""


def containers() -> dict[str, Any]:
    """The pod of each deployment by its name."""
    documents = [each for each in manifest() if each["kind"] == "Deployment"]
    return {each["metadata"]["name"]: each["spec"]["template"]["spec"] for each in documents}


def manifest() -> list[Any]:
    """The documents of the manifest."""
    return list(yaml.safe_load_all(example("deploy/kubernetes.yaml").read_text()))


def instructions() -> list[tuple[str, str]]:
    """The lines of the Dockerfile: word and arguments."""
    lines = [line for line in example("deploy/Dockerfile").read_text().splitlines() if line]
    pairs = (line.split(maxsplit=1) for line in lines if not line.startswith("#"))
    return [(word, rest) for word, rest in pairs]


def command() -> list[str]:
    """The program of the container."""
    (text,) = [rest for word, rest in instructions() if word == "CMD"]
    words: list[str] = json.loads(text)
    return words


def flag(name: str) -> str:
    """The argument of a flag of the program."""
    return command()[command().index(name) + 1]


def test_the_image_is_slim_and_not_root() -> None:
    """It starts from a slim image, its user is a number that is not root's, and no shell stands before the program."""
    facts = instructions()
    assert re.fullmatch(r"python:3\.\d+-slim", dict(facts)["FROM"])
    user = int(dict(facts)["USER"])
    assert user > 0
    assert f"--uid {user}" in " ".join(rest for word, rest in facts if word == "RUN")
    assert command()[0] == "uvicorn"


def test_the_image_has_the_programs() -> None:
    """Every file that is copied exists, and the programs of both deployments are among them."""
    (rest,) = [rest for word, rest in instructions() if word == "COPY"]
    *files, _ = shlex.split(rest)
    assert all((EXAMPLES / file).is_file() for file in files)
    names = {Path(file).name for file in files}
    assert command()[1] == "web_app:app"
    assert "web_app.py" in names
    assert containers()["ticks"]["containers"][0]["command"] == ["python", worker.__file__.rpartition("/")[2]]
    assert "worker.py" in names


def test_ports_agree() -> None:
    """The server listens on all addresses, at the port that the image, the pod and the service name."""
    (container,) = containers()["orders"]["containers"]
    (port,) = container["ports"]
    (service,) = [each for each in manifest() if each["kind"] == "Service"]
    (way,) = service["spec"]["ports"]
    assert flag("--host") == "0.0.0.0"
    assert {flag("--port"), dict(instructions())["EXPOSE"]} == {str(port["containerPort"])}
    assert way["targetPort"] == port["name"]
    probes = [container[name]["httpGet"]["port"] for name in ("livenessProbe", "readinessProbe")]
    assert set(probes) == {port["name"]}


def test_names_agree() -> None:
    """Each deployment and the service select the pods that they mean, and both use one image."""
    for each in manifest():
        if each["kind"] == "Deployment":
            labels = each["spec"]["template"]["metadata"]["labels"]
            assert each["spec"]["selector"]["matchLabels"] == labels == {"app": each["metadata"]["name"]}
        else:
            assert each["spec"]["selector"] == {"app": "orders"}
    images = {pod["containers"][0]["image"] for pod in containers().values()}
    assert images == {"orders:1"}
    assert f"-t {images.pop()} " in example("deploy/Dockerfile").read_text()


async def test_the_paths_of_the_probes_are_those_of_the_application() -> None:
    """The application answers each probe: a producer that has not started is live and not ready."""
    (container,) = containers()["orders"]["containers"]
    transport = httpx.ASGITransport(web_app.app)
    async with httpx.AsyncClient(transport=transport, base_url="http://pod") as client:
        live = await client.get(container["livenessProbe"]["httpGet"]["path"])
        ready = await client.get(container["readinessProbe"]["httpGet"]["path"])
    assert (live.status_code, live.json()["live"]) == (200, True)
    assert (ready.status_code, ready.json()["ready"]) == (503, False)


@pytest.mark.parametrize("name", ["livenessProbe", "readinessProbe"])
def test_periods_of_the_probes(name: str) -> None:
    """A probe ends before the next one begins, one late answer changes nothing, and readiness is noticed first."""
    (container,) = containers()["orders"]["containers"]
    probe = container[name]
    assert probe["timeoutSeconds"] < probe["periodSeconds"]
    assert probe["failureThreshold"] >= 2
    after = {
        each: container[each]["periodSeconds"] * container[each]["failureThreshold"]
        for each in ("livenessProbe", "readinessProbe")
    }
    assert after["readinessProbe"] < after["livenessProbe"]


def test_the_grace_period_of_the_application_fits() -> None:
    """preStop, the requests under way and close() end before the pod is killed; no request is cut off."""
    pod = containers()["orders"]
    config = web_app.producer.config
    longest_request = (config.max_block_ms + config.delivery_timeout_ms) / 1000
    graceful, closing = int(flag("--timeout-graceful-shutdown")), config.close_timeout_ms / 1000
    assert graceful > longest_request
    before = pod["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert pod["terminationGracePeriodSeconds"] >= before + graceful + closing + MARGIN


def test_the_grace_period_of_the_worker_fits() -> None:
    """close() ends before the pod is killed."""
    (limit,) = re.findall(r"close_timeout_ms=([\d_]+)", example("deploy/worker.py").read_text())
    assert containers()["ticks"]["terminationGracePeriodSeconds"] >= int(limit) / 1000 + MARGIN


def test_no_pod_needs_root_or_writes_files() -> None:
    """Both run under Kubernetes' restricted rules."""
    for pod in containers().values():
        assert pod["securityContext"] == {"runAsNonRoot": True}
        assert pod["containers"][0]["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
async def test_the_worker_delivers_before_it_ends(embedded_kafka: EmbeddedKafka, how: signal.Signals) -> None:
    """A record that is held until close() says that it waits is written, and the worker ends with 0."""
    held = embedded_kafka.faults.delay(before=True)
    async with started(embedded_kafka, example("deploy/worker.py")) as process:
        await held.reached()
        process.send_signal(how)
        assert process.stderr is not None
        while b"close() waits for" not in await process.stderr.readline():
            pass
        held.release()
        done = await ended(process)
    assert (done.code, done.output) == (0, "")
    assert "closed: CloseReport(delivered=1, not_written=0, unknown=0" in done.errors
    assert [record.value for record in embedded_kafka.records("ticks")] == [b"tick 0"]


async def test_the_worker_ends_while_its_records_wait(embedded_kafka: EmbeddedKafka) -> None:
    """Kafka tells no topics: the call that waits for them does not hold the end up beyond the grace period."""
    held = embedded_kafka.faults.delay(api="Metadata", before=True, times=None)
    async with started(embedded_kafka, example("deploy/worker.py")) as process:
        await held.reached()
        process.send_signal(signal.SIGTERM)
        done = await ended(process)
    assert (done.code, done.output) == (0, "")
    assert "closed: CloseReport(delivered=0, not_written=0, unknown=0" in done.errors


async def test_the_worker_tells_the_error_that_ends_it(embedded_kafka: EmbeddedKafka) -> None:
    """Without a signal: the exit code is 1, and the log has the error."""
    embedded_kafka.faults.error("TOPIC_AUTHORIZATION_FAILED", api="Metadata", topic="ticks", times=None)
    async with started(embedded_kafka, example("deploy/worker.py")) as process:
        done = await ended(process)
    assert (done.code, done.output) == (1, "")
    assert "the work has failed" in done.errors
    assert "TOPIC_AUTHORIZATION_FAILED" in done.errors or "not authorized" in done.errors


async def test_the_worker_tells_losses(
    embedded_kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record that cannot be delivered in time makes the exit code 1."""
    monkeypatch.setattr(worker, "KAFKA", embedded_kafka.bootstrap_servers)
    embedded_kafka.create_topic("ticks")
    held = embedded_kafka.faults.delay(before=True)
    close = Producer.close

    async def impatient(producer: Any) -> Any:
        return await close(producer, timeout=0)

    monkeypatch.setattr(Producer, "close", impatient)
    working = asyncio.create_task(worker.main())
    await held.reached()
    signal.raise_signal(signal.SIGTERM)
    assert await working == 1
    held.release()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().remove_signal_handler(number)
