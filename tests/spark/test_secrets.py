"""Passwords are shown nowhere: not in errors, not in tracebacks with locals, not in the driver's output."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException, StreamingQueryException

from aioproducer.registry import Registry, Schema
from aioproducer.testing import EmbeddedKafka, EmbeddedRegistry
from tests.spark.rows import failing, numbered
from tests.spark.threads import in_a_thread

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.kafka]

CANARY = "canary-5e3cr3t"
LOCALS = "spark.sql.execution.pyspark.udf.tracebackWithLocals.enabled"
# Refused, whatever their values; the first and the last of the options, as Spark's frames hold the one it read last.
PASSWORDS = {"aa": CANARY, "kafka.sasl.password": CANARY, "kafka.ssl.key.password": CANARY, "zz": CANARY}


@pytest.fixture(autouse=True)
def printing_locals(spark: SparkSession) -> Iterator[None]:
    """Spark prints the locals of every frame that an error passes through."""
    spark.conf.set(LOCALS, "true")
    yield
    spark.conf.unset(LOCALS)


def printable(error: BaseException) -> str:
    """All printable text of an error of Spark's."""
    return f"{error}\n{error!r}\n{error.__cause__}\n{error.args}"


@pytest.mark.parametrize("password", sorted(PASSWORDS))
def test_options_that_are_refused_by_the_driver(
    spark: SparkSession, options: dict[str, str], password: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """The error has the name and an advice, and not the value."""
    # No mechanism is named, and the default one is not implemented.
    secured = {**options, "kafka.security.protocol": "SASL_SSL", password: CANARY}
    with pytest.raises(PySparkException) as caught:
        numbered(spark, 10).write.format("aioproducer").options(**secured).mode("append").save()
    assert "sasl_mechanism" in str(caught.value)
    assert CANARY not in printable(caught.value)
    assert CANARY not in "".join(capfd.readouterr())


def test_a_task_that_fails_prints_locals_without_options(
    spark: SparkSession, options: dict[str, str], capfd: pytest.CaptureFixture[str]
) -> None:
    """The frames have the rows and the sink, whose options do not show their values."""
    given = options | {"kafka.client.id": CANARY}
    writing = failing(numbered(spark, 10), attempts=9).write.format("aioproducer").options(**given)
    with pytest.raises(PySparkException, match="context = ") as caught:
        writing.mode("append").save()
    assert CANARY not in printable(caught.value)
    assert CANARY not in "".join(capfd.readouterr())


def test_a_stream(
    spark: SparkSession, options: dict[str, str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The options are read in other processes repeatedly."""
    df = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
    writing = df.selectExpr("cast(value as string) as value").writeStream.format("aioproducer")
    query = writing.options(**options, **PASSWORDS).option("checkpointLocation", str(tmp_path)).start()
    with pytest.raises(StreamingQueryException) as caught:
        query.awaitTermination(60)
    assert CANARY not in printable(caught.value)
    assert CANARY not in "".join(capfd.readouterr())


def test_a_secured_cluster_with_the_password_in_a_file(
    spark: SparkSession, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Tasks and driver read the file, and the output does not have the password."""
    (tmp_path / "password").write_text(CANARY)
    df = numbered(spark, 10)
    with in_a_thread(EmbeddedKafka(users={"etl": CANARY}, mechanisms=("SCRAM-SHA-256",))) as kafka:
        kafka.create_topic("secured", 2)
        secured = {
            "kafka.bootstrap.servers": kafka.bootstrap_servers,
            "kafka.security.protocol": "SASL_PLAINTEXT",
            "kafka.sasl.mechanism": "SCRAM-SHA-256",
            "kafka.sasl.username": "etl",
            "kafka.sasl.password": f"${{dir:{tmp_path}:password}}",
            "secrets.folders": str(tmp_path),
            "topic": "secured",
        }
        for delivery in ("at-least-once", "exactly-once"):
            writing = df.write.format("aioproducer").options(**secured, delivery=delivery)
            writing.mode("append").save()
        assert len(kafka.records("secured")) == 20
    assert CANARY not in "".join(capfd.readouterr())


SCHEMA = '{"type": "record", "name": "Row", "fields": [{"name": "value", "type": "string"}]}'


@contextmanager
def event_log(spark: SparkSession, folder: Path) -> Iterator[None]:
    """The events of Spark are written into this folder, with its plans."""
    context: Any = spark.sparkContext
    jvm, java = context._jvm, context._jsc.sc()
    folder.mkdir()
    conf = (
        java.conf()
        .clone()
        .set("spark.eventLog.rolling.enabled", "false")
        .set("spark.eventLog.compress", "false")
    )
    listener = jvm.org.apache.spark.scheduler.EventLoggingListener(
        "secrets",
        jvm.scala.Option.empty(),
        jvm.java.net.URI(folder.as_uri()),
        conf,
        java.hadoopConfiguration(),
    )
    listener.start()
    java.addSparkListener(listener)
    try:
        yield
    finally:
        java.listenerBus().waitUntilEmpty()
        java.removeSparkListener(listener)
        listener.stop()


@pytest.mark.parametrize("credentials", ["password", "token"])
def test_a_registry_whose_secret_is_in_a_file(
    spark: SparkSession,
    options: dict[str, str],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    credentials: str,
) -> None:
    """The driver reads the file; neither plans, events, errors nor any output have the secret."""
    secrets = tmp_path / "secrets"
    secrets.mkdir()
    (secrets / "registry").write_text(CANARY)
    auth: Any = CANARY if credentials == "token" else ("etl", CANARY)
    reference = f"${{dir:{secrets}:registry}}"
    given = {"registry.token": reference} if credentials == "token" else {
        "registry.username": "etl", "registry.password": reference
    }  # fmt: skip
    df = numbered(spark, 10)

    async def register(url: str) -> None:
        async with Registry(url, auth=auth) as registry:
            await registry.register(f"{options['topic']}-value", Schema(SCHEMA))

    with event_log(spark, tmp_path / "events"), in_a_thread(EmbeddedRegistry(auth=auth)) as registry:
        asyncio.run(register(registry.url))
        whole = options | given | {
            "valueFormat": "avro", "registry.url": registry.url, "secrets.folders": str(secrets),
        }  # fmt: skip
        df.write.format("aioproducer").options(**whole).mode("append").save()
        failures = []
        with pytest.raises(PySparkException, match="a failure of the test") as caught:
            failing(df, attempts=9).write.format("aioproducer").options(**whole).mode("append").save()
        failures.append(caught.value)
        (secrets / "registry").write_text(f"{CANARY}-other")
        with pytest.raises(PySparkException, match="401") as refused:
            df.write.format("aioproducer").options(**whole).mode("append").save()
        failures.append(refused.value)
        (secrets / "registry").unlink()
        with pytest.raises(PySparkException, match="no file that can be read") as unread:
            df.write.format("aioproducer").options(**whole).mode("append").save()
        failures.append(unread.value)
    for failure in failures:
        assert CANARY not in printable(failure)
    (log,) = (tmp_path / "events").iterdir()
    events = log.read_text()
    assert "physicalPlanDescription" in events
    assert CANARY not in events
    assert CANARY not in "".join(capfd.readouterr())
