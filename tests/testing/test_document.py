"""What docs/testing.md shows is true: its code runs as the test modules that it says they are."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
BLOCKS = re.findall(
    r"^```python\n(.*?)^```", (ROOT / "docs" / "testing.md").read_text(), re.MULTILINE | re.DOTALL
)


def test_examples_pass(tmp_path: Path) -> None:
    """Every Python block of the document is a test module that passes, without a warning."""
    for number, source in enumerate(BLOCKS, 1):
        (tmp_path / f"test_block_{number}.py").write_text(source)
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\nfilterwarnings = error\n"
    )
    plugins = ["-p", "pytest_asyncio.plugin", "-p", "aioproducer.testing.pytest_plugin"]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *plugins],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    tests = sum(source.count("async def test_") for source in BLOCKS)
    assert f"{tests} passed" in run.stdout, run.stdout + run.stderr
