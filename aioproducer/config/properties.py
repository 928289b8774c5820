"""From Kafka's dotted properties, in a mapping or a file, to settings."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from aioproducer._codecs import LEVELS
from aioproducer.config.java_properties import parse_properties
from aioproducer.config.providers import ConfigProvider, UnresolvedError, replaced
from aioproducer.config.refused import class_name_problem, refusal, refuses_kafka, says_what_we_do, unknown
from aioproducer.config.security.conflicts import ignored_by_java
from aioproducer.config.security.token_conflicts import ALLOWED_URLS, URL
from aioproducer.config.table import Setting, complaint
from aioproducer.errors import ConfigurationError, printable

__all__ = ["properties_of", "read_properties"]

# As String.trim() of Java.
_BLANKS = "".join(map(chr, range(0x21)))
_OF_CODE = frozenset((ALLOWED_URLS, "allowed_brokers"))
_PROVIDERS = "config.providers"
STANDS_FOR = {"partitioner_class": "partitioner", "interceptor_classes": "interceptors"}


def read_properties(
    source: Mapping[str, Any] | str | os.PathLike[str],
    table: Mapping[str, Setting],
    values: dict[str, Any],
    problems: list[str],
    providers: Mapping[str, ConfigProvider],
) -> None:
    """Add the settings of `source` to `values`, except those already there, and append problems to `problems`."""
    written = source if isinstance(source, Mapping) else properties_of(_path(source))
    properties = _without_providers({str(name): value for name, value in written.items()}, providers)
    replaced_ones = _replace(properties, providers)
    used = _with_one_level(properties, values.get("compression_type"))
    _drop_ignored(used, table, values)
    for name, value in used.items():
        try:
            _take(name, value, table, values, problems)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001  # an object of the user raised: one problem among others
            row = table.get(name.replace(".", "_"))
            hides = name in replaced_ones or (row is not None and row.hides)
            problems.append(complaint(name, value, error, hides=hides))


@attrs.frozen
class _Unresolved:
    """In place of the value of a property that has a reference without a value."""

    why: str


def _replace(properties: dict[str, Any], providers: Mapping[str, ConfigProvider]) -> set[str]:
    """Replace the references in the values; the names of the properties that had one."""
    found = set()
    for name, value in properties.items():
        if issubclass(type(value), str) and "${" in value:
            try:
                text = replaced(str.__str__(value), providers)
            except UnresolvedError as error:
                properties[name] = _Unresolved(str(error))
            else:
                if text != value:
                    properties[name] = text
                    found.add(name)
    return found


def _without_providers(properties: dict[str, Any], providers: Mapping[str, ConfigProvider]) -> dict[str, Any]:
    """The properties without those that name Java's class for a provider that was passed."""
    named = properties.get(_PROVIDERS)
    names = set(filter(None, map(str.strip, named.split(",")))) if isinstance(named, str) else set()
    if not names or not names <= providers.keys():
        return properties
    return {
        name: value
        for name, value in properties.items()
        if name != _PROVIDERS and not name.startswith(f"{_PROVIDERS}.")
    }


def _drop_ignored(
    properties: dict[str, Any], table: Mapping[str, Setting], overrides: Mapping[str, Any]
) -> None:
    """Drop what Java ignores, such as settings of another security protocol: their values may be anything.

    A name that Kafka does not have is left, as it may be misspelled.
    """
    undotted = {name.replace(".", "_"): name for name in properties}
    named = {name: dotted for name, dotted in undotted.items() if name in table or refuses_kafka(name)}
    protocol = _word("security_protocol", "PLAINTEXT", named, properties, overrides)
    mechanism = _word("sasl_mechanism", "GSSAPI", named, properties, overrides)
    ignored = [
        named[name] for name in ignored_by_java([*named], protocol, mechanism) if name not in overrides
    ]
    told = [name for name in ignored if not says_what_we_do(name, properties[name])]
    for name in ignored:
        del properties[name]
    if told:
        logging.getLogger("aioproducer").warning(
            "properties without effect with security.protocol=%s and sasl.mechanism=%s: %s",
            printable(protocol),
            printable(mechanism),
            ", ".join(map(printable, told)),
        )


def _word(
    name: str,
    default: str,
    named: Mapping[str, str],
    properties: Mapping[str, Any],
    overrides: Mapping[str, Any],
) -> str:
    value = overrides.get(name, properties[named[name]] if name in named else default)
    # An object of the user may lie about its class.
    return str.upper(str.strip(value)) if issubclass(type(value), str) else default


def _path(given: object) -> Path:
    if not isinstance(given, str | os.PathLike):
        raise ConfigurationError(
            f"properties must be a mapping, or the path of a file as str or os.PathLike, not {type(given).__name__}"
        )
    return Path(given)


def properties_of(path: Path) -> dict[str, str]:
    """The pairs in a properties file, as they are written."""
    try:
        return parse_properties(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ConfigurationError(f"{path}: reading the file failed: {error.strerror}", cause=error) from error
    except UnicodeDecodeError:
        why = "not UTF-8; write other characters as \\uXXXX"
    except ValueError as error:
        why = str(error)
    # Behind the handlers: those errors have the contents of the file, and their frames the passwords.
    raise ConfigurationError(f"{path}: {why}")


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
    problem = _problem(dotted, value, table) or _of_code(name, dotted, values)
    if isinstance(value, _Unresolved):
        problem = f"{dotted}: {value.why}"
    if problem:
        problems.append(problem)
        return
    kind = table[name].kind
    # As Java: a space at an end that is not ASCII belongs to the value, which may be a password.
    text = str.strip(value, _BLANKS) if isinstance(value, str) else value
    values[name] = kind.check(kind.parse(text) if isinstance(text, str) else text)


def _of_code(name: str, dotted: str, overrides: Mapping[str, Any]) -> str | None:
    """The author of a file decides neither which servers get a secret, nor which of them are allowed to."""
    if name in _OF_CODE:
        return f"{dotted}: an argument only, no property; pass {name}=[…]"
    if name == URL and overrides.get(ALLOWED_URLS) is None:
        return f"{dotted}: a properties file may name it only where the application allows it; pass {ALLOWED_URLS}=[…]"
    return None


def _problem(dotted: str, value: Any, table: Mapping[str, Setting]) -> str | None:
    class_name = class_name_problem(dotted, value) if isinstance(value, str) else None
    if class_name:
        return class_name
    known = dotted.replace(".", "_") in table
    return None if known else refusal(dotted) or unknown(dotted, table)
