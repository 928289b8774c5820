"""Reading secrets where they are kept. Errors name the setting, and never have the secret or an error of user code."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from aioproducer._net.connecting.conversing import in_a_thread
from aioproducer.config import FileReference
from aioproducer.errors import AuthenticationError, ConfigurationError
from aioproducer.secret import Secret, SecretCall, SecretEnv, SecretFile

if TYPE_CHECKING:
    from aioproducer._net.securing.calling import UserFunctions
    from aioproducer.secret import SecretSource

__all__ = ["revealed", "revealed_all"]

_LARGEST: Final = 1024 * 1024


async def revealed_all(sources: Mapping[str, SecretSource], functions: UserFunctions) -> dict[str, Secret]:
    """The secrets of these settings."""
    return {setting: await revealed(setting, source, functions) for setting, source in sources.items()}


async def revealed(setting: str, source: SecretSource, functions: UserFunctions) -> Secret:
    """The secret of a setting: ConfigurationError for a file or variable that is not there."""
    match source:
        case SecretFile(path):
            return await in_a_thread(partial(_content, setting, path))
        case SecretEnv(name):
            if name not in os.environ:
                raise ConfigurationError(f"{setting}: the environment variable {name} is not set")
            return Secret(os.environ[name])
        case SecretCall():
            return await _called(setting, source, functions)
    return source


def _content(setting: str, path: str) -> Secret:
    try:
        # Editors of Windows begin a file with a mark of its encoding.
        with Path(path).open(encoding="utf-8-sig") as file:
            return Secret(file.read(_LARGEST).removesuffix("\n").removesuffix("\r"))
    except OSError as error:
        why = error.strerror or type(error).__name__
    except ValueError:
        why = "it is not UTF-8 text, or its path is none"
    raise ConfigurationError(f"{setting}: reading {path} failed: {why}")


async def _called(setting: str, source: SecretCall, functions: UserFunctions) -> Secret:
    # No local variable holds the value: some error reports show those of each frame.
    given = await functions.call(source.function)
    if isinstance(given.value, str | Secret):
        return given.value if isinstance(given.value, Secret) else Secret(given.value)
    why = given.problem or f"gave {type(given.value).__name__} in place of a string"
    # The reason of a reference names its file.
    told = why if isinstance(source.function, FileReference) else f"the callable {why}"
    raise AuthenticationError(f"{setting}: {told}", reason="credentials", retriable=True)
