"""The sink's options: valid values, and the errors of invalid ones."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from aioproducer import ConfigurationError
from aioproducer.config import FileReference
from aioproducer.secret import SecretCall
from aioproducer.spark.options import Guarantee, SinkOptions, read_options, with_time_for_a_job
from tests.reports import report

SERVER = {"kafka.bootstrap.servers": "localhost:9092"}
CANARY = "canary-7f3a"


def test_the_defaults() -> None:
    """The defaults: at least once, headers included, an unwritable row fails the write."""
    options = read_options(SERVER | {"topic": "t", "checkpointlocation": "/tmp/x", "queryname": "q"})
    assert (options.topic, options.guarantee, options.includes_headers) == (
        "t",
        Guarantee.AT_LEAST_ONCE,
        True,
    )
    assert (options.dead_letters, options.sink_id, options.write_id) == (None, None, None)
    assert options.producer.transactional_id is None
    assert options.producer.send_buffer_bytes == -1
    assert read_options(SERVER | {"kafka.send.buffer.bytes": "4096"}).producer.send_buffer_bytes == 4096


@pytest.mark.parametrize("word", ["fail", "FAIL", " Fail "])
def test_words_are_read_without_regard_to_case(word: str) -> None:
    """Otherwise a topic of that name would take the rows that should fail the write."""
    options = read_options(
        SERVER | {"topic": "t", "on.error": word, "delivery": "Exactly-Once", "includeHeaders": "FALSE"}
    )
    assert (options.dead_letters, options.is_exactly_once, options.includes_headers) == (None, True, False)
    assert read_options(SERVER | {"topic": "t", "on.error": "failed"}).dead_letters == "failed"


def test_kafkas_own() -> None:
    """Kafka's settings have dotted names; they travel to the executors with the others."""
    options = read_options(SERVER | {"kafka.linger.ms": "7", "kafka.Compression.Type": "zstd"})
    assert (options.producer.linger_ms, options.producer.compression_type) == (7, "zstd")
    assert pickle.loads(pickle.dumps(options)) == options


def test_a_job_may_take_as_long_as_brokers_allow() -> None:
    """The time of transactions is the brokers' limit, unless the user has set it."""
    given = SERVER | {"topic": "t", "delivery": "exactly-once"}
    assert with_time_for_a_job(read_options(given)).producer.transaction_timeout_ms == 900_000
    read = read_options(given | {"kafka.transaction.timeout.ms": "5000"})
    assert with_time_for_a_job(read).producer.transaction_timeout_ms == 5_000


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"topc": "x"}, "did you mean 'topic'"),
        ({"includeHeader": "true"}, "did you mean 'includeHeaders'"),
        ({"bootstrap.servers": "x:1"}, "did you mean 'kafka.bootstrap.servers'"),
        ({"path": "t"}, "without a path"),
        ({"sink.id": "x"}, "sink.id: set delivery"),
        ({"delivery": "exactly-once"}, "'marker.topic'"),
        ({"delivery": "exactly-once", "topic": "t", "write.id": "x" * 300}, "1 to 200"),
        ({"topic": "t", "on.error": "t"}, "refused again"),
        ({"kafka.acks": "0", "kafka.enable.idempotence": "false"}, "requires acks=all and idempotence"),
        ({"kafka.acks": "1"}, "^the sink requires acks=all and idempotence[^;]*$"),
        ({"kafka.enable_idempotence": "False"}, "^the sink requires acks=all and idempotence[^;]*$"),
        ({"kafka.transactional.id": "x"}, "sink.id or write.id"),
        ({"kafka.transactional_id": "x"}, "sink.id or write.id"),
    ],
)
def test_what_is_wrong(given: dict[str, str], words: str) -> None:
    """Each error has an advice."""
    with pytest.raises(ConfigurationError, match=words):
        read_options(SERVER | given)


def test_all_that_is_wrong_is_told_at_once() -> None:
    """One error has all mistakes, so that a job does not have to start for each."""
    with pytest.raises(ConfigurationError) as refusal:
        read_options({"delivry": "x", "topic": "", "kafka.linger.ms": "soon"})
    text = str(refusal.value)
    assert all(word in text for word in ("delivery", "topic", "linger.ms", "bootstrap.servers"))


def test_no_value_that_may_be_secret_is_shown() -> None:
    """Neither the text has the value, nor the locals of the error's frames, which Spark can print."""
    with pytest.raises(ConfigurationError) as refusal:
        read_options({"kafka.sasl.jaas.config": f'x password="{CANARY}";', "kafka.ssl.key.password": CANARY})
    assert CANARY not in str(refusal.value)
    frame = refusal.value.__traceback__
    while frame is not None:
        if frame.tb_frame.f_code.co_name != "test_no_value_that_may_be_secret_is_shown":
            assert CANARY not in repr(frame.tb_frame.f_locals)
        frame = frame.tb_next


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({f"{CANARY}/+": "x"}, "unknown option, not shown, as it may be a part of a secret"),
        ({CANARY: "x"}, "unknown option, not shown"),
        ({"topik": "=="}, "unknown option, not shown"),
        ({f"kafka.{CANARY}": "x"}, "property 2: no such setting; it is not shown"),
        ({"delivery": f"exactly-once password={CANARY}"}, "delivery: must be at-least-once or exactly-once"),
        ({"valueFormat": f"json kafka.sasl.password={CANARY}"}, "valueFormat: must be"),
        ({"topic": f"orders kafka.sasl.password={CANARY}"}, "topic: a topic name must consist of"),
        ({"kafka.acks": f"all kafka.sasl.password={CANARY}"}, "acks: must be 'all'"),
    ],
)
def test_no_name_or_value_that_may_be_a_part_of_a_secret_is_shown(given: dict[str, str], told: str) -> None:
    """A line of a key, or a password, in place of a name; options of several lines in one."""
    with pytest.raises(ConfigurationError) as refusal:
        read_options(SERVER | given)
    assert told in str(refusal.value)
    assert CANARY not in report(refusal.value)


def test_options_with_a_password_reach_executors() -> None:
    """Executors make the configuration again, and find the producer of the task before by it."""
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    given = {
        "kafka.bootstrap.servers": "localhost:9092",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": f'{module} required username="a" password="{CANARY}";',
        "topic": "orders",
    }
    for delivery in ("at-least-once", "exactly-once"):
        options = read_options({**given, "delivery": delivery})
        if options.is_exactly_once:
            options = with_time_for_a_job(options)
        received = pickle.loads(pickle.dumps(options))
        assert received == options
        assert {options.producer: delivery}[received.producer] == delivery
        assert CANARY not in repr(received)


def test_references_travel_in_place_of_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Executors read the value where they run; the options that Spark keeps have the reference."""
    (tmp_path / "password").write_text(f"{CANARY}\n")
    monkeypatch.setenv("KAFKA_USER", "etl")
    options = read_options(
        {
            **SERVER,
            "topic": "orders",
            "kafka.security.protocol": "SASL_SSL",
            "kafka.sasl.mechanism": "SCRAM-SHA-512",
            "kafka.sasl.username": "${env:KAFKA_USER}",
            "kafka.sasl.password": f"${{dir:{tmp_path}:password}}",
            "secrets.folders": str(tmp_path),
            "secrets.env": "KAFKA_.*",
        }
    )
    assert options.producer.sasl_username == "etl"
    assert now(options) == CANARY
    shipped = pickle.dumps(options)
    assert CANARY.encode() not in shipped
    (tmp_path / "password").write_text("another on that machine")
    assert now(pickle.loads(shipped)) == now(options) == "another on that machine"


def now(options: SinkOptions) -> str:
    """The password of the next authentication."""
    source = options.producer.sasl_password
    assert isinstance(source, SecretCall)
    assert isinstance(source.function, FileReference)
    return source.function()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "need the option secrets.folders or secrets.env"),
        ({"secrets.folders": "relative"}, "absolute paths"),
        ({"secrets.env": "("}, "regular expression"),
        ({"secrets.folders": "/run/secrets"}, "is not below a folder"),
    ],
)
def test_references_that_are_not_allowed(given: dict[str, str], words: str, tmp_path: Path) -> None:
    """The error has the name of the option and the reason."""
    (tmp_path / "password").write_text(CANARY)
    secured = {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.username": "a",
    }
    reference = {"kafka.sasl.password": f"${{dir:{tmp_path}:password}}"}
    with pytest.raises(ConfigurationError, match=words):
        read_options({**SERVER, **secured, **reference, **given})
