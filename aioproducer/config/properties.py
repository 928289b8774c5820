"""From Kafka's dotted properties, in a mapping or a file, to settings."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from aioproducer._codecs import LEVELS
from aioproducer.config.java_properties import CUT, Line, parse_properties
from aioproducer.config.providers import BLANKS, ConfigProvider, UnresolvedError, replaced
from aioproducer.config.refused import class_name_problem, refusal, refuses_kafka, says_what_we_do, unknown
from aioproducer.config.security.conflicts import ignored_by_java
from aioproducer.config.security.token_conflicts import ALLOWED_URLS, URL
from aioproducer.config.shown import Origin, is_like_a_name
from aioproducer.config.table import Setting, complaint
from aioproducer.errors import ConfigurationError, printable

__all__ = ["properties_of", "read_properties", "written_in"]

_OF_CODE = frozenset((ALLOWED_URLS, "allowed_brokers"))
_PROVIDERS = "config.providers"
_LINE_ENDS = frozenset("\r\n\0")
STANDS_FOR = {"partitioner_class": "partitioner", "interceptor_classes": "interceptors"}


def written_in(source: Mapping[str, Any] | str | os.PathLike[str]) -> Mapping[str, Any]:
    """The properties of a mapping or a file."""
    if isinstance(source, Mapping):
        return source
    try:
        return properties_of(_path(source))
    finally:
        # No frame of a traceback keeps the text of a file in place of its path.
        del source


def read_properties(
    written: Mapping[str, Any],
    table: Mapping[str, Setting],
    values: dict[str, Any],
    problems: list[str],
    providers: Mapping[str, ConfigProvider],
) -> None:
    """Add the settings of `written` to `values`, except those already there, and append problems to `problems`."""
    given = {str(name): value for name, value in written.items()}
    origins = {name: _origin(value, number) for number, (name, value) in enumerate(given.items(), start=1)}
    properties = _without_providers({name: _value_of(value) for name, value in given.items()}, providers)
    replaced_ones = _replace(properties, providers)
    used = _with_one_level(properties, values.get("compression_type"))
    _drop_ignored(used, table, values)
    for name, value in used.items():
        origin = origins.get(name, Origin(name))
        try:
            _take(name, value, table, values, problems, origin)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001  # an object of the user raised: one problem among others
            row = table.get(name.replace(".", "_"))
            hides = name in replaced_ones or row is None or row.hides
            shown = origin.place if row is None else name
            told = _of_provider(error, row) if name in replaced_ones else error
            problems.append(complaint(shown, value, told, hides=hides))


@attrs.frozen
class _Unresolved:
    """In place of the value of a property that has a reference without a value, or a part of its text."""

    why: str


def _origin(value: object, number: int) -> Origin:
    """The place of a property: its line in a file, its number in a mapping."""
    if type(value) is Line:
        return Origin(f"line {value.number}", value.is_assigned)
    return Origin(f"property {number}")


def _value_of(given: Any) -> Any:
    if type(given) is not Line:
        return given
    return _Unresolved(CUT) if given.is_cut else given.value


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
            _choice(protocol, table["security_protocol"]),
            _choice(mechanism, table["sasl_mechanism"]),
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


def _choice(word: str, row: Setting) -> str:
    """The word, if it is one of the setting; any other text may be a secret."""
    try:
        return str(row.kind.check(word))
    except ValueError:
        return "(none of its values)"


def _of_provider(error: BaseException, row: Setting | None) -> BaseException:
    """The error about a value of a provider: a kind of several parts shows the part that is wrong."""
    return ValueError(f"must be {row.kind.range}") if row is not None and row.shows_parts else error


def _path(given: object) -> Path:
    kind = type(given).__name__
    if isinstance(given, str | os.PathLike):
        path = os.fspath(given)
        if isinstance(path, str) and not _LINE_ENDS & set(path):
            return Path(path)
        del path
    # No frame of a traceback keeps the text of a file in place of its path.
    del given
    if kind == "str":
        raise ConfigurationError("properties must be a mapping, or the path of a file, and not its text")
    raise ConfigurationError(
        f"properties must be a mapping, or the path of a file as str or os.PathLike, not {kind}"
    )


def properties_of(path: Path) -> dict[str, Line]:
    """The pairs in a properties file, as they are written."""
    # A property in place of the path may be a password.
    shown = "a file with '=' in its name, which is not shown" if "=" in str(path) else str(path)
    cause = None
    try:
        return parse_properties(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        why = f"reading the file failed: {error.strerror}"
        cause = error if shown == str(path) else None
    except UnicodeDecodeError:
        why = "not UTF-8; write other characters as \\uXXXX"
    except ValueError as error:
        why = str(error)
    del path
    # Behind the handlers: those errors have the contents of the file, and their frames the passwords.
    raise ConfigurationError(f"{shown}: {why}", cause=cause)


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
    dotted: str,
    value: Any,
    table: Mapping[str, Setting],
    values: dict[str, Any],
    problems: list[str],
    origin: Origin,
) -> None:
    name = dotted.replace(".", "_")
    if STANDS_FOR.get(name, name) in values or says_what_we_do(dotted, value):
        return
    problem = _problem(dotted, value, table, origin) or _of_code(name, dotted, values)
    if isinstance(value, _Unresolved):
        is_shown = name in table or (is_like_a_name(dotted) and origin.is_assigned)
        problem = f"{dotted if is_shown else origin.place}: {value.why}"
    if problem:
        problems.append(problem)
        return
    kind = table[name].kind
    # As Java: a space at an end that is not ASCII belongs to the value, which may be a password.
    text = str.strip(value, BLANKS) if isinstance(value, str) else value
    values[name] = kind.check(kind.parse(text) if isinstance(text, str) else text)


def _of_code(name: str, dotted: str, overrides: Mapping[str, Any]) -> str | None:
    """The author of a file decides neither which servers get a secret, nor which of them are allowed to."""
    if name in _OF_CODE:
        return f"{dotted}: an argument only, no property; pass {name}=[…]"
    if name == URL and overrides.get(ALLOWED_URLS) is None:
        return f"{dotted}: a properties file may name it only where the application allows it; pass {ALLOWED_URLS}=[…]"
    return None


def _problem(dotted: str, value: Any, table: Mapping[str, Setting], origin: Origin) -> str | None:
    class_name = class_name_problem(dotted, value) if isinstance(value, str) else None
    if class_name:
        return class_name
    known = dotted.replace(".", "_") in table
    return None if known else refusal(dotted) or unknown(dotted, value, origin, table)
