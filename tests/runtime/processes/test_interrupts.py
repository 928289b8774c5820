"""Ctrl-C and SIGTERM, in programs of their own: at random instants, once and twice."""

from __future__ import annotations

import random
import signal
import time

import pytest

from tests.runtime.support import Running, run_program
from tests.seeds import fresh_seed
from tests.slowness import SLOWNESS

SLACK = 10.0 * SLOWNESS
"""Seconds that a busy machine may be late: less than the close timeout that must not be waited for."""

WITH_BLOCK = """
import asyncio, signal, sys, time
from aioproducer import Outcome, Producer
from tests.judge.judge import judge
from tests.runtime.support import History, KafkaElsewhere, log_of

# A shell that runs tests in its background has it ignored, and children inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
ANSWERS, SIGTERM = {answers!r}, {sigterm!r}
history, deliveries = History(), []

async def main():
    if SIGTERM:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        loop.add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        async with Producer(kafka.bootstrap_servers, topics=["one"], close_timeout_ms={timeout}) as producer:
            await producer.ready(5)
            if not ANSWERS:
                kafka.faults.silence(api="Produce")
            print("ready", flush=True)
            while True:
                value = history.value()
                sending = producer.send("one", value)
                if sending.delivery is None:
                    history.refused(value, "one")
                else:
                    deliveries.append((value, sending.delivery))
                await sending
                await asyncio.sleep(0)
    finally:
        print("closed", producer.health().state, flush=True)

with KafkaElsewhere("one") as kafka:
    try:
        asyncio.run(main())
    except (KeyboardInterrupt, asyncio.CancelledError) as error:
        print(type(error).__name__)
    for value, delivery in deliveries:
        history.accepted(value, delivery)
    log = log_of(kafka, ["one"])
    print([str(finding) for finding in judge(history.sent, log)])
    print({{sent.outcome.name for sent in history.sent if sent.outcome.name != "NOT_WRITTEN"}})
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_f08_ctrl_c_flushes(number: signal.Signals) -> None:
    """`async with` under asyncio.run(), interrupted at some instant: all that was accepted is written, then it ends."""
    seed = fresh_seed()
    program = WITH_BLOCK.format(answers=True, sigterm=number == signal.SIGTERM, timeout=10_000)
    with Running(program) as child:
        assert child.line() == "ready"
        # Anywhere in what the program does.
        time.sleep(random.Random(seed).uniform(0, 0.1))
        child.signal(number)
        code, out, errors = child.end(20)
    kind = "KeyboardInterrupt" if number == signal.SIGINT else "CancelledError"
    assert (code, out.splitlines(), errors) == (0, ["closed closed", kind, "[]", "{'ACKED'}"], "")


def test_f08_ctrl_c_is_bounded() -> None:
    """With a broker that does not answer it ends after the close timeout, and names the records with an unknown outcome."""
    with Running(WITH_BLOCK.format(answers=False, sigterm=False, timeout=400)) as child:
        assert child.line() == "ready"
        child.signal(signal.SIGINT)
        began = time.monotonic()
        assert child.line() == "closed closed"
        assert 0.3 < time.monotonic() - began < 0.4 + SLACK
        code, out, errors = child.end(20)
    assert (code, out.splitlines()) == (0, ["KeyboardInterrupt", "[]", "{'UNKNOWN'}"])
    assert "records were lost when the producer was closed" in errors


def test_f08_second_ctrl_c_exits_at_once() -> None:
    """A second Ctrl-C during the last flush does not wait for the close timeout."""
    with Running(WITH_BLOCK.format(answers=False, sigterm=False, timeout=60_000)) as child:
        assert child.line() == "ready"
        child.signal(signal.SIGINT)
        # Two signals at once would be one.
        time.sleep(0.2)
        child.signal(signal.SIGINT)
        began = time.monotonic()
        assert child.line() == "closed closed"
        assert time.monotonic() - began < SLACK
        code, out, _ = child.end(20)
    assert (code, out.splitlines()) == (0, ["KeyboardInterrupt", "[]", "{'UNKNOWN'}"])


ANYWHERE = """
import asyncio, random, signal, sys, time
from aioproducer import KafkaError, Outcome, Producer
from aioproducer.errors import StateError
from tests.judge.judge import judge
from tests.runtime.support import History, KafkaElsewhere, log_of
from tests.slowness import SLOWNESS

SEED, ROUNDS = {seed}, {rounds}
rng = random.Random(SEED)
history, late, states = History(), [], set()

class Sent:
    def __init__(self):
        self.value, self.sending = history.value(bytes(rng.randrange(300))), None

async def flood(producer, sent):
    while True:
        sent.append(Sent())
        sent[-1].sending = producer.send("one", sent[-1].value)
        await sent[-1].sending
        if rng.random() < 0.05:
            await asyncio.sleep(0)

async def closed(producer):
    try:
        return await producer.close(1)
    except KafkaError as error:
        return error

with KafkaElsewhere("one") as kafka:
    for _ in range(ROUNDS):
        # No Runner: nobody catches the signal, which is raised wherever the program is.
        loop, sent = asyncio.new_event_loop(), []
        producer = Producer(kafka.bootstrap_servers, topics=["one"], batch_size=2_000, linger_ms=1)
        loop.run_until_complete(producer.start(wait_ready=5))
        task = loop.create_task(flood(producer, sent))
        try:
            signal.signal(signal.SIGALRM, signal.default_int_handler)
            # Again and again: Python drops what is raised inside of a finalizer.
            signal.setitimer(signal.ITIMER_REAL, rng.uniform(0.001, 0.03), 0.05)
            loop.run_until_complete(task)
        except (KeyboardInterrupt, StateError):
            pass  # Raised where a cancel scope of anyio is entered, it becomes a RuntimeError that ends the producer.
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
        signal.setitimer(signal.ITIMER_REAL, 0)
        if loop.is_running():
            # Raised in the end of run_until_complete(): asyncio would take the loop for one that runs, for ever.
            loop._thread_id = None
            asyncio._set_running_loop(None)
        task.cancel()
        began = time.monotonic()
        loop.run_until_complete(asyncio.wait([task], timeout=1))
        loop.run_until_complete(closed(producer))
        late.append(time.monotonic() - began > 3 * SLOWNESS)
        states.add(producer.health().state)
        for each in sent:
            delivery = None if each.sending is None else each.sending.delivery
            if delivery is not None:
                history.accepted(each.value, delivery)
            elif each.sending is not None:
                history.refused(each.value, "one")
        if task.done() and not task.cancelled():
            task.exception()
        del sent, task
        for left in asyncio.all_tasks(loop):
            left.cancel()
        loop.run_until_complete(asyncio.sleep(0.01))
        loop.close()
    found = judge(history.sent, log_of(kafka, ["one"]))
    # A call that was interrupted before it returned told nothing: its record may be there. And between the decision to
    # write a request and the write, UNKNOWN is all that can be said.
    told = [str(each) for each in found if each.anomaly.name not in ("STRANGER", "UNTRUE_UNKNOWN")]
    strangers = sum(each.anomaly.name == "STRANGER" for each in found)
    print(told, any(late), sorted(states), strangers <= ROUNDS)
    print(len(history.sent), sum(sent.outcome is Outcome.ACKED for sent in history.sent))
"""


def test_f08_raised_anywhere() -> None:
    """KeyboardInterrupt raised at any instant, in whatever callback: close() still ends, and no outcome is untrue."""
    seed = fresh_seed()
    done = run_program(ANYWHERE.format(seed=seed, rounds=15), timeout=50)
    assert done.returncode == 0, done.stderr
    verdict, counts = done.stdout.splitlines()
    assert verdict == "[] False ['closed'] True", done.stderr
    assert int(counts.split()[1]) > 0
