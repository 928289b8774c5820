"""`aioproducer produce`, run as a user runs it."""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path

import pytest

from aioproducer.cli.connecting import configuration
from aioproducer.errors import ConfigurationError
from aioproducer.testing import EmbeddedKafka
from tests.cli.orders import SUMMARY, counts, produce, values
from tests.cli.program import ESCAPE, run, run_in_terminal


async def test_lines_of_files_arrive_in_order(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    """Every line of every file is a record; one partition has them in order; all acked is exit code 0."""
    lines = [b"line %d" % number for number in range(20_000)]
    (tmp_path / "a.txt").write_bytes(b"\n".join(lines[:15_000]))
    (tmp_path / "b.txt").write_bytes(b"\n".join(lines[15_000:]) + b"\n")
    done = await produce(kafka, "--partition", "1", tmp_path / "a.txt", tmp_path / "b.txt")
    assert (done.code, done.err, counts(done)) == (0, "", (20_000, 0, 0))
    assert values(kafka, 1) == lines


async def test_standard_input_with_keys_headers_and_tombstones(kafka: EmbeddedKafka) -> None:
    """Keys are cut off at the first separator, markers become null, and every record has the headers."""
    flags = (
        "--key-separator",
        r"\t",
        "--null-marker",
        "NULL",
        "-H",
        "app=shop",
        "-H",
        "app=web=2",
        "-z",
        "gzip",
    )
    done = await produce(kafka, *flags, "-p", "0", stdin=b"alice\t2\tapples\nbob\tNULL\n\tx\nNULL\t\n")
    assert (done.code, done.err) == (0, "")
    records = kafka.records("orders")
    pairs = [(record.key, record.value) for record in records]
    assert pairs == [(b"alice", b"2\tapples"), (b"bob", None), (b"", b"x"), (None, b"")]
    assert {tuple(record.headers) for record in records} == {(("app", b"shop"), ("app", b"web=2"))}


async def test_delimiter_and_empty_lines(kafka: EmbeddedKafka) -> None:
    """Lines end where the delimiter stands; empty ones are left out when asked; line ends are kept as they are."""
    done = await produce(kafka, "-D", r"\0", "--skip-empty", "-p", "0", "-", stdin=b"a\r\n\0\0b\0")
    assert (done.code, values(kafka)) == (0, [b"a\r\n", b"b"])


async def test_flags_that_are_not_utf8_are_the_bytes_that_were_given(kafka: EmbeddedKafka) -> None:
    """A header's value, a separator, a delimiter and a marker are bytes: not all of them are text."""
    odd = os.fsdecode(b"\xff")
    flags = ("-p", "0", "-D", odd, "-K", f"{odd}:", "--null-marker", f"{odd}!", "-H", f"h={odd}")
    done = await produce(kafka, *flags, stdin=b"")
    assert (done.code, done.err, counts(done)) == (0, "", (0, 0, 0))
    done = await produce(kafka, "-p", "0", "-K", odd, "-H", f"h={odd}", stdin=b"k\xffv\n")
    assert (done.code, done.err) == (0, "")
    [record] = kafka.records("orders")
    assert (record.key, record.value, tuple(record.headers)) == (b"k", b"v", (("h", b"\xff"),))


async def test_json_lines_tell_everything(kafka: EmbeddedKafka) -> None:
    """JSON lines set topic, key, value, headers, partition and time; what they leave out is as the flags say."""
    kafka.create_topic("other")
    lines = (
        b'{"topic": "other", "key": "k", "value": {"n": 1}, "headers": {"h": "v"}, "timestamp": 1700000000000}\n'
        b"\n"
        b'{"value_base64": "AAH/", "partition": 1, "timestamp": "2023-11-14T22:13:20Z"}\n'
    )
    done = await produce(kafka, "--format", "jsonl", "-H", "app=shop", stdin=lines)
    assert (done.code, done.err, counts(done)) == (0, "", (2, 0, 0))
    (other,), (record,) = kafka.records("other"), kafka.records("orders", 1)
    assert (other.key, other.value, other.timestamp) == (b"k", b'{"n":1}', 1_700_000_000_000)
    assert list(other.headers) == [("app", b"shop"), ("h", b"v")]
    assert (record.key, record.value, record.timestamp) == (None, b"\x00\x01\xff", 1_700_000_000_000)


async def test_failures_are_named_and_the_rest_goes_on(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    """With --on-error continue each wrong line is named with file, line and reason, and all others are sent."""
    file = tmp_path / "users.txt"
    file.write_bytes(b"a:1\nbad\nb:2\nc:" + b"x" * 2000 + b"\nd:4")
    limit = ("-X", "max.request.size=1000")
    done = await produce(kafka, "--on-error", "continue", "-K", ":", "-p", "0", *limit, file)
    assert (done.code, counts(done)) == (1, (3, 2, 0))
    assert values(kafka) == [b"1", b"2", b"4"]
    no_key, too_large = done.err.splitlines()
    assert no_key == f"{file}:2: has no key separator ':'"
    assert too_large.startswith(f"{file}:4: the record is too large")


@pytest.mark.parametrize("name", ["sasl.password", "sasl_jaas_config", "ssl.key.password"])
async def test_secrets_are_no_arguments(kafka: EmbeddedKafka, name: str) -> None:
    """Other users of the machine see the command line; the message does not repeat the secret."""
    done = await produce(kafka, "-X", f"{name}=canary-7", stdin=b"1\n")
    assert done.code == 2
    assert "put it into the file of --config" in done.err
    assert "canary" not in done.err


def test_the_places_of_secrets_are_arguments() -> None:
    """A path, a URL and certificates are none themselves; a key in their place is refused without being shown."""
    given = {
        "bootstrap.servers": "localhost:9093",
        "security.protocol": "SSL",
        "ssl.truststore.location": "/etc/kafka/ca.pem",
    }
    assert configuration(None, given).ssl_truststore_location == "/etc/kafka/ca.pem"
    with pytest.raises(ConfigurationError) as caught:
        configuration(None, given | {"ssl.keystore.location": "-----BEGIN PRIVATE KEY----- canary-7"})
    assert "canary" not in str(caught.value)


async def test_a_file_may_refer_to_secrets_below_the_folders_that_are_given(tmp_path: Path) -> None:
    """`--secrets` allows a folder; without it a reference is an error, which names no value."""
    folder = tmp_path / "secrets"
    folder.mkdir()
    (folder / "password").write_text("canary-7\n")
    async with EmbeddedKafka(users={"alice": "canary-7"}, mechanisms=("SCRAM-SHA-256",)) as kafka:
        kafka.create_topic("orders", 1)
        file = tmp_path / "client.properties"
        file.write_text(
            f"bootstrap.servers={kafka.bootstrap_servers}\nsecurity.protocol=SASL_PLAINTEXT\n"
            f"sasl.mechanism=SCRAM-SHA-256\nsasl.username=alice\nsasl.password=${{dir:{folder}:password}}\n"
        )
        command = ("produce", "--config", file, "-t", "orders")
        done = await run(*command, "--secrets", folder, stdin=b"1\n")
        assert (done.code, values(kafka)) == (0, [b"1"])
        refused = await run(*command, stdin=b"1\n")
    assert refused.code != 0
    assert "sasl.password: ${dir:…} has no provider: with --secrets FOLDER" in refused.err
    assert "from_properties" not in refused.err
    assert "canary" not in refused.err


async def test_first_failure_is_the_end(kafka: EmbeddedKafka) -> None:
    """Unless told otherwise, nothing that follows a wrong line is sent, and what preceded it is."""
    lines = b'{"value": "1"}\n{"valeu": "2"}\n{"value": "3"}\n'
    done = await produce(kafka, "--format", "jsonl", stdin=lines)
    assert (done.code, counts(done), values(kafka)) == (1, (1, 1, 0), [b"1"])
    assert done.err.startswith('stdin:2: has the unknown field "valeu"; the fields are topic, key, ')


async def test_lines_that_a_broker_refuses_are_named_together(kafka: EmbeddedKafka) -> None:
    """Neighbouring lines with the same fate are one complaint, which says whether they are in the log."""
    kafka.faults.error("TOPIC_AUTHORIZATION_FAILED", times=None)
    done = await produce(kafka, "-p", "0", stdin=b"1\n2\n3\n")
    assert (done.code, counts(done)) == (1, (0, 3, 0))
    (complaint,) = done.err.splitlines()
    assert complaint.startswith("stdin:1-3: ")
    assert "not authorized" in complaint.lower() or "TOPIC_AUTHORIZATION_FAILED" in complaint


async def test_missing_broker_is_told_in_time(unused_port: int) -> None:
    """Without a listener at the address it ends within --wait, with exit code 1 and one line that names the address."""
    address = f"127.0.0.1:{unused_port}"
    done = await run("produce", "-b", address, "-t", "orders", "--wait", "0.3", stdin=b"1\n")
    assert (done.code, done.out) == (1, "")
    (complaint,) = done.err.splitlines()
    assert complaint.startswith(f"aioproducer: no broker answered ({address})")


async def test_missing_topic_is_told_in_time(kafka: EmbeddedKafka) -> None:
    """A topic that does not become known within --wait is named, and nothing is read."""
    done = await run("produce", "-b", kafka.bootstrap_servers, "-t", "ordres", "--wait", "0.3")
    assert (done.code, done.out) == (1, "")
    (complaint,) = done.err.splitlines()
    assert complaint.startswith(
        "aioproducer: no broker returned metadata of the topic: check that the topic exists (topic 'ordres'"
    )
    assert "UNKNOWN_TOPIC_OR_PARTITION" in complaint


async def test_missing_partition_is_told_soon(kafka: EmbeddedKafka) -> None:
    """A partition that the topic does not have ends it with one line that says how many there are."""
    async with asyncio.timeout(20):  # far from max.block.ms, a minute
        done = await produce(kafka, "-p", "17", stdin=b"1\n2\n")
    assert (done.code, counts(done)) == (1, (0, 1, 0))
    (complaint,) = done.err.splitlines()
    assert complaint.startswith("stdin:1: the partition does not exist (topic 'orders', partition 17, ")
    assert "the topic has 2 partitions" in complaint


async def test_properties_come_before_the_file(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    """A client.properties works as it is; a property on the command line replaces that of the file."""
    file = tmp_path / "client.properties"
    file.write_text(f"bootstrap.servers={kafka.bootstrap_servers}\nclient.id=file\nacks=all\nlinger.ms=1\n")
    done = await run("produce", "--config", file, "-X", "client.id=flag", "-t", "orders", stdin=b"1\n")
    assert (done.code, values(kafka)) == (0, [b"1"])
    assert {request.client_id for request in kafka.requests} == {"flag"}


async def test_transactional_id_is_refused(kafka: EmbeddedKafka) -> None:
    """Nothing begins or commits transactions here: the property is a wrong use, in one line, and nothing is sent."""
    where = ("--bootstrap-server", kafka.bootstrap_servers, "--topic", "orders")
    done = await run("produce", *where, "--property", "transactional.id=shop-1", stdin=b"1\n")
    assert (done.code, done.out) == (2, "")
    assert done.err.splitlines() == [
        "aioproducer: transactional.id: this command does not use transactions; remove it; see 'aioproducer produce --help'"
    ]
    assert kafka.records("orders") == []


async def test_progress_on_demand_is_plain_lines(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    """A pipe gets no progress unless asked, then a line each second on stderr; never an escape code."""
    hold = kafka.faults.delay(1.3)
    done = await produce(kafka, "--progress", stdin=b"1\n")
    assert hold.hits == 1
    assert (done.code, done.err) == (0, "sending: 2 bytes read, 0 acked\n")
    assert ESCAPE not in done.out


@pytest.mark.parametrize("columns", [80, 120])
async def test_terminal_shows_a_bar_that_fits(kafka: EmbeddedKafka, tmp_path: Path, columns: int) -> None:
    """In a terminal a bar as wide as the terminal shows how much is read; the summary is left."""
    file = tmp_path / "orders.txt"
    file.write_bytes(b"line\n" * 1000)
    arguments = ("produce", "-b", kafka.bootstrap_servers, "-t", "orders", file)
    code, drawn = await run_in_terminal(*arguments, columns=columns)
    assert code == 0
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", drawn)
    bars = [line for line in re.split(r"[\r\n]+", plain) if line.startswith("sending")]
    assert {len(bar) for bar in bars} == {columns}
    assert "100% 5.0 kB read, 1,000 acked" in bars[-1]
    assert SUMMARY.search(plain.replace("\r\n", "\n"))


async def test_dead_letters(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    """A line that can never be written is set aside: it is counted as such, and all is well."""
    kafka.create_topic("dead", 1)
    (tmp_path / "lines").write_bytes(b"a\n" + b"x" * 2_000_000 + b"\nb\n")
    done = await produce(kafka, "-p", "0", "--dead-letters", "dead", tmp_path / "lines")
    assert (done.code, done.err) == (0, "")
    assert "2 acked, 0 not written, 0 unknown, 1 set aside in" in done.out
    assert values(kafka) == [b"a", b"b"]
    (letter,) = kafka.records("dead")
    assert dict(letter.headers)["aioproducer.value.bytes"] == b"2000000"


async def test_what_is_not_set_aside(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    """Other failures are named as without dead letters."""
    kafka.create_topic("dead", 1)
    kafka.faults.error("TOPIC_AUTHORIZATION_FAILED", api="Produce", topic="orders", times=None)
    (tmp_path / "lines").write_bytes(b"a\n")
    done = await produce(kafka, "-p", "0", "--dead-letters", "dead", tmp_path / "lines")
    assert (done.code, "TOPIC_AUTHORIZATION_FAILED" in done.err) == (1, True)
    assert "0 acked, 1 not written, 0 unknown, 0 set aside in" in done.out
