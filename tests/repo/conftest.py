"""The distribution, built once for all tests that look at it."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.collector import keep_what_is_there
from tests.repo.packaging.distribution import build_sdist, build_wheel
from tests.repo.source import parsed


@pytest.fixture(scope="module", autouse=True)
def keep_syntax_trees() -> Iterator[None]:
    """Freeze those of all sources: with them, each collection in a later test of this process takes a second."""
    before = parsed.cache_info().misses
    yield
    if parsed.cache_info().misses > before:
        keep_what_is_there()


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
