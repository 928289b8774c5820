"""Write the version of the library into pyproject.toml and the package.

python -m tools.version            a development version of the next minor release, with today's date
python -m tools.version 1.2.0      a release
"""

from __future__ import annotations

import datetime
import re
import sys
from pathlib import Path

from tools.one_check import ROOT

PLACES = {
    "pyproject.toml": r'^version = "(.*)"',
    "aioproducer/__init__.py": r'^__version__ = "(.*)"',
    "aioproducer/_net/connecting/dialing.py": r'^SOFTWARE_VERSION = "(.*)"',
}
VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)(?:\.dev(\d{8}))?")


def development(current: str, day: datetime.date) -> str:
    """The development version of a day: of the release in development, or of the next one."""
    match = VERSION.fullmatch(current)
    if match is None:
        raise ValueError(f"{current!r} is neither a release (1.2.0) nor a dated development version")
    major, minor, patch, dated = match.groups()
    release = f"{major}.{minor}.{patch}" if dated else f"{major}.{int(minor) + 1}.0"
    return f"{release}.dev{day:%Y%m%d}"


def written(text: str, pattern: str, version: str) -> str:
    """The text of a file with another version."""
    found = _match(text, pattern)
    return f"{text[: found.start(1)]}{version}{text[found.end(1) :]}"


def _match(text: str, pattern: str) -> re.Match[str]:
    found = re.search(pattern, text, re.MULTILINE)
    if found is None:
        raise LookupError(f"no line matches {pattern}")
    return found


def current() -> str:
    """The version in pyproject.toml."""
    text = (ROOT / "pyproject.toml").read_text()
    return _match(text, PLACES["pyproject.toml"])[1]


def main(arguments: list[str]) -> None:
    """Write a version everywhere."""
    today = datetime.datetime.now(datetime.UTC).date()
    version = arguments[0] if arguments else development(current(), today)
    if not VERSION.fullmatch(version):
        sys.exit(
            f"{version!r} is neither a release (1.2.0) nor a dated development version (1.2.0.dev20261123)"
        )
    for name, pattern in PLACES.items():
        path: Path = ROOT / name
        path.write_text(written(path.read_text(), pattern, version))
    print(version)


if __name__ == "__main__":
    main(sys.argv[1:])
