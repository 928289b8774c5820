"""Find the tests once, in one process, before several begin at once: each of them would compile every module of tests for itself.

    python tools/collect_tests.py [what pytest is told]

Says nothing unless that fails.
"""

from __future__ import annotations

import subprocess
import sys


def main() -> int:
    """Let pytest find what it is told to find."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", *sys.argv[1:]]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        print(done.stdout)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
