"""The pipeline on a cluster of two workers while things are killed, and the audit: `make demo-pipeline`.

    python -m examples.pipeline.demo [report.png] [orders of each shop]

The exit code is 1 if anything is lost, doubled, out of order or wrong. The Kafka of two brokers is embedded in this
process. Needs Java 17 and `pip install "aioproducer[cli,spark]"`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import attrs
from anyio.from_thread import BlockingPortal, start_blocking_portal
from pyspark.sql import SparkSession

from aioproducer import Producer
from aioproducer.spark import audit
from aioproducer.spark.auditing import Verdict
from aioproducer.spark.auditing.picture import draw
from aioproducer.testing import EmbeddedKafka

from .cluster import ROOT, Cluster, Program, standalone, until
from .orders import FIRST_SECOND, PARTITIONS, Orders, wrong_sums
from .queries import Job
from .steps import SUMS

INCOMING: Final = "orders"
BROKERS: Final = 2
EACH: Final = 4_000


@attrs.define
class Demo:
    """The pipeline at work, and what happens to it."""

    portal: BlockingPortal
    kafka: EmbeddedKafka
    cluster: Cluster
    job: Job
    folder: Path
    began: float = attrs.field(factory=time.monotonic, init=False)
    driver: Program = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.driver = self._started()

    def tell(self, what: str) -> None:
        """Print what happened, with the seconds since the start."""
        print(f"{time.monotonic() - self.began:5.1f} s  {what}", flush=True)

    def _started(self) -> Program:
        """A driver that starts the queries, or goes on from their checkpoints."""
        command = [sys.executable, "-m", "examples.pipeline.queries", str(self.folder / "job.json")]
        return Program.start(command, self.folder / "driver.log", MASTER=self.cluster.url)

    @property
    def epochs(self) -> int:
        """The number of epochs that both queries have finished."""
        return sum(1 for _ in Path(self.job.state).glob("*/commits/[0-9]*"))

    def reach(self, epochs: int) -> None:
        """Wait until the queries have finished so many epochs together: Spark decides which of them is ahead."""

        def reached() -> bool:
            if not self.driver.runs:
                raise RuntimeError("the driver has ended")
            return self.epochs >= epochs

        until(reached, f"epoch {epochs}")

    def run(self) -> None:
        """Let the pipeline write everything, and kill an executor, a broker and the driver on its way."""
        self.reach(1)
        self.tell("the first epoch is written")
        self.cluster.kill_executor()
        self.tell("killed an executor")
        self.reach(4)
        self.portal.call(self.kafka.faults.stop_broker, 1)
        self.tell("stopped broker 1: the other leads its partitions now")
        self.reach(7)
        self.portal.call(self.kafka.faults.start_broker, 1)
        self.tell("started broker 1")
        self.reach(10)
        self.driver.kill()
        self.tell(f"killed the driver, after {self.epochs} epochs")
        self.driver = self._started()
        until(lambda: not self.driver.runs, "the end of the pipeline")
        if self.driver.process.returncode != 0:
            raise RuntimeError("the driver has failed")
        self.tell(f"all is written, in {self.epochs} epochs")


def job_in(folder: Path, orders: Orders, servers: str) -> Job:
    """The job of these orders; it is in a file for the driver."""
    job = Job(
        servers=servers,
        files=str(folder / "tills"),
        topic=INCOMING,
        state=str(folder / "state"),
        regions=orders.regions,
        first_second=FIRST_SECOND,
        # As many epochs as files.
        records=-(-orders.each * len(orders.names("web")) // orders.files),
    )
    job.save(folder / "job.json")
    return job


async def send_orders(servers: str, orders: Orders) -> None:
    """The orders of the web shops, with the shop as key: those of a shop are in one partition."""
    async with Producer(servers) as producer:
        for shop, text in orders.lines("web"):
            await producer.send(INCOMING, text.encode(), key=shop.encode())


@contextlib.contextmanager
def kafka_with_topics(topics: list[str]) -> Iterator[tuple[BlockingPortal, EmbeddedKafka]]:
    """A Kafka of two brokers in a thread of its own. A topic that does not exist is not created by writing to it."""
    with start_blocking_portal() as portal:
        kafka = EmbeddedKafka(BROKERS, auto_create_topics=False)
        with portal.wrap_async_context_manager(kafka):
            for topic in topics:
                portal.call(kafka.create_topic, topic, PARTITIONS)
            yield portal, kafka


def audited(servers: str, orders: Orders) -> Verdict:
    """The verdict on all topics that the pipeline wrote, by a Spark of its own."""
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    try:
        return audit(spark, servers, orders.topics, expected=orders.expected)
    finally:
        spark.stop()


def report(verdict: Verdict, wrong: list[str], picture: Path) -> int:
    """Print the table and draw the picture; the exit code."""
    print(verdict.as_table())
    for line in wrong:
        print(line)
    print("sums                    " + (f"{len(wrong)} are wrong" if wrong else "each is that of its orders"))
    draw(picture, verdict, verdict.pieces)
    print(f"the picture: {picture}")
    return 0 if verdict.is_clean and not wrong else 1


def main(picture: str = "pipeline-report.png", each: str = str(EACH)) -> int:
    """Write, kill, and audit."""
    # The default of Spark is `python3` on the PATH.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = str(ROOT)
    orders = Orders(int(each))
    with (
        tempfile.TemporaryDirectory() as name,
        kafka_with_topics([INCOMING, *orders.topics]) as (portal, kafka),
    ):
        folder = Path(name)
        job = job_in(folder, orders, kafka.bootstrap_servers)
        orders.write_files(Path(job.files))
        asyncio.run(send_orders(job.servers, orders))
        with standalone(folder) as cluster:
            demo = Demo(portal, kafka, cluster, job, folder)
            demo.tell(f"{sum(orders.by_topic.values()):,} records are to be written")
            try:
                demo.run()
            except (RuntimeError, TimeoutError):
                print(demo.driver.log.read_text(errors="replace")[-4000:], file=sys.stderr)
                raise
            finally:
                demo.driver.kill()
        verdict = audited(job.servers, orders)
        values = (record.value or b"" for record in portal.call(kafka.records, SUMS))
        wrong = wrong_sums(orders, values)
    return report(verdict, wrong, Path(picture))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
