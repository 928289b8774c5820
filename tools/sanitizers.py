"""The compiled core under gcc's address and undefined-behaviour sanitizers.

    python -m tools.sanitizers FOLDER    print what they have reported there; the exit code is 1 if there is anything

Python itself is the usual one, so the sanitizers are preloaded. Its memory comes from malloc: in the blocks of its own
allocator they would see nothing. They do not look for leaks, because Python leaves memory behind at its end.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

FLAGS: Final = "-O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=undefined"
# The rest are warnings, such as of an allocation that is larger than they allow.
FINDINGS: Final = ("ERROR: AddressSanitizer", "runtime error:")


def compiling() -> list[str]:
    """The command that compiles a tree's modules in place; a distribution's own settings of the compiler come first."""
    return ["env", "CC=gcc", f"CFLAGS={FLAGS}", sys.executable, "setup.py", "build_ext", "--inplace"]


def emptied(folder: Path) -> Path:
    """A folder without what another run has left there."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def preparation(reports: Path) -> list[str]:
    """What stands before a command whose processes, and those they start, are watched; each leaves its report in a folder."""
    libraries = " ".join(library(name) for name in ("libasan.so", "libstdc++.so"))
    report = f"log_path={reports / 'report'}"
    return [
        "env", f"LD_PRELOAD={libraries}", "PYTHONMALLOC=malloc",
        # A test asks for more memory than there is: that is a MemoryError.
        f"ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1:handle_abort=2:{report}",
        f"UBSAN_OPTIONS=abort_on_error=1:{report}",
    ]  # fmt: skip


def library(name: str) -> str:
    """Where the compiler has it."""
    command = ["gcc", f"-print-file-name={name}"]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def findings(reports: Path) -> list[str]:
    """The reports that tell of an error: also of processes whose end no test looks at."""
    texts = [path.read_text(errors="replace") for path in sorted(reports.glob("report.*"))]
    return [text for text in texts if any(finding in text for finding in FINDINGS)]


def main() -> int:
    """Print what was found."""
    found = findings(Path(sys.argv[1]))
    print("\n".join(found) or "nothing reported")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
