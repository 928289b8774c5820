"""The sink's options: what is understood, and what is said of what is not."""

from __future__ import annotations

import pickle

import pytest

from aioproducer import ConfigurationError
from aioproducer.spark.options import Guarantee, read_options, with_time_for_a_job

SERVER = {"kafka.bootstrap.servers": "localhost:9092"}
CANARY = "canary-7f3a"


def test_the_defaults() -> None:
    """At least once, headers included, what cannot be written fails the write."""
    options = read_options(SERVER | {"topic": "t", "checkpointlocation": "/tmp/x"})
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
    """Else a topic of that name would take the rows that were to fail the write."""
    options = read_options(
        SERVER | {"topic": "t", "on.error": word, "delivery": "Exactly-Once", "includeHeaders": "FALSE"}
    )
    assert (options.dead_letters, options.is_exactly_once, options.includes_headers) == (None, True, False)
    assert read_options(SERVER | {"topic": "t", "on.error": "failed"}).dead_letters == "failed"


def test_kafkas_own() -> None:
    """By their dotted names; they travel to the executors with the rest."""
    options = read_options(SERVER | {"kafka.linger.ms": "7", "kafka.Compression.Type": "zstd"})
    assert (options.producer.linger_ms, options.producer.compression_type) == (7, "zstd")
    assert pickle.loads(pickle.dumps(options)) == options


def test_a_job_may_take_as_long_as_brokers_allow() -> None:
    """Unless the user has said how long its transactions may be open."""
    given = SERVER | {"topic": "t", "delivery": "exactly-once"}
    assert with_time_for_a_job(read_options(given)).producer.transaction_timeout_ms == 900_000
    said = read_options(given | {"kafka.transaction.timeout.ms": "5000"})
    assert with_time_for_a_job(said).producer.transaction_timeout_ms == 5_000


@pytest.mark.parametrize(
    ("given", "told"),
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
        ({"kafka.transactional.id": "x"}, "sink.id or write.id"),
    ],
)
def test_what_is_wrong(given: dict[str, str], told: str) -> None:
    """With what to do."""
    with pytest.raises(ConfigurationError, match=told):
        read_options(SERVER | given)


def test_all_that_is_wrong_is_told_at_once() -> None:
    """Nobody has to start a job for each mistake."""
    with pytest.raises(ConfigurationError) as refusal:
        read_options({"delivry": "x", "topic": "", "kafka.linger.ms": "soon"})
    text = str(refusal.value)
    assert all(word in text for word in ("delivery", "topic", "linger.ms", "bootstrap.servers"))


def test_no_value_that_may_be_secret_is_shown() -> None:
    """Not in the text, and not in the locals of the frames that the error has passed, which Spark can be told to print."""
    with pytest.raises(ConfigurationError) as refusal:
        read_options({"kafka.sasl.jaas.config": f'x password="{CANARY}";', "kafka.ssl.key.password": CANARY})
    assert CANARY not in str(refusal.value)
    frame = refusal.value.__traceback__
    while frame is not None:
        if frame.tb_frame.f_code.co_name != "test_no_value_that_may_be_secret_is_shown":
            assert CANARY not in repr(frame.tb_frame.f_locals)
        frame = frame.tb_next
