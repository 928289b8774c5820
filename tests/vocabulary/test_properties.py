"""Properties: Java's file format, Kafka's names, and the errors for those that only a JVM can honour."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from aioproducer.config import SETTINGS, ProducerConfig
from aioproducer.config.java_properties import parse_properties
from aioproducer.config.refused import refuses_kafka
from aioproducer.config.table import DERIVED, SAME
from aioproducer.errors import ConfigurationError
from aioproducer.serializers import string
from tests.reports import kept, report
from tests.seeds import fresh_seed

HERE = Path(__file__).parent
SERVER = {"bootstrap.servers": "localhost:9092"}
KAFKA: dict[str, dict[str, Any]] = json.loads((HERE / "producer_config_4.3.1.json").read_text("utf-8"))
JVM = "org.apache.kafka.common.serialization."


def the_problem(**settings: Any) -> str:
    properties = {**SERVER, **settings}
    with pytest.raises(ConfigurationError) as caught:
        ProducerConfig.from_properties(properties)
    (line,) = caught.value.problems
    return line


# ---- Java's format


def pairs_in(text: str) -> dict[str, str]:
    return {name: line.value for name, line in parse_properties(text).items()}


def test_file_is_read_as_java_reads_it() -> None:
    """A file of every oddity of the format gives the pairs that `java.util.Properties` gave for it."""
    text = (HERE / "nasty.properties").read_bytes().decode()
    assert pairs_in(text) == json.loads((HERE / "nasty.properties.json").read_text("utf-8"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a=1\nb=\\u12", "line 2: \\u requires four hexadecimal digits"),
        ("a=1\n\nb=x\\\n \\uzzzz", "line 3: \\u requires four"),
        ("a=\\ud83d", "line 1: incomplete surrogate pair"),
    ],
)
def test_broken_escapes_name_the_line(text: str, words: str, tmp_path: Path) -> None:
    """An escape that Java refuses is refused, with the file and the line where the pair begins."""
    path = tmp_path / "client.properties"
    path.write_text(text)
    with pytest.raises(ConfigurationError) as caught:
        ProducerConfig.from_properties(path)
    assert words in str(caught.value)
    assert "client.properties" in str(caught.value)


def test_any_text_is_pairs_or_a_clear_error() -> None:
    """Random text of the format's own characters is parsed, or refused with a line number; nothing else happens."""
    rng = random.Random(fresh_seed())
    for _ in range(3_000):
        text = "".join(rng.choices("\\\n\r\t =:#!ua0é", k=rng.randrange(24)))
        complaint = _complaint(text)
        assert not complaint or complaint.startswith("line "), text


def _complaint(text: str) -> str:
    try:
        parse_properties(text)
    except ValueError as error:
        return str(error)
    return ""


def test_pairs_survive_being_escaped() -> None:
    """Any key and value, written with everything escaped, is read back."""
    rng = random.Random(fresh_seed())
    pairs = {
        "".join(rng.choices("a=: \\#é😀\t", k=5)): "".join(rng.choices("b=: \\!ü😀\n", k=5))
        for _ in range(200)
    }
    text = "\n".join(f"{_escaped(key)}={_escaped(value)}" for key, value in pairs.items())
    assert pairs_in(text) == pairs


def _escaped(text: str) -> str:
    units = text.encode("utf-16-be")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_file_is_utf8(mark: bytes, tmp_path: Path) -> None:
    """Text beyond ASCII needs no escapes, and a byte order mark is no part of the first name."""
    path = tmp_path / "client.properties"
    path.write_bytes(mark + "client.id=zähler\nbootstrap.servers=a:1\n".encode())
    assert ProducerConfig.from_properties(path).client_id == "zähler"
    assert ProducerConfig.from_properties(str(path)).client_id == "zähler"


def test_file_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    """Java's old encoding is recognized; the error says how to write it."""
    path = tmp_path / "client.properties"
    path.write_bytes("client.id=zähler\n".encode("latin-1"))
    with pytest.raises(ConfigurationError, match="not UTF-8"):
        ProducerConfig.from_properties(path)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"client.id=z\xe4hler", "not UTF-8"),
        (b"client.id=\\u12", "four hexadecimal digits"),
        (b"client.id=\\ud800", "incomplete surrogate"),
    ],
    ids=["Latin-1", "a short escape", "half a pair"],
)
def test_an_error_about_a_file_keeps_no_password(line: bytes, problem: str, tmp_path: Path) -> None:
    """Neither in its text, nor in the errors and frames that it keeps."""
    path = tmp_path / "client.properties"
    path.write_bytes(b"sasl.password=CANARY\n" + line + b"\n")
    with pytest.raises(ConfigurationError, match=problem) as caught:
        ProducerConfig.from_properties(path)
    assert "CANARY" not in report(caught.value)
    assert all(b"CANARY" not in repr(each.args).encode() for each in kept(caught.value))


def test_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    """A missing file is a configuration error with its path and the system's reason."""
    with pytest.raises(ConfigurationError, match="nowhere: reading the file failed: No such file") as caught:
        ProducerConfig.from_properties(tmp_path / "nowhere")
    assert isinstance(caught.value.cause, FileNotFoundError)


# ---- Kafka's names


def test_existing_client_properties_work(tmp_path: Path) -> None:
    """A file written for the Java producer is taken as it is."""
    path = tmp_path / "client.properties"
    path.write_text("""
# our cluster
bootstrap.servers = kafka-1:9092, \\
                    kafka-2:9092
acks=all
linger.ms: 20
enable.idempotence=TRUE
compression.type=zstd
compression.zstd.level=7
compression.gzip.level=1
max.in.flight.requests.per.connection 3
metadata.recovery.strategy=NONE
security.protocol=PLAINTEXT
enable.metrics.push=false
interceptor.classes=
""")
    assert ProducerConfig.from_properties(path) == ProducerConfig(
        "kafka-1:9092,kafka-2:9092",
        linger_ms=20,
        compression_type="zstd",
        compression_level=7,
        max_in_flight_requests_per_connection=3,
        metadata_recovery_strategy="none",
        enable_metrics_push=False,
    )


@pytest.mark.parametrize("name", KAFKA)
def test_every_property_of_kafka_is_a_setting_or_is_refused(name: str) -> None:
    """Each property of the Java producer is in the table under its name, or refused with a reason; never both."""
    row = SETTINGS.get(name.replace(".", "_"))
    assert (row is not None and row.is_kafkas) != refuses_kafka(name)


def test_every_setting_that_claims_to_be_kafkas_is() -> None:
    """No setting of the table has a Kafka name that the Java producer does not know."""
    assert {row.dotted for row in SETTINGS.values() if row.is_kafkas} <= KAFKA.keys()


@pytest.mark.parametrize("name", [name for name, row in SETTINGS.items() if row.is_kafkas])
def test_defaults_are_kafkas_or_say_what_kafkas_is(name: str) -> None:
    """A default equals the Java producer's; one that does not tells Kafka's own, and a reason where it matters."""
    row, kafka = SETTINGS[name], KAFKA[SETTINGS[name].dotted]
    if kafka["required"]:
        assert row.kafka_default is not SAME
    elif row.kafka_default is SAME:
        default = row.default
        assert (list(default) if isinstance(default, tuple) else default) == kafka["default"]
    else:
        assert row.kafka_default == kafka["default"]
        assert row.differs or row.default is DERIVED or row.name == "acks"


@pytest.mark.parametrize("name", [name for name, row in SETTINGS.items() if row.is_kafkas])
def test_kafkas_own_default_is_accepted(name: str) -> None:
    """Writing the Java producer's default into a file is never an error (an empty client id is left out instead)."""
    default = KAFKA[SETTINGS[name].dotted]["default"]
    if default in (None, ""):
        return
    if isinstance(default, list):
        default = ",".join(default)
    text = str(default).lower() if isinstance(default, bool) else str(default)
    assert ProducerConfig.from_properties({**SERVER, SETTINGS[name].dotted: text}).client_id == "aioproducer"


@pytest.mark.parametrize(
    ("name", "value", "line"),
    [
        ("linger.ms", "soon", "linger.ms='soon': must be a whole number of milliseconds, not str"),
        ("linger.ms", "5.0", "linger.ms='5.0': must be a whole number"),
        ("linger.ms", "1_000", "linger.ms='1_000': must be a whole number"),
        ("linger.ms", "-1", "linger.ms='-1': must be 0 or more"),
        ("linger.ms", "9" * 5000, "must be a whole number"),
        ("linger.ms", "", "linger.ms='': must be a whole number"),
        ("enable.idempotence", "yes", "enable.idempotence='yes': must be True or False"),
        ("acks", "2", "acks='2': must be 'all'"),
        ("linger_mz", "5", "did you mean linger_ms?"),
        ("linger.mz", "5", "linger.mz: no such setting; did you mean linger.ms?"),
        ("group.id", "g", "group.id: no such setting; remove it"),
        ("key.serializer", JVM + "StringSerializer", "pass key_serializer=aioproducer.serializers.string()"),
        ("value.serializer", JVM + "ByteArraySerializer", "remove value_serializer"),
        ("value.serializer", "com.example.Avro", "pass a callable as value_serializer="),
        (
            "partitioner.class",
            "org.apache.kafka.clients.producer.RoundRobinPartitioner",
            "partitioner='round_robin'",
        ),
        ("partitioner.class", "com.example.Mine", "or a callable"),
        ("interceptor.classes", "com.example.Mine", "use interceptors="),
        ("metric.reporters", "com.example.Mine", "producer.stats()"),
        ("security.protocol", "TLS", "must be one of 'PLAINTEXT', 'SSL', 'SASL_PLAINTEXT', 'SASL_SSL'"),
        ("transactional.id", "", "transactional.id='': must be a printable string"),
        ("transaction.two.phase.commit.enable", "true", "two-phase commit (KIP-939) is not implemented"),
        ("config.providers", "file", "pass each provider: from_properties"),
        ("config.providers.file.class", "a.b.C", "pass each provider: from_properties"),
        ("interceptors", "mine", "must be a sequence of objects"),
    ],
)
def test_properties_that_cannot_be(name: str, value: str, line: str) -> None:
    """The error of an impossible property has its dotted name, and the alternative."""
    problem = the_problem(**{name: value})
    assert problem.startswith(name)
    assert line in problem


@pytest.mark.parametrize(
    ("mechanism", "name", "value", "line"),
    [
        ("OAUTHBEARER", "ssl.engine.factory.class", "com.example.Mine", "use ssl_context"),
        ("OAUTHBEARER", "sasl.login.class", "com.example.Mine", "use sasl_token_provider"),
        ("GSSAPI", "sasl.kerberos.principal.to.local.rules", "DEFAULT", "only brokers map principals"),
        (
            "OAUTHBEARER",
            "sasl.oauthbearer.token.endpoint.url",
            "https://canary",
            "pass sasl_oauthbearer_allowed",
        ),
        ("OAUTHBEARER", "sasl.oauthbearer.allowed.urls", "https://canary", "an argument only, no property"),
        (
            "OAUTHBEARER",
            "sasl.oauthbearer.assertion.private.key.passphrase",
            "canary",
            "requires sasl_oauthbearer_token_endpoint_url",
        ),
        ("PLAIN", "sasl.jaas.config", "canary", "sasl.jaas.config: it ends where a flag"),
        ("PLAIN", "sasl.pasword", "canary", "did you mean sasl.password?"),
    ],
)
def test_security_properties_that_cannot_be(mechanism: str, name: str, value: str, line: str) -> None:
    """They are refused with the protocol and mechanism that Java reads them for; no line has a secret."""
    given = {**SERVER, "security.protocol": "SASL_SSL", "sasl.mechanism": mechanism, name: value}
    with pytest.raises(ConfigurationError) as caught:
        ProducerConfig.from_properties(given)
    names = (name, name.replace(".", "_"))
    assert any(problem.startswith(names) and line in problem for problem in caught.value.problems)
    assert "canary" not in str(caught.value)


def test_all_problems_are_told_at_once() -> None:
    """Problems of the properties, of the overrides and between them come in one error."""
    with pytest.raises(ConfigurationError) as caught:
        ProducerConfig.from_properties({"linger.mz": "1", "acks": "1", "batch.size": "x"}, client_id="")
    begin = {line.split(":")[0].split("=")[0] for line in caught.value.problems}
    assert begin == {"linger.mz", "acks", "batch.size", "client_id", "bootstrap.servers is missing"}


def test_wrong_servers_are_not_called_missing() -> None:
    """An invalid server address is one problem, with its dotted name."""
    assert the_problem(**{"bootstrap.servers": "localhost"}).startswith(
        "bootstrap.servers: 'localhost' has no port"
    )


def test_overrides_take_the_place_of_properties() -> None:
    """A keyword argument wins over its property, also where the property could not be honoured."""
    encode = string()
    config = ProducerConfig.from_properties(
        {
            "bootstrap.servers": "localhost",
            "value.serializer": JVM + "StringSerializer",
            "partitioner.class": "com.example.Mine",
            "linger.ms": "soon",
        },
        bootstrap_servers="b:2",
        value_serializer=encode,
        partitioner="random",
        linger_ms=1,
    )
    assert config == ProducerConfig("b:2", value_serializer=encode, partitioner="random", linger_ms=1)


@pytest.mark.parametrize(
    ("properties", "level"),
    [
        ({"compression.type": "gzip", "compression.gzip.level": "-1"}, None),
        ({"compression.type": "lz4", "compression.lz4.level": "3", "compression.zstd.level": "99"}, 3),
        ({"compression.zstd.level": "3"}, None),
        ({"compression.type": "zstd", "compression.zstd.level": "-5"}, -5),
        ({"compression.type": "zstd", "compression.level": "6"}, 6),
    ],
)
def test_level_of_the_type_in_use_counts(properties: dict[str, str], level: int | None) -> None:
    """Of Kafka's three levels, the one of the type in use is taken; gzip's -1 is its default."""
    assert ProducerConfig.from_properties(SERVER | properties).compression_level == level


def test_level_follows_an_overridden_type() -> None:
    """The type in use is the overriding one."""
    properties = {
        **SERVER,
        "compression.type": "gzip",
        "compression.gzip.level": "1",
        "compression.lz4.level": "12",
    }
    assert ProducerConfig.from_properties(properties, compression_type="lz4").compression_level == 12


def test_mapping_may_hold_python_values() -> None:
    """A mapping in the style of other Python clients, with numbers and bools, is taken, and is left as it was."""
    properties = {**SERVER, "linger.ms": 7, "enable.idempotence": False, "acks": 1, "topics": "a, b"}
    before = dict(properties)
    config = ProducerConfig.from_properties(properties)
    assert (config.linger_ms, config.enable_idempotence, config.acks, config.topics) == (
        7,
        False,
        1,
        ("a", "b"),
    )
    assert properties == before


def test_own_settings_have_dotted_names_too() -> None:
    """Settings that only this library has are written in a file in the same way."""
    config = ProducerConfig.from_properties({**SERVER, "close.timeout.ms": "10", "linger.awaited": "true"})
    assert (config.close_timeout_ms, config.linger_awaited) == (10, True)


@pytest.mark.parametrize(
    "name",
    ["sasl.pasword", "bootstrap.servers"],
)
def test_secrets_in_properties_are_not_repeated(name: str) -> None:
    """The text never has the value of a refused property, or the password in an address."""
    problem = the_problem(**{name: "x:canary-secret@b"})
    assert "canary-secret" not in problem


def test_no_value_is_looked_up_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable of the environment is replaced neither in a property nor in an argument; a reference needs a provider."""
    monkeypatch.setenv("HOST", "elsewhere")
    assert (
        ProducerConfig.from_properties({**SERVER, "client.id": "${HOST} $HOST"}).client_id == "${HOST} $HOST"
    )
    assert ProducerConfig("localhost:9092", client_id="${env:HOST}").client_id == "${env:HOST}"
    with pytest.raises(ConfigurationError, match="only by a provider that the application passes"):
        ProducerConfig.from_properties({**SERVER, "client.id": "${env:HOST}"})


@pytest.mark.parametrize("given", [5, None, b"client.properties", [("acks", "all")]])
def test_neither_a_mapping_nor_a_path(given: Any) -> None:
    """It is refused like every other setting that makes no sense."""
    with pytest.raises(ConfigurationError, match=f"not {type(given).__name__}"):
        ProducerConfig.from_properties(given)
