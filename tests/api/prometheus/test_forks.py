"""A process that forks while its metrics are read."""

from __future__ import annotations

import pytest

from tests.runtime.support import run_program

FORK_DURING_A_READING = """
import os, signal, threading
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from prometheus_client import CollectorRegistry, generate_latest
from aioproducer import Producer
from aioproducer.otel import Metrics
from aioproducer.prometheus import ProducerCollector

reads = threading.Event()

class Slow(Producer):
    def stats(self):
        if threading.current_thread() is not threading.main_thread():
            reads.set()
            threading.Event().wait()
        return super().stats()

def observed(producer):
    reader = InMemoryMetricReader()
    return reader, Metrics(producer, meter_provider=MeterProvider([reader]))

producer, registry = Slow("127.0.0.1:1"), CollectorRegistry()
collector = ProducerCollector(producer, registry=registry)
reader, metrics = observed(producer)
read = {"prometheus": lambda: generate_latest(registry), "otel": reader.get_metrics_data}["KIND"]
threading.Thread(target=read, daemon=True).start()
reads.wait()
child = os.fork()
if child == 0:
    signal.alarm(10)
    own = Producer("127.0.0.1:1", client_id="own")
    collector.add(own)
    print(b'client_id="own"' in generate_latest(registry))
    print(observed(own)[0].get_metrics_data() is not None, flush=True)
    os._exit(0)
print(os.waitpid(child, 0)[1], flush=True)
os._exit(0)
"""


@pytest.mark.parametrize("read", ["prometheus", "otel"])
def test_a_fork_while_another_thread_reads_the_metrics(read: str) -> None:
    """The child would wait without end for the lock of a thread that is not there: it has metrics of its own."""
    done = run_program(FORK_DURING_A_READING.replace("KIND", read), timeout=20)
    assert (done.stdout.split(), done.returncode) == (["True", "True", "0"], 0), done.stderr
