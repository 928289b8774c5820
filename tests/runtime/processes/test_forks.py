"""A process that forks, or starts others: the producer stays in the process that started it."""

from __future__ import annotations

import pytest

from tests.runtime.support import run_program

# os.fork() in a process with threads is warned of since Python 3.12, with reason; here nothing but fork is the matter.
FORK = """
import asyncio, os, sys, warnings
from aioproducer import Producer, StateError
from aioproducer.testing import EmbeddedKafka

warnings.filterwarnings("ignore", category=DeprecationWarning, message=".*fork.*")

async def main():
    async with EmbeddedKafka() as kafka:
        kafka.create_topic("one", 1)
        async with Producer(kafka.bootstrap_servers, topics=["one"], linger_ms=60_000) as producer:
            await producer.ready(5)
            kept = [await producer.send("one", b"%d" % i) for i in range(3)]
            child = os.fork()
            if child == 0:
                in_child(producer)
                sys.stdout.flush()
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
            kept += [await producer.send("one", b"%d" % i) for i in range(3, 6)]
            await producer.flush()
            print({one.outcome.name for one in kept}, producer.stats().connections[0].connects)
        records = kafka.records("one")
        print([record.value for record in records] == [b"%d" % i for i in range(6)])
        print([record.sequence for record in records], len({record.producer_id for record in records}))
"""

EVERY_USE = """
def in_child(producer):
    uses = {
        "send": lambda: producer.send("one", b"v"),
        "send with headers": lambda: producer.send("one", b"v", headers={"a": b"b"}),
        "send_and_wait": lambda: producer.send_and_wait("one", b"v"),
        "send_batch": lambda: producer.send_batch("one", [b"v"]),
        "send_all": lambda: producer.send_all([]),
        "send_nowait": lambda: producer.send_nowait("one", b"v"),
        "send_threadsafe": lambda: producer.send_threadsafe("one", b"v"),
        "flush": lambda: producer.flush(),
        "ready": lambda: producer.ready(1),
        "partitions_for": lambda: producer.partitions_for("one"),
        "purge": lambda: producer.purge(),
        "start": lambda: producer.start(),
        "async with": lambda: producer.__aenter__(),
        "close": lambda: producer.close(),
        "close at once": lambda: producer.close(0),
    }
    for name, use in uses.items():
        try:
            made = use()
            made.send(None)
            print(name, "went on")
        except StateError as error:
            if "forked" not in str(error):
                print(name, error)
        except BaseException as error:
            print(name, repr(error))
    print(len(uses), "uses")
"""


def test_f09_every_use_in_a_forked_child() -> None:
    """Every method of a forked producer says that it was forked; the parent's records are written once, in order."""
    done = run_program(EVERY_USE + FORK + "\nasyncio.run(main())\n")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "15 uses",
        "{'ACKED'} 1",
        "True",
        "[0, 1, 2, 3, 4, 5] 1",
    ]
    assert done.stderr == ""


DROPPED = """
import gc

def in_child(producer):
    async def main():
        own = Producer([str(server) for server in producer.config.bootstrap_servers])
        await own.start()
        await own.close(0)

    asyncio.events._set_running_loop(None)
    asyncio.run(main())
    producer.__del__()
    gc.collect()
"""


def test_f09_forked_child_drops_it() -> None:
    """A child that drops the producer, and makes one of its own, neither warns nor touches the parent's connection."""
    done = run_program(DROPPED + FORK + "\nasyncio.run(main())\n", "-W", "error")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["{'ACKED'} 1", "True", "[0, 1, 2, 3, 4, 5] 1"]
    assert done.stderr == ""


PROCESSES = """
import asyncio, multiprocessing, pickle, sys, warnings
from aioproducer import Producer, ProducerConfig, StateError
from aioproducer.testing import EmbeddedKafka

warnings.filterwarnings("ignore", category=DeprecationWarning, message=".*fork.*")
HOW = {how!r}

def work(config, inherited):
    async def main():
        if inherited:
            try:
                await inherited[0].send("one", b"stolen")
            except StateError as error:
                assert "forked" in str(error)
            else:
                raise AssertionError("the child could send")
        async with Producer.from_config(config) as own:
            for _ in range(50):
                await own.send("one", b"child")

    asyncio.run(main())

async def main():
    async with EmbeddedKafka() as kafka:
        kafka.create_topic("one", 1)
        async with Producer(kafka.bootstrap_servers, topics=["one"], batch_size=100) as producer:
            await producer.ready(5)
            try:
                pickle.dumps(producer)
            except TypeError as error:
                print("config" in str(error))
            await producer.send("one", b"parent")
            context = multiprocessing.get_context(HOW)
            # A fork takes everything with it; to a spawned process only what can be pickled is sent.
            args = (producer.config, [producer] if HOW == "fork" else [])
            process = context.Process(target=work, args=args)
            process.start()
            for _ in range(49):
                await producer.send("one", b"parent")
                await asyncio.sleep(0.001)
            while process.is_alive():
                await asyncio.sleep(0.01)
            print(process.exitcode)
        records = kafka.records("one")
        for who in (b"parent", b"child"):
            own = [record for record in records if record.value == who]
            print([record.sequence for record in own] == list(range(50)), len({{r.producer_id for r in own}}))
        print(len(records), len({{record.producer_id for record in records}}))

if __name__ == "__main__":
    asyncio.run(main())
"""


def _processes(how: str) -> None:
    done = run_program(PROCESSES.format(how=how), as_file=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["True", "0", "True 1", "True 1", "100 2"]


def test_f09_multiprocessing_fork() -> None:
    """A forked worker cannot use the parent's producer; its own has a producer id and sequence numbers of its own."""
    _processes("fork")


def test_f09_multiprocessing_spawn() -> None:
    """A spawned worker is given the configuration, as a producer cannot be pickled; both write side by side."""
    _processes("spawn")


SECURED = """
import asyncio, gc, multiprocessing, os, pickle, sys, tempfile, traceback, warnings
from aioproducer import Producer, ProducerConfig, SecretFile, StateError
from aioproducer.testing import EmbeddedKafka, certificates

warnings.filterwarnings("ignore", category=DeprecationWarning, message=".*fork.*")
HOW = {how!r}

def work(config, inherited):
    async def main():
        for producer in inherited:
            for use in (lambda: producer.set_credentials(password="b"), lambda: producer.reload_certificates()):
                try:
                    await use()
                except StateError as error:
                    assert "forked" in str(error), error
                else:
                    raise AssertionError("the child could use it")
        inherited.clear()
        gc.collect()
        async with Producer.from_config(config) as own:
            while sum(one.reauthentications for one in own.stats().connections) < 1:
                await own.send_and_wait("one", b"child")

    asyncio.run(main())

async def main():
    authority = certificates()
    with tempfile.NamedTemporaryFile("w") as file:
        file.write("canary-7\\n")
        file.flush()
        context, users = authority.broker_context(), {{"alice": "canary-7"}}
        # A shorter session ends before it is renewed where the machine is busy: the margin is a tenth of it.
        async with EmbeddedKafka(tls=context, users=users, session_lifetime=6.0) as kafka:
            kafka.create_topic("one", 1)
            config = ProducerConfig(
                kafka.bootstrap_servers, security_protocol="SASL_SSL", sasl_mechanism="SCRAM-SHA-256",
                ssl_truststore_certificates=authority.authority, sasl_username="alice",
                sasl_password=SecretFile(file.name), linger_ms=0,
            )
            async with Producer.from_config(config) as producer:
                await producer.send_and_wait("one", b"parent")
                kept = pickle.dumps(config)
                print(b"canary" in kept, "canary" in repr(config) + repr(producer))
                args = (config, [producer] if HOW == "fork" else [])
                process = multiprocessing.get_context(HOW).Process(target=work, args=args)
                process.start()
                sent = 1
                while process.is_alive() or sum(one.reauthentications for one in producer.stats().connections) < 1:
                    await producer.send_and_wait("one", b"parent")
                    sent += 1
                    await asyncio.sleep(0.005)
                (broker,) = (one for one in producer.stats().connections if one.broker == "1")
                print(process.exitcode, broker.connects, broker.failures, broker.authentication_failures)
            records = kafka.records("one")
            own = [record.sequence for record in records if record.value == b"parent"]
            print(own == list(range(sent)), len({{record.producer_id for record in records}}))

if __name__ == "__main__":
    asyncio.run(main())
"""


@pytest.mark.parametrize("how", ["fork", "spawn"])
def test_f09_a_secured_producer(how: str) -> None:
    """TLS and the session of the parent go on, the child reads the secret itself, and no pickle has it."""
    done = run_program(SECURED.format(how=how), as_file=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["False False", "0 1 0 0", "True 2"]
    assert done.stderr == ""


FORK_DURING_AN_IMPORT = """
import asyncio, builtins, os, threading, warnings
from aioproducer import Producer

warnings.filterwarnings("ignore", category=DeprecationWarning, message=".*fork.*")
imports, forks = threading.Event(), threading.Event()
import_now = builtins.__import__

def import_slowly(name, *args, **kwargs):
    if name.startswith("aioproducer._net."):
        imports.set()
        forks.wait()
    return import_now(name, *args, **kwargs)

async def main():
    await Producer("127.0.0.1:1").start()

builtins.__import__ = import_slowly
# The hooks of those that registered last are called first.
os.register_at_fork(before=forks.set)
threading.Thread(target=lambda: asyncio.run(main()), daemon=True).start()
imports.wait()
child = os.fork()
if child == 0:
    asyncio.run(main())
    print("started", flush=True)
    os._exit(0)
print(os.waitpid(child, 0)[1], flush=True)
os._exit(0)
"""


def test_a_fork_while_another_thread_loads_the_engine() -> None:
    """The child would wait without end for an import that a thread of its parent has begun: the fork waits for the import."""
    done = run_program(FORK_DURING_AN_IMPORT, timeout=20)
    assert (done.stdout.split(), done.returncode) == (["started", "0"], 0), done.stderr
