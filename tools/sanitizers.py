"""The compiled core under gcc's address and undefined-behaviour sanitizers.

    python -m tools.sanitizers FOLDER    print the reports there; the exit code is 1 if there is one

Python itself is the usual one, so the sanitizers are preloaded. Its memory comes from malloc: they cannot check the
blocks of Python's own allocator. They do not look for leaks, because Python does not free all memory at its end.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

FLAGS: Final = "-O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=undefined"
# Other lines are warnings, such as of an allocation that is larger than they allow.
FINDINGS: Final = ("ERROR: AddressSanitizer", "runtime error:")


def compiling() -> list[str]:
    """The command that compiles a tree's modules in place; a distribution's own compiler settings come first."""
    return ["env", "CC=gcc", f"CFLAGS={FLAGS}", sys.executable, "setup.py", "build_ext", "--inplace"]


def emptied(folder: Path) -> Path:
    """An empty folder for the reports."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def preparation(reports: Path) -> list[str]:
    """The beginning of a watched command; each of its processes leaves its report in a folder."""
    libraries = " ".join(library(name) for name in ("libasan.so", "libstdc++.so"))
    report = f"log_path={reports / 'report'}"
    return [
        "env", f"LD_PRELOAD={libraries}", "PYTHONMALLOC=malloc",
        # A test requests more memory than there is, and expects a MemoryError.
        f"ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1:handle_abort=2:{report}",
        f"UBSAN_OPTIONS=abort_on_error=1:{report}",
    ]  # fmt: skip


def library(name: str) -> str:
    """The compiler's path of the library."""
    command = ["gcc", f"-print-file-name={name}"]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def findings(reports: Path) -> list[str]:
    """The reports of errors, also of processes whose end no test checks."""
    texts = [path.read_text(errors="replace") for path in sorted(reports.glob("report.*"))]
    return [text for text in texts if any(finding in text for finding in FINDINGS)]


def main() -> int:
    """Print the reports."""
    found = findings(Path(sys.argv[1]))
    print("\n".join(found) or "nothing reported")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
