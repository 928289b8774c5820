"""Memory that fails: each allocation of the sending calls fails once, and a call that raises has no record in the log."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path

from tests.runtime.support import ROOT
from tests.slowness import SLOWNESS

SOURCE = Path(__file__).with_name("starvation.c")


def built(folder: Path) -> Path:
    """Compile the module that lets allocations fail; the folder where it is."""
    compiler = shlex.split(sysconfig.get_config_var("CC") or "cc")
    headers = sysconfig.get_paths()["include"]
    command = [*compiler, "-O1", "-shared", "-fPIC", f"-I{headers}", str(SOURCE)]
    subprocess.run([*command, "-o", str(folder / "starvation.so")], check=True)
    return folder


def test_each_allocation_of_a_send_fails_once(tmp_path: Path) -> None:
    """MemoryError, nothing read or written beyond its memory, no record where one was refused, and the producer goes on.

    Python's debug allocator finds writes beyond a block, and overwrites freed blocks.
    """
    environment = {
        # Sanitizers see nothing in its blocks: they ask for another allocator.
        "PYTHONMALLOC": "debug",
        **os.environ,
        "PYTHONPATH": f"{ROOT}{os.pathsep}{built(tmp_path)}",
    }
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-W", "error", "-m", "tests.runtime.starvation.starved"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=50 * SLOWNESS,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert len(lines) == 25
    for line in lines:
        name, _, told = line.rpartition(": ")
        failed, refused, findings = told.split(", ", 2)
        assert findings == "[]", line
        # Each failure is reported, except that the loop's next turn could not be requested.
        # Without room `send_nowait` is refused also when nothing fails.
        assert (
            0
            < int(refused.split()[0])
            <= int(failed.split()[0]) + ("send_nowait, waiting for memory" in name)
        ), name
