"""Every connection of the sink on a secured real Kafka: drivers, tasks, fences, commits, the ledger and the audit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from aioproducer.spark import audit
from tests.kafka.reading import read_all
from tests.kafka.secured import SCRAM_PASSWORD, USER, SecuredKafka
from tests.spark.rows import (
    expected_of_a_stream,
    failing,
    forget_last_commit,
    marked_stream,
    numbered,
    numbers,
    once,
    write_stream,
)
from tests.spark.test_secrets import event_log

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.kafka]

CANARY = "canary-7"
# The source gives one epoch to each run.
ROWS, EPOCHS = 1_200, 2


@pytest.fixture
def options(secured_kafka: SecuredKafka, tmp_path: Path, request: pytest.FixtureRequest) -> dict[str, str]:
    """The options of a write over TLS, with the password in a file; sessions end after five seconds."""
    folder = tmp_path / "secrets"
    folder.mkdir()
    (folder / "password").write_text(SCRAM_PASSWORD)
    assert CANARY in SCRAM_PASSWORD
    return {
        "kafka.bootstrap.servers": f"localhost:{secured_kafka.sasl_port}",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.location": str(secured_kafka.authority.own.certificate),
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.username": USER,
        "kafka.sasl.password": f"${{dir:{folder}:password}}",
        "secrets.folders": str(folder),
        "topic": secured_kafka.create_topic(request.function.__name__.replace("_", "-"), 4),
        "delivery": "exactly-once",
    }


def require_no_secret(folder: Path, output: str) -> None:
    """Neither the plans and events of Spark nor its output have the password."""
    (log,) = folder.iterdir()
    events = log.read_text()
    assert "physicalPlanDescription" in events
    assert CANARY not in events
    assert CANARY not in output


def test_a_batch(
    spark: SparkSession,
    secured_kafka: SecuredKafka,
    options: dict[str, str],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """An attempt fails behind its rows, and the job is run again: each row is there once."""
    rows = failing(numbered(spark, 100), attempts=1)
    with event_log(spark, tmp_path / "events"):
        for _ in range(2):
            writing = rows.write.format("aioproducer").options(**options).option("write.id", "nightly")
            writing.mode("append").save()
    found = read_all(secured_kafka.bootstrap_servers, options["topic"], isolation="read_committed")
    assert numbers(found) == once(100)
    require_no_secret(tmp_path / "events", "".join(capfd.readouterr()))


def test_a_stream_and_its_audit(
    spark: SparkSession, options: dict[str, str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The first epoch is repeated, as if the driver had died, and another one follows: the audit finds nothing wrong."""
    rows = marked_stream(spark, ROWS, 2, EPOCHS)
    with event_log(spark, tmp_path / "events"):
        write_stream(rows, options, tmp_path / "checkpoint")
        forget_last_commit(tmp_path / "checkpoint")
        write_stream(rows, options, tmp_path / "checkpoint")
    consumer = {
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": options["kafka.ssl.truststore.location"],
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": USER,
        "sasl.password": SCRAM_PASSWORD,
    }
    verdict = audit(
        spark,
        options["kafka.bootstrap.servers"],
        [options["topic"]],
        expected=expected_of_a_stream(ROWS, EPOCHS),
        settings=consumer,
    )
    assert verdict.is_clean, verdict.as_table()
    require_no_secret(tmp_path / "events", "".join(capfd.readouterr()))
