"""Collect the tests once, in one process, before several begin at once: each of them would compile every test module.

    python tools/collect_tests.py [arguments of pytest]

Prints nothing unless that fails.
"""

from __future__ import annotations

import subprocess
import sys


def main() -> int:
    """Run the collection of pytest with these arguments."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", *sys.argv[1:]]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        print(done.stdout)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
