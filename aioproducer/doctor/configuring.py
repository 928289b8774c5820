"""The findings of a configuration that cannot be used: each problem, with the values that its setting may have."""

from __future__ import annotations

import re
from typing import Final

from aioproducer._state.diagnosing.finding import Finding
from aioproducer.config import SETTINGS
from aioproducer.documentation import page
from aioproducer.errors import ConfigurationError

__all__ = ["unusable"]

# The setting that a problem is about: `acks=7: ...`, `foo: ...`, `bootstrap.servers is missing: ...`.
_NAME: Final = re.compile(r"[\w.]+(?==|:| is )")
_UNKNOWN: Final = "no such setting"


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
    name, reference = _NAME.match(problem), page("configuration.md")
    row = None if name is None else SETTINGS.get(name[0].replace(".", "_"))
    if row is not None:
        return f"Values of {row.dotted}: {row.kind.range}. {row.meaning.replace('`', '')} See {reference}"
    if _UNKNOWN in problem:
        return f"Correct the name, or remove it. All settings: {reference}"
    return f"Correct it: see {reference}"
