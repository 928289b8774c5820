"""Import the tests once, in one process, before several begin at once: each of them would compile every test module.

    python tools/collect_tests.py [arguments of pytest]

Prints nothing unless that fails. Their cases are not made: that takes a third of the time, and each process makes its own.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

# Of pytest, which finds modules without tests.
_NO_TESTS = 5


def pytest_pycollect_makeitem() -> list[object]:
    """As a plugin of pytest: nothing in a module is a test."""
    return []


def main() -> int:
    """Run pytest with these arguments and this plugin."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "tools.collect_tests",
        "--collect-only",
        "-q",
        *sys.argv[1:],
    ]
    root = Path(__file__).resolve().parent.parent
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, cwd=root
    )
    if done.returncode in {0, _NO_TESTS}:
        return 0
    print(done.stdout)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
