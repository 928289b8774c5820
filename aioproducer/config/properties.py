"""From Kafka's dotted properties, in a mapping or a file, to settings."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aioproducer._codecs import LEVELS
from aioproducer.config.java_properties import parse_properties
from aioproducer.config.refused import class_name_problem, refusal, says_what_we_do, unknown
from aioproducer.config.table import Setting, complaint
from aioproducer.errors import ConfigurationError

__all__ = ["read_properties"]

STANDS_FOR = {"partitioner_class": "partitioner", "interceptor_classes": "interceptors"}


def read_properties(
    source: Mapping[str, Any] | str | os.PathLike[str],
    table: Mapping[str, Setting],
    values: dict[str, Any],
    problems: list[str],
) -> None:
    """Add the settings of `source` to `values`, except those already there, and append problems to `problems`."""
    properties = source if isinstance(source, Mapping) else _file(_path(source))
    for dotted, value in _with_one_level(properties, values.get("compression_type")).items():
        name = str(dotted)
        try:
            _take(name, value, table, values, problems)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001  # an object of the user raised: one problem among others
            problems.append(complaint(name, value, error))


def _path(given: object) -> Path:
    if not isinstance(given, str | os.PathLike):
        raise ConfigurationError(
            f"properties must be a mapping, or the path of a file as str or os.PathLike, not {type(given).__name__}"
        )
    return Path(given)


def _file(path: Path) -> dict[str, str]:
    try:
        return parse_properties(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ConfigurationError(f"{path}: reading the file failed: {error.strerror}", cause=error) from error
    except UnicodeDecodeError:
        raise ConfigurationError(f"{path}: not UTF-8; write other characters as \\uXXXX") from None
    except ValueError as error:
        raise ConfigurationError(f"{path}: {error}") from None


def _with_one_level(properties: Mapping[str, Any], override: str | None) -> dict[str, Any]:
    """Kafka has a level for each type, and ignores all except that of the type in use."""
    levels = {f"compression.{kind}.level" for kind in LEVELS}
    rest = {name: value for name, value in properties.items() if name not in levels}
    in_use = properties.get("compression.type", "none") if override is None else override
    kind = str.__str__(in_use).strip().lower() if issubclass(type(in_use), str) else "none"
    level = properties.get(f"compression.{kind}.level")
    if level is None or (
        kind == "gzip" and type(level) in (int, str) and str(level).strip() == "-1"
    ):  # gzip's own
        return rest
    return {"compression.level": level} | rest


def _take(
    dotted: str, value: Any, table: Mapping[str, Setting], values: dict[str, Any], problems: list[str]
) -> None:
    name = dotted.replace(".", "_")
    if STANDS_FOR.get(name, name) in values or says_what_we_do(dotted, value):
        return
    problem = _problem(dotted, value, table)
    if problem:
        problems.append(problem)
        return
    kind = table[name].kind
    text = str.strip(value) if isinstance(value, str) else value
    values[name] = kind.check(kind.parse(text) if isinstance(text, str) else text)


def _problem(dotted: str, value: Any, table: Mapping[str, Setting]) -> str | None:
    class_name = class_name_problem(dotted, value) if isinstance(value, str) else None
    if class_name:
        return class_name
    known = dotted.replace(".", "_") in table
    return None if known else refusal(dotted) or unknown(dotted, table)
