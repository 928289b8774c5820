"""The example of a tested application: its tests are found, run and pass."""

from __future__ import annotations

from aioproducer.testing import EmbeddedKafka
from tests.examples.programs import example, run


async def test_its_tests_pass(embedded_kafka: EmbeddedKafka) -> None:
    """pytest, given the folder, finds every test of it, and all pass without a warning."""
    folder = example("testing_your_code")
    written = (folder / "test_orders.py").read_text().count("async def test_")
    ended = await run(embedded_kafka, "-m", "pytest", "-p", "no:cacheprovider", folder)
    assert ended.code == 0, ended.output
    assert ended.output.splitlines()[-1].strip("= ").startswith(f"{written} passed in ")
