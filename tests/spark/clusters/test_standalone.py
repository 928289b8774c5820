"""A standalone cluster and `spark-submit`: the library installed on the workers, in an archive, or in a zip."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.clusters.packing import pack_by_venv_pack, pack_environment, zip_package
from tests.spark.clusters.page import ROWS, write_program
from tests.spark.clusters.standalone import StandaloneCluster
from tests.spark.exactly_once.epochs import ROWS as ROWS_OF_A_FILE
from tests.spark.exactly_once.epochs import folder_of_epochs
from tests.spark.rows import committed, numbers, once

if TYPE_CHECKING:
    from tests.spark.conftest import MakeTopic

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(900)]

PROGRAM = Path(__file__).parent / "programs" / "batch_and_stream.py"
COUNT = 20_000
FILES = 2


@pytest.fixture
def given(options: dict[str, str]) -> tuple[str, str]:
    """The target of the rows: the servers, and a topic."""
    return options["kafka.bootstrap.servers"], options["topic"]


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an environment that has the library, and the same in an archive."""
    folder = tmp_path_factory.mktemp("packed")
    pack_environment(folder / "env.tar.gz", folder / "made")
    (folder / "env").mkdir()
    subprocess.run(["tar", "-xzf", "env.tar.gz", "-C", "env"], cwd=folder, check=True)
    pack_by_venv_pack(folder / "packed.tar.gz", folder / "env")
    return folder


def test_installed_where_the_workers_are(
    cluster: StandaloneCluster,
    options: dict[str, str],
    make_topic: MakeTopic,
    packed: Path,
    tmp_path: Path,
) -> None:
    """Spark finds the format by its name; a batch and a stream are there once."""
    batch, stream = make_topic(), make_topic()
    source = folder_of_epochs(tmp_path / "source", FILES)
    submitted = cluster.submit(
        PROGRAM,
        options["kafka.bootstrap.servers"],
        batch,
        stream,
        str(source),
        str(tmp_path / "checkpoint"),
        str(COUNT),
        folder=tmp_path,
        PYSPARK_PYTHON=str(packed / "env" / "bin" / "python"),
    ).require_success()
    assert numbers(committed(options, batch)) == once(COUNT)
    assert numbers(committed(options, stream)) == once(FILES * ROWS_OF_A_FILE)
    (place,) = json.loads(submitted)
    assert Path(place).is_relative_to(packed / "env")


@pytest.mark.parametrize("archive", ["env.tar.gz", "packed.tar.gz"], ids=["tar", "venv-pack"])
def test_shipped_in_an_archive(
    cluster: StandaloneCluster, options: dict[str, str], packed: Path, tmp_path: Path, archive: str
) -> None:
    """The program of the page, with the archive's Python for the tasks and another for the driver."""
    program = write_program(0, tmp_path / "orders.py", options)
    shipping = ["--archives", f"{archive}#env"]
    for who in ("python", "driver.python"):
        shipping += ["--conf", f"spark.pyspark.{who}=./env/bin/python"]
    cluster.submit(program, folder=packed, options=shipping).require_success()
    assert numbers(committed(options)) == once(ROWS)
    assert re.search(rf"Unpacking an archive \S*{archive}#env", cluster.logs_of_executors())


ADDED_LATER = """
import sys
import aioproducer.spark
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
spark.sparkContext.addPyFile(sys.argv[1])
df = spark.range(3).selectExpr("cast(id as string) as value")
aioproducer.spark.write(df, {"kafka.bootstrap.servers": sys.argv[2], "topic": sys.argv[3]})
"""


@pytest.mark.parametrize(
    ("program", "flags"),
    [
        ("import aioproducer.spark\n", ["--py-files", "library.zip"]),
        (ADDED_LATER, ["--conf", "spark.task.maxFailures=1"]),
    ],
    ids=["at once", "behind the import of the driver"],
)
def test_a_zip_is_refused_with_what_to_do(
    cluster: StandaloneCluster, program: str, flags: list[str], given: tuple[str, str], tmp_path: Path
) -> None:
    """Compiled modules cannot be imported from a zip: the error says so, and names --archives."""
    zip_package(tmp_path / "library.zip")
    file = tmp_path / "imports.py"
    file.write_text(program)
    submitted = cluster.submit(
        file, "library.zip", *given, folder=tmp_path, options=flags, PYSPARK_PYTHON=sys.executable
    )
    assert submitted.exit_code != 0
    assert "ImportError: aioproducer is compiled and cannot be imported from the zip" in submitted.printed
    assert "--archives" in submitted.printed
