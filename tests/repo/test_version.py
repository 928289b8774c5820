"""The version: a release, or a dated development version that follows the code; the same wherever it stands."""

from __future__ import annotations

import datetime
import re
import subprocess

import pytest

from tests.repo.source import ROOT
from tools.version import PLACES, VERSION, current, development, written

DAY = datetime.date(2027, 1, 9)


def test_the_version_stands_once_in_each_of_its_places() -> None:
    """pyproject.toml, `__version__` and the version in requests to brokers are the same."""
    found = [re.findall(pattern, (ROOT / name).read_text(), re.MULTILINE) for name, pattern in PLACES.items()]
    assert found == [[current()]] * len(PLACES)


def test_a_development_version_follows_the_code() -> None:
    """Its date is at most 14 days before the last commit: `python -m tools.version` writes today's."""
    version = VERSION.fullmatch(current())
    assert version is not None
    if version[4] is not None:
        command = ["git", "log", "-1", "--format=%cs"]
        committed = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout.strip()
        dated = datetime.datetime.strptime(f"{version[4]}Z", "%Y%m%d%z").date()
        assert datetime.date.fromisoformat(committed) - dated <= datetime.timedelta(days=14)


@pytest.mark.parametrize(
    ("before", "after"), [("1.2.3", "1.3.0.dev20270109"), ("1.3.0.dev20261123", "1.3.0.dev20270109")]
)
def test_the_next_development_version(before: str, after: str) -> None:
    """Behind a release comes the next minor one; a development version gets another date."""
    assert development(before, DAY) == after


def test_what_is_no_version_is_refused() -> None:
    """A version that nothing could follow is not written."""
    with pytest.raises(ValueError, match=r"'1\.2' is neither a release"):
        development("1.2", DAY)
    with pytest.raises(LookupError):
        written("nothing", r'^version = "(.*)"', "1.0.0")
