"""The findings of a configuration that cannot be used: each problem, with the values that its setting may have."""

from __future__ import annotations

import re
from typing import Final

from aioproducer._state.diagnosing.finding import Finding
from aioproducer.config import SETTINGS
from aioproducer.documentation import page
from aioproducer.errors import ConfigurationError

__all__ = ["unusable"]

_NAME: Final = re.compile(r"[\w.]+")


def unusable(error: BaseException) -> list[Finding]:
    """The findings of settings that cannot be used: one for each problem."""
    if isinstance(error, ConfigurationError):
        return [Finding.fail(problem, _advice(problem)) for problem in error.problems or (str(error),)]
    if isinstance(error, TimeoutError):
        text = "the files and secrets of the settings were not read in time"
        return [
            Finding.fail(text, "Check the stores, and the callables that give secrets: one of them hangs.")
        ]
    return [Finding.fail(str(error), "Check the file, variable or callable that gives this secret.")]


def _advice(problem: str) -> str:
    """The values of the setting that the problem begins with, and its meaning."""
    name = _NAME.match(problem)
    row = None if name is None else SETTINGS.get(name[0].replace(".", "_"))
    if row is None:
        return f"Correct the name, or remove it. All settings: {page('configuration.md')}"
    return f"Values of {row.dotted}: {row.kind.range}. {row.meaning} See {page('configuration.md')}"
