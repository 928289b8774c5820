"""`aioproducer perf` in transactions, as Kafka's own tool has them."""

from __future__ import annotations

import re
import signal
from asyncio.subprocess import Process
from pathlib import Path

import pytest

from aioproducer import fence, list_transactions
from aioproducer.testing import EmbeddedKafka
from tests.cli.perf.test_perf import STEADY, TOTAL, WINDOW, flags, perf
from tests.cli.program import Ended, ended, start

TRANSACTIONS = re.compile(
    r"(\d+) transactions committed, \d+\.\d\d ms avg commit latency, \d+\.\d\d ms max commit latency\."
)
SMALL = ("--record-size", "10")
UUID = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"


def committed(done: Ended) -> int:
    """How many transactions the run says it has committed: before its final line, which is that of Kafka's tool."""
    *_, told, total = done.out.splitlines()
    assert TOTAL.fullmatch(total)
    found = TRANSACTIONS.fullmatch(told)
    assert found
    return int(found[1])


def nothing_is_open(kafka: EmbeddedKafka) -> bool:
    """Whether readers of committed records get to the end of each partition."""
    return all(kafka.last_stable_offset("orders", n) == kafka.high_watermark("orders", n) for n in range(2))


def commits(kafka: EmbeddedKafka) -> int:
    """How many times a transaction was ended."""
    return sum(request.api == "EndTxn" for request in kafka.requests)


async def ids(kafka: EmbeddedKafka) -> list[str]:
    """The transactional ids in use."""
    return [each.transactional_id for each in await list_transactions("", kafka.bootstrap_servers)]


async def under_way(kafka: EmbeddedKafka, *more: str) -> Process:
    """A measurement under the id `perf` that has printed an interval with acknowledged records."""
    mine = ("--transactional-id", "perf", "--reporting-interval", "100")
    process = await start(*flags(kafka, 1_000_000, *SMALL, *mine, *more, rate="500"))
    assert process.stdout is not None
    acked = 0
    while not acked:
        window = WINDOW.fullmatch((await process.stdout.readline()).decode().rstrip("\n"))
        assert window
        acked = int(window[1])
    return process


async def interrupted(process: Process) -> str:
    """Press Ctrl-C; what it says at once."""
    assert process.stderr is not None
    process.send_signal(signal.SIGINT)
    return (await process.stderr.readline()).decode()


async def test_every_record_is_committed(kafka: EmbeddedKafka) -> None:
    """Readers of committed records see all that was sent, by several tasks in several transactions; none stays open."""
    more = ("--transactional-id", "perf", "--transaction-duration-ms", "50", "--tasks", "3")
    done = await perf(kafka, 600, "--payload-monotonic", *more, rate="1500")
    assert (done.code, done.err) == (0, "")
    assert committed(done) == commits(kafka) >= 4
    assert sorted(int(record.value or b"-1") for record in kafka.records("orders")) == list(range(600))
    assert nothing_is_open(kafka)


async def test_pace_and_warm_up_go_over_all_transactions(kafka: EmbeddedKafka) -> None:
    """Each takes one record at least; no more records/s than allowed; the second summary comes after all."""
    more = ("--transactional-id", "perf", "--transaction-duration-ms", "1", "--warmup-records", "5")
    done = await perf(kafka, 100, *SMALL, *more, rate="200")
    assert (done.code, done.err) == (0, "")
    _, _, told, total, steady = done.out.splitlines()
    found, warm = TRANSACTIONS.fullmatch(told), STEADY.fullmatch(steady)
    assert found
    assert warm
    assert 2 <= int(found[1]) == commits(kafka) <= 100
    assert float(total.split("sent, ")[1].split()[0]) <= 210
    assert warm[1] == "95"
    assert len(kafka.records("orders")) == 100


async def test_id_alone_means_three_seconds(kafka: EmbeddedKafka) -> None:
    """With an id and without a duration, less than three seconds are one transaction."""
    done = await perf(kafka, 500, *SMALL, "--transactional-id", "perf", rate="1000")
    assert (done.code, done.err, committed(done)) == (0, "", 1)


async def test_duration_alone_means_a_random_id(kafka: EmbeddedKafka) -> None:
    """With a duration and without an id, it is Kafka's prefix and a UUID."""
    done = await perf(kafka, 10, *SMALL, "--transaction-duration-ms", "60000")
    assert (done.code, done.err, committed(done)) == (0, "", 1)
    (found,) = await ids(kafka)
    assert re.fullmatch(f"performance-producer-{UUID}", found)


@pytest.mark.parametrize(
    "duration", [(), ("--transaction-duration-ms", "60000")], ids=["id", "id and duration"]
)
async def test_id_may_be_a_property(kafka: EmbeddedKafka, tmp_path: Path, duration: tuple[str, ...]) -> None:
    """An id of the properties is taken, that of the command line before that of the file, and the flag before both."""
    (tmp_path / "client.properties").write_text("transactional.id=file\n")
    file = ("--command-config", tmp_path / "client.properties")
    properties = ("--command-property", "transactional.id=property")
    flag = ("--transactional-id", "flag")
    for more in (file, (*file, *properties), (*file, *properties, *flag)):
        done = await perf(kafka, 10, *SMALL, *more, *duration)
        assert (done.code, done.err, committed(done)) == (0, "", 1)
    assert sorted(await ids(kafka)) == ["file", "flag", "property"]


async def test_failed_record_aborts_and_ends_it(kafka: EmbeddedKafka) -> None:
    """A transaction that fails is the last: stderr says which and why, nothing of it is visible, the exit code is 1."""
    kafka.faults.error("TOPIC_AUTHORIZATION_FAILED")
    done = await perf(kafka, 100_000, *SMALL, "--transactional-id", "perf", "--tasks", "3", rate="2000")
    assert (done.code, committed(done)) == (1, 0)
    last = done.err.splitlines()[-1]
    assert re.match(r"aioproducer: ended after [\d,]+ of 100,000 records: transaction 1 failed: ", last)
    assert "TOPIC_AUTHORIZATION_FAILED" in last
    assert kafka.records("orders") == []
    assert nothing_is_open(kafka)


async def test_refused_commit_is_told(kafka: EmbeddedKafka) -> None:
    """The coordinator's reason for refusing a commit is printed after the figures of the committed transactions."""
    kafka.faults.error("TRANSACTIONAL_ID_AUTHORIZATION_FAILED", api="EndTxn", skip=1, times=None)
    more = ("--transactional-id", "perf", "--transaction-duration-ms", "50")
    done = await perf(kafka, 100_000, *SMALL, *more, rate="1000")
    assert (done.code, committed(done)) == (1, 1)
    last = done.err.splitlines()[-1]
    assert "records: transaction 2 failed: EndTxn (commit) for 'perf' was refused" in last
    assert "not authorized for the transactional id" in last


async def test_fencing_is_told(kafka: EmbeddedKafka) -> None:
    """When another takes over the id, that is what stderr says, also if a record was refused first; exit code 1."""
    process = await under_way(kafka)
    # A client that looks while the other still waits for its epoch only finds that the transaction was aborted.
    held = kafka.faults.delay(api="DescribeTransactions", before=True)
    await fence(["perf"], kafka.bootstrap_servers)
    held.release()
    done = await ended(process)
    assert (done.code, committed(done)) == (1, 0)
    last = done.err.splitlines()[-1]
    assert re.match(
        r"aioproducer: ended after [\d,]+ of 1,000,000 records: transaction 1 failed: another producer", last
    )
    assert kafka.records("orders") == []
    assert nothing_is_open(kafka)


async def test_missing_coordinator_is_told_in_time(kafka: EmbeddedKafka) -> None:
    """Without a coordinator of the id, it ends within --wait, with exit code 1 and one line."""
    kafka.faults.error("COORDINATOR_NOT_AVAILABLE", api="FindCoordinator", times=None)
    done = await perf(kafka, 10, *SMALL, "--transactional-id", "perf", "--wait", "0.5")
    assert (done.code, done.out) == (1, "")
    (complaint,) = done.err.splitlines()
    assert complaint.startswith("aioproducer: the coordinator gave no producer id in time")


async def test_interrupt_before_the_first_record_waits_for_nothing(kafka: EmbeddedKafka) -> None:
    """Without a coordinator of the id, Ctrl-C ends it at once."""
    refusal = kafka.faults.error("COORDINATOR_NOT_AVAILABLE", api="FindCoordinator", times=None)
    process = await start(*flags(kafka, 10, *SMALL, "--transactional-id", "perf"))
    await refusal.reached()
    assert await interrupted(process) == "aioproducer: stopping\n"
    done = await ended(process)
    assert (done.code, done.err) == (1, "aioproducer: interrupted after 0 of 10 records\n")


async def test_interrupt_aborts_the_open_transaction(kafka: EmbeddedKafka) -> None:
    """Ctrl-C aborts the open transaction, and says so; records that this drops are no failures, nothing becomes visible."""
    process = await under_way(kafka)
    assert await interrupted(process) == "aioproducer: stopping\n"
    done = await ended(process)
    assert (done.code, committed(done)) == (1, 0)
    assert re.fullmatch(
        r"aioproducer: interrupted after [\d,]+ of 1,000,000 records; the open transaction was aborted\n",
        done.err,
    )
    assert kafka.records("orders") == []
    assert nothing_is_open(kafka)


async def test_interrupt_waits_for_a_commit(kafka: EmbeddedKafka) -> None:
    """A commit that goes on at Ctrl-C is waited for, and counted."""
    commit = kafka.faults.delay(api="EndTxn")
    process = await under_way(kafka, "--transaction-duration-ms", "300")
    await commit.reached()
    assert await interrupted(process) == "aioproducer: stopping\n"
    commit.release()
    done = await ended(process)
    assert (done.code, committed(done), commits(kafka)) == (1, 1, 1)
    seen = len(kafka.records("orders"))
    assert done.err == f"aioproducer: interrupted after {seen:,} of 1,000,000 records\n"
    assert nothing_is_open(kafka)


async def test_second_interrupt_waits_for_nothing(kafka: EmbeddedKafka) -> None:
    """A second Ctrl-C gives up an unanswered abort: the time limit of the transaction ends it."""
    silence = kafka.faults.silence(api="EndTxn")
    process = await under_way(kafka)
    assert await interrupted(process) == "aioproducer: stopping\n"
    await silence.reached()
    assert "close() could not end the open transaction" in await interrupted(process)
    done = await ended(process)
    assert (done.code, committed(done)) == (1, 0)
    assert re.fullmatch(r"aioproducer: interrupted after [\d,]+ of 1,000,000 records\n", done.err)
