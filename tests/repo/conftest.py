"""The distribution, built once for all tests that look at it."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.repo.packaging.distribution import build_sdist, build_wheel


@pytest.fixture(scope="session")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sdist of this tree."""
    return build_sdist(tmp_path_factory.mktemp("sdist"))


@pytest.fixture(scope="session")
def wheel_for(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], Path]:
    """Gives the wheel that a Python makes of the sdist; each Python is asked once."""
    return functools.cache(lambda python: build_wheel(sdist, python, tmp_path_factory.mktemp("wheel")))


@pytest.fixture(scope="session")
def wheel(wheel_for: Callable[[Path], Path]) -> Path:
    """The wheel of the Python that runs this."""
    return wheel_for(Path(sys.executable))
