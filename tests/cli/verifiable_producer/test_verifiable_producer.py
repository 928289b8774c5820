"""`aioproducer verifiable-producer`: its flags and lines, on an embedded Kafka."""

from __future__ import annotations

import asyncio
import errno
import io
import json
import os
import signal
import sys
import time
from asyncio.subprocess import Process
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TextIO

import click
import pytest

from aioproducer import Producer, ProducerConfig
from aioproducer.cli import main
from aioproducer.cli.pace import Pace
from aioproducer.cli.terminal.screen import Screen
from aioproducer.cli.verifiable_producer.command import as_kafka_does, command, job_of
from aioproducer.cli.verifiable_producer.events import Events
from aioproducer.cli.verifiable_producer.run import verify
from aioproducer.testing import EmbeddedKafka
from tests.api.support import until
from tests.cli.program import Ended, ended, run, start
from tests.cli.verifiable_producer.lines import Told

COMMAND = "verifiable-producer"
SERVER = ["--bootstrap-server", "localhost:9092"]


Verified = Callable[..., Awaitable[Told]]


@pytest.fixture
def verified(kafka: EmbeddedKafka, capsys: pytest.CaptureFixture[str]) -> Verified:
    """Runs the command to its end, in this process; its lines are as they must be."""

    async def ran(*flags: str | Path) -> Told:
        where = ["--bootstrap-server", kafka.bootstrap_servers, "--topic", "orders"]
        context = command.make_context(COMMAND, [*where, *map(str, flags)])
        assert await verify(job_of(**context.params), Screen()) == 0
        return judged(capsys.readouterr().out)

    return ran


def judged(out: str) -> Told:
    """The lines, which are as they must be."""
    found = Told.read(out)
    found.check()
    return found


def told(done: Ended) -> Told:
    """The lines of a run that ended well."""
    assert done.code == 0, done
    return judged(done.out)


def written(kafka: EmbeddedKafka) -> set[tuple[int, int, bytes | None, bytes | None]]:
    """The records of the topic, with their places."""
    return {(each.partition, each.offset, each.key, each.value) for each in kafka.records("orders")}


async def test_numbers_are_sent_and_told(kafka: EmbeddedKafka, verified: Verified) -> None:
    """The values are 0, 1, 2, ... without a key; each line has the place of its record, and its fields in order."""
    found = await verified("--max-messages", "300")
    assert {event["value"] for event in found.acked} == {str(number) for number in range(300)}
    assert {
        (event["partition"], event["offset"], event["key"], event["value"].encode()) for event in found.acked
    } == written(kafka)
    fields = ["timestamp", "name", "key", "value", "topic", "partition", "offset"]
    assert {tuple(event) for event in found.acked} == {tuple(fields)}
    assert {event["topic"] for event in found.acked} == {"orders"}
    assert list(found.data) == ["timestamp", "name", "sent", "acked", "target_throughput", "avg_throughput"]
    assert found.data["target_throughput"] == -1
    assert found.data["avg_throughput"] > 0


async def test_prefix_and_repeating_keys(kafka: EmbeddedKafka, verified: Verified) -> None:
    """Values are PREFIX.N, keys are 0 to N-1 again and again, as strings."""
    found = await verified("--max-messages", "7", "--value-prefix", "-5", "--repeating-keys", "3")
    pairs = {(event["key"], event["value"]) for event in found.acked}
    assert pairs == {(str(number % 3), f"-5.{number}") for number in range(7)}
    assert {(key, value) for _, _, key, value in written(kafka)} == {
        (key.encode(), value.encode()) for key, value in pairs
    }


async def test_create_time(kafka: EmbeddedKafka, verified: Verified) -> None:
    """The first record has the time of the flag, later ones are later by the time that has passed."""
    began = time.monotonic()
    await verified("--max-messages", "20", "--throughput", "200", "--message-create-time", "1000")
    passed = (time.monotonic() - began) * 1000
    records = sorted(kafka.records("orders"), key=lambda each: int(each.value or b""))
    times = [each.timestamp for each in records]
    assert times[0] == 1000
    assert times == sorted(times)
    assert 1000 + 90 <= times[-1] <= 1000 + passed


async def test_nothing_to_send(kafka: EmbeddedKafka, verified: Verified) -> None:
    """Without a record there are the three other lines."""
    found = await verified("--max-messages", "0")
    assert [event["name"] for event in found.events] == ["startup_complete", "shutdown_complete", "tool_data"]
    assert (found.data["sent"], found.data["avg_throughput"]) == (0, 0.0)


FLAGS = {"bootstrap.servers": "a:1", "acks": "-1", "retries": "0"}


@pytest.mark.parametrize(
    ("flags", "file", "added"),
    [
        ({}, {}, {"enable.idempotence": "false"}),
        ({"acks": "1"}, {"retries": "9"}, {"enable.idempotence": "false"}),
        ({}, {"retries": "9"}, {}),
        ({"acks": "0"}, {"retries": "9", "acks": " ALL "}, {}),
        ({}, {"retries": "9", "max.in.flight.requests.per.connection": "5"}, {}),
        ({}, {"retries": "9", "max.in.flight.requests.per.connection": "6"}, {"enable.idempotence": "false"}),
        ({}, {"enable.idempotence": "true"}, {}),
        ({}, {"retries": "9", "value.serializer": "org.example.Mine", "linger.ms": "7"}, {}),
    ],
)
def test_settings_are_those_of_kafkas_tool(
    flags: dict[str, str], file: dict[str, str], added: dict[str, str]
) -> None:
    """No retries by themselves; the file wins; idempotence is off where Java turns it off; values are strings."""
    expected = FLAGS | flags | file | added
    expected.pop("value.serializer", None)
    assert as_kafka_does(FLAGS | flags, file) == expected


async def test_nothing_is_repeated_by_itself(kafka: EmbeddedKafka, verified: Verified) -> None:
    """Without a file the producer is not idempotent, as Kafka's tool with its retries=0."""
    await verified("--max-messages", "1")
    assert not [each for each in kafka.requests if each.api == "InitProducerId"]


async def test_no_acks(kafka: EmbeddedKafka, verified: Verified) -> None:
    """Without acknowledgements each record counts as acked, and its place is not known."""
    found = await verified("--max-messages", "3", "--acks", "0")
    assert [event["offset"] for event in found.acked] == [-1, -1, -1]


async def test_the_file_wins_over_the_flags(kafka: EmbeddedKafka, verified: Verified, tmp_path: Path) -> None:
    """A properties file replaces what the flags say, also the addresses; Java's serializers in it change nothing."""
    file = tmp_path / "producer.properties"
    file.write_text(
        f"bootstrap.servers={kafka.bootstrap_servers}\nacks=all\nretries=1000\nclient.id=from-the-file\n"
        "key.serializer=org.apache.kafka.common.serialization.StringSerializer\n"
        "value.serializer=org.apache.kafka.common.serialization.StringSerializer\n"
    )
    flags = ("--broker-list", "127.0.0.1:1", "--acks", "0", "--max-messages", "2", "--producer.config", file)
    found = await verified(*flags)
    assert [event["offset"] >= 0 for event in found.acked] == [True, True]
    # acks=all with retries: the producer is idempotent, as Java's is then.
    assert [each.client_id for each in kafka.requests if each.api == "InitProducerId"] == ["from-the-file"]


async def test_failures_are_told_and_end_with_zero(kafka: EmbeddedKafka, verified: Verified) -> None:
    """A refused record has a line with the class, the text and the outcome of its error; nothing is sent again."""
    kafka.create_topic("small", max_message_bytes=10)
    found = await verified("--topic", "small", "--max-messages", "2", "--throughput", "5")
    fields = ["timestamp", "name", "key", "value", "topic", "exception", "message", "outcome"]
    assert [list(event) for event in found.failed] == [fields, fields]
    facts = {(event["exception"], event["topic"], event["outcome"]) for event in found.failed}
    assert facts == {("RefusedAsTooLargeError", "small", "not_written")}
    assert all("MESSAGE_TOO_LARGE" in event["message"] for event in found.failed)
    assert (found.data["sent"], found.data["acked"], found.data["target_throughput"]) == (2, 0, 5)
    assert len([each for each in kafka.requests if each.api == "Produce"]) == 2


async def test_a_record_that_may_be_written_is_unknown(kafka: EmbeddedKafka, verified: Verified) -> None:
    """Without retries, an answer that is lost leaves its records open."""
    kafka.faults.cut(api="Produce", before=False)
    found = await verified("--max-messages", "1")
    assert [event["outcome"] for event in found.failed] == ["unknown"]
    assert len(written(kafka)) == 1


async def test_a_missing_topic_is_told(verified: Verified, tmp_path: Path) -> None:
    """A call that is refused before acceptance has a line as well, and the next ones go on."""
    file = tmp_path / "producer.properties"
    file.write_text("max.block.ms=50\n")
    found = await verified("--topic", "nowhere", "--max-messages", "3", "--command-config", file)
    facts = [(event["value"], event["exception"], event["outcome"]) for event in found.failed]
    assert facts == [(str(number), "MetadataTimeoutError", "not_written") for number in range(3)]


async def test_the_program_ends_by_itself(kafka: EmbeddedKafka) -> None:
    """As a program: the lines on stdout, nothing on stderr, and 0."""
    where = ("--bootstrap-server", kafka.bootstrap_servers, "--topic", "orders")
    done = await run(COMMAND, *where, "--max-messages", "100")
    assert done.err == ""
    assert len(told(done).acked) == 100


async def begun(kafka: EmbeddedKafka, *flags: str | Path) -> Process:
    """A run without an end."""
    return await start(COMMAND, "--bootstrap-server", kafka.bootstrap_servers, "--topic", "orders", *flags)


async def lines(process: Process, count: int) -> list[str]:
    """The next lines that it has printed; each is there as soon as it is known."""
    assert process.stdout is not None
    return [(await process.stdout.readline()).decode() for _ in range(count)]


async def stopped(process: Process, first: list[str], how: signal.Signals) -> Told:
    """Stop it, and read the rest."""
    process.send_signal(how)
    done = await ended(process)
    return told(Ended(done.code, "".join(first) + done.out, done.err))


@pytest.mark.parametrize(("how", "rate"), [(signal.SIGINT, "50"), (signal.SIGTERM, "-1")])
async def test_a_signal_ends_it_well(kafka: EmbeddedKafka, how: signal.Signals, rate: str) -> None:
    """After the signal no number is sent, every number that was sent has its outcome, and the exit code is 0."""
    process = await begun(kafka, "--throughput", rate)
    first = await lines(process, 20)
    found = await stopped(process, first, how)
    assert found.failed == []
    assert len(found.acked) == len(written(kafka)) >= 19


async def test_records_under_way_at_the_signal_are_told(kafka: EmbeddedKafka) -> None:
    """Their outcomes come within the close limit, before the last two lines."""
    held = kafka.faults.delay(before=True)
    process = await begun(kafka, "--throughput", "100")
    first = await lines(process, 1)
    await held.reached()
    process.send_signal(signal.SIGTERM)
    assert process.stderr is not None
    assert await process.stderr.readline() == b"aioproducer: stopping\n"
    held.release()
    done = await ended(process)
    found = told(Ended(done.code, "".join(first) + done.out, done.err))
    assert found.failed == []
    assert len(found.acked) == len(written(kafka)) >= 1


async def test_the_close_limit_bounds_the_end(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    """Records without an answer within the limit end as unknown, and the lines are complete."""
    file = tmp_path / "producer.properties"
    file.write_text("close.timeout.ms=100\n")
    held = kafka.faults.delay(before=True)
    process = await begun(kafka, "--command-config", file, "--throughput", "100")
    first = await lines(process, 1)
    await held.reached()
    found = await stopped(process, first, signal.SIGTERM)
    assert found.acked == []
    assert "unknown" in {event["outcome"] for event in found.failed}
    held.release()


async def test_a_second_signal_waits_no_longer(kafka: EmbeddedKafka) -> None:
    """It ends the waiting for answers; every number still has its line."""
    held = kafka.faults.delay(before=True)
    process = await begun(kafka, "--throughput", "100")
    first = await lines(process, 1)
    await held.reached()
    process.send_signal(signal.SIGTERM)
    assert process.stderr is not None
    assert await process.stderr.readline() == b"aioproducer: stopping\n"
    process.send_signal(signal.SIGINT)
    done = await ended(process)
    found = told(Ended(done.code, "".join(first) + done.out, done.err))
    assert found.acked == []
    held.release()


async def test_a_signal_while_a_call_waits(
    unused_port: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without Kafka a call waits for metadata: it is refused, has its line, and does not wait for max.block.ms."""
    made: list[Producer] = []
    make = Producer.from_config

    def noted(config: ProducerConfig) -> Producer:
        made.append(make(config))
        return made[-1]

    monkeypatch.setattr(Producer, "from_config", noted)
    flags = ["--bootstrap-server", f"127.0.0.1:{unused_port}", "--topic", "orders"]
    running = asyncio.create_task(verify(job_of(**command.make_context(COMMAND, flags).params), Screen()))
    await until(lambda: made and made[0].stats().waiting_calls)
    signal.raise_signal(signal.SIGTERM)
    assert await running == 0
    found = judged(capsys.readouterr().out)
    assert [(event["exception"], event["outcome"]) for event in found.failed] == [
        ("StateError", "not_written")
    ]
    assert found.acked == []


async def test_a_rate_of_zero_sends_nothing(kafka: EmbeddedKafka) -> None:
    """It waits for the signal."""
    process = await begun(kafka, "--throughput", "0")
    first = await lines(process, 1)
    found = await stopped(process, first, signal.SIGINT)
    assert (found.data["sent"], found.data["target_throughput"]) == (0, 0)


async def test_the_rate_is_kept(kafka: EmbeddedKafka, verified: Verified) -> None:
    """100 records at 200 a second take half a second, or longer on a busy machine."""
    found = await verified("--max-messages", "100", "--throughput", "200")
    took = found.events[-2]["timestamp"] - found.events[0]["timestamp"]
    assert took >= 490
    assert found.data["avg_throughput"] <= 205


def test_a_pace_has_no_wait_below_a_millisecond() -> None:
    """Sleeping for less costs more than it waits."""
    now = 10.0
    pace = Pace(1000.0, lambda: now)
    assert pace.wait(0) == 0.0
    assert pace.wait(5) == pytest.approx(0.005)
    now = 10.0045
    assert pace.wait(5) == 0.0


def test_each_line_is_there_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that reads them in a pipe waits for no others."""
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    with os.fdopen(reader, "rb", buffering=0) as ours, os.fdopen(writer, "w") as out:
        monkeypatch.setattr(sys, "stdout", out)
        events = Events()
        for number in range(3):
            events.tell("event", number=number)
            assert json.loads(ours.read(1000))["number"] == number


async def test_a_reader_that_goes_changes_nothing(kafka: EmbeddedKafka) -> None:
    """Closed output is no failure: `| head -1` ends as it would without."""
    process = await begun(kafka, "--max-messages", "50", "--throughput", "200")
    assert process.stdout is not None
    assert json.loads(await process.stdout.readline())["name"] == "startup_complete"
    transport: Any = process._transport  # type: ignore[attr-defined]  # asyncio has no other way to close it
    transport.get_pipe_transport(1).close()
    assert await process.wait() == 0
    assert len(written(kafka)) == 50


class Full(io.StringIO):
    """An output without room for more than some lines."""

    def __init__(self, lines: int) -> None:
        super().__init__()
        self.room = lines

    def flush(self) -> None:
        """Write the line that is there."""
        self.room -= 1
        if self.room < 0:
            raise OSError(errno.ENOSPC, "No space left on device")

    def fileno(self) -> int:
        """A descriptor that may be replaced."""
        return self.own

    own = -1


@pytest.mark.parametrize("room", [0, 1, 3])
async def test_output_that_cannot_be_written_ends_the_run(
    kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch, room: int, tmp_path: Path
) -> None:
    """A lost line is a record without an outcome: nothing more is sent, and the exit code is 1."""
    out = Full(room)
    with (tmp_path / "out").open("w") as file:
        out.own = file.fileno()
        monkeypatch.setattr(sys, "stdout", out)
        where = ["--bootstrap-server", kafka.bootstrap_servers, "--topic", "orders"]
        context = command.make_context(COMMAND, where)
        with pytest.raises(
            click.ClickException, match="stdout cannot be written to: No space left on device"
        ):
            await verify(job_of(**context.params), Screen())


def test_a_line_that_cannot_be_written_leaves_no_descriptor(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Each event of a busy producer may fail before the program ends."""
    out = Full(0)
    with (tmp_path / "out").open("w") as file:
        out.own = file.fileno()
        monkeypatch.setattr(sys, "stdout", out)
        descriptors = Path("/proc/self/fd")
        events, open_before = Events(), sorted(descriptors.iterdir())
        for _ in range(3):
            events.tell("producer_send_success")
        assert sorted(descriptors.iterdir()) == open_before
        assert events.failure is not None


@pytest.fixture
def full() -> Iterator[TextIO]:
    """A device without room."""
    with Path("/dev/full").open("w") as device:
        yield device


async def test_output_without_room(kafka: EmbeddedKafka, full: TextIO) -> None:
    """As a program: one line on stderr says it."""
    program = [sys.executable, "-m", "aioproducer", COMMAND]
    where = ["--bootstrap-server", kafka.bootstrap_servers, "--topic", "orders"]
    process = await asyncio.create_subprocess_exec(
        *program, *where, stdout=full, stderr=asyncio.subprocess.PIPE
    )
    _, err = await process.communicate()
    assert process.returncode == 1
    assert (
        err.decode().splitlines()[-1] == "aioproducer: stdout cannot be written to: No space left on device"
    )
    assert written(kafka) == set()


def test_settings_that_cannot_be_used_end_with_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No record can be sent with them: the first one has its line, and there is no second one."""
    file = tmp_path / "producer.properties"
    file.write_text("security.protocol=SSL\nssl.truststore.location=/missing/trust.pem\n")
    assert main([COMMAND, *SERVER, "--topic", "t", "--command-config", os.fspath(file)]) == 1
    out, err = capsys.readouterr()
    found = Told.read(out)
    assert [event["exception"] for event in found.failed] == ["ConfigurationError"]
    assert (found.data["sent"], found.data["acked"]) == (1, 0)
    assert "ssl_truststore_location=/missing/trust.pem: No such file or directory" in err.splitlines()[-1]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "Missing option '--topic'"),
        (["--topic", "t"], "Missing option '--bootstrap-server'"),
        ([*SERVER, "--topic", "a/b"], "a topic name must consist of ASCII letters"),
        ([*SERVER, "--topic", "t", "--bogus"], "No such option"),
        ([*SERVER, "--topic", "t", "--acks", "2"], "'2' is not one of"),
        ([*SERVER, "--topic", "t", "--acks", "all"], "'all' is not one of"),
        ([*SERVER, "--topic", "t", "--max-messages", "many"], "must be a whole number"),
        ([*SERVER, "--topic", "t", "--throughput", "1.5"], "must be a whole number"),
        ([*SERVER, "--topic", "t", "--value-prefix", "x"], "must be a whole number"),
        ([*SERVER, "--topic", "t", "--repeating-keys", "0"], "0 is not in the range"),
        ([*SERVER, "--topic", "t", "--message-create-time", "-2"], "-2 is not in the range"),
        ([*SERVER, "--topic", "t", "--command-config", "nowhere"], "nowhere"),
        (["--bootstrap-server", "a:b", "--topic", "t"], "invalid port"),
    ],
)
def test_wrong_usage_ends_with_one(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """As in Kafka's tool, the exit code is 1; stdout stays empty and one line on stderr has the reason."""
    assert main([COMMAND, *arguments]) == 1
    out, err = capsys.readouterr()
    assert complaint in err
    assert err.startswith("aioproducer: ")
    assert (len(err.splitlines()), out) == (1, "")


@pytest.mark.parametrize(
    ("properties", "complaint"),
    [
        ("transactional.id=shop\n", "transactional.id: this command begins no transactions: remove it"),
        ("lingerms=5\n", "did you mean linger"),
        ("enable.idempotence=true\n", "enable_idempotence=True requires retries"),
        ("\\u12\n", "requires four hexadecimal digits"),
    ],
)
def test_a_wrong_file_ends_with_one(
    properties: str, complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A property that is not possible is wrong usage as well; a file that asks for the impossible is refused as by Java."""
    file = tmp_path / "producer.properties"
    file.write_text(properties)
    assert main([COMMAND, *SERVER, "--topic", "t", "--command-config", os.fspath(file)]) == 1
    out, err = capsys.readouterr()
    assert complaint in err
    assert (len(err.splitlines()), out) == (1, "")
