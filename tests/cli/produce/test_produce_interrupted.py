"""`aioproducer produce` that gets a signal to stop."""

from __future__ import annotations

import signal
from asyncio.subprocess import PIPE, Process

import pytest

from aioproducer.testing import EmbeddedKafka, Fault
from tests.cli.orders import counts, values
from tests.cli.program import ended, start


async def open_ended(kafka: EmbeddedKafka, *flags: str) -> Process:
    """Send one line of an input that does not end."""
    process = await start("produce", "-b", kafka.bootstrap_servers, "-t", "orders", *flags, stdin=PIPE)
    assert process.stdin is not None
    process.stdin.write(b"1\n2")
    await process.stdin.drain()
    return process


async def complaint(process: Process) -> str:
    """Its next line on stderr."""
    assert process.stderr is not None
    return (await process.stderr.readline()).decode()


def written(kafka: EmbeddedKafka) -> Fault:
    """Happens when records are written, and changes nothing."""
    return kafka.faults.alter(lambda answer: answer)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
async def test_interrupt_ends_an_endless_input(kafka: EmbeddedKafka, number: signal.Signals) -> None:
    """A signal stops reading, also while no input comes; every line that was read is accounted for; exit code 1."""
    arrival = written(kafka)
    process = await open_ended(kafka)
    await arrival.reached()
    process.send_signal(number)
    # Only then: waiting for the end closes its input, and what it then read would be the end of the input.
    stopping = await complaint(process)
    assert stopping.startswith("aioproducer: stopping: sending the lines already read, for at most 120 s")
    done = await ended(process)
    assert (done.code, counts(done), values(kafka)) == (1, (1, 0, 0), [b"1"])
    assert done.err == "aioproducer: interrupted at stdin:1; later lines were not read\n"


async def test_interrupt_says_what_was_not_delivered(kafka: EmbeddedKafka) -> None:
    """A record without an answer within the close limit is named as perhaps written."""
    unanswered = kafka.faults.drop_answer(times=None)
    process = await open_ended(kafka, "-X", "close.timeout.ms=200")
    await unanswered.reached()
    process.send_signal(signal.SIGINT)
    assert "stopping" in await complaint(process)
    done = await ended(process)
    assert (done.code, counts(done)) == (1, (0, 0, 1))
    (told,) = [line for line in done.err.splitlines() if line.startswith("stdin:1: ")]
    assert "it may have been written" in told


async def test_second_interrupt_gives_up(kafka: EmbeddedKafka) -> None:
    """A second Ctrl-C does not wait for the close limit of two minutes."""
    unanswered = kafka.faults.drop_answer(times=None)
    process = await open_ended(kafka)
    await unanswered.reached()
    process.send_signal(signal.SIGINT)
    assert "interrupt again to end at once" in await complaint(process)
    process.send_signal(signal.SIGINT)
    done = await ended(process)
    assert (done.code, counts(done)) == (1, (0, 0, 1))


async def test_interrupt_while_no_broker_answers(kafka: EmbeddedKafka) -> None:
    """Ctrl-C while it waits for the first answer ends it at once: nothing was read."""
    silence = kafka.faults.silence()
    process = await open_ended(kafka)
    await silence.reached()
    process.send_signal(signal.SIGINT)
    done = await ended(process)
    assert (done.code, counts(done)) == (1, (0, 0, 0))
    assert (
        done.err.splitlines()[-1] == "aioproducer: interrupted at the first line; later lines were not read"
    )
