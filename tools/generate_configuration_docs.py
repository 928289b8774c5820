"""Write docs/configuration.md from the table that `ProducerConfig` is. With --check, only say whether it is current."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from aioproducer.config import SETTINGS
from aioproducer.config.refused import REFUSED, REFUSED_PREFIXES
from aioproducer.config.table import DERIVED, REQUIRED, SAME, Group, Setting

TARGET = Path(__file__).resolve().parent.parent / "docs" / "configuration.md"

HEAD = """\
# Configuration

<!-- Made by tools/generate_configuration_docs.py from the table in aioproducer/config/producer.py: change it there. -->

`Producer("localhost:9092", linger_ms=20)` and `ProducerConfig(…)` take the settings below: Kafka's producer properties, with
dots turned into underscores, with Kafka's own defaults except where "Differs" says so, and a few that Kafka does not have
(— in the column of Kafka's names).

* Settings that end in `_ms` are whole milliseconds (`int`). A float is refused, even `5.0`: it is more likely to mean seconds.
  Arguments of calls that are named `timeout` or `max_block` are seconds.
* `True` and `False` are no numbers, and numbers are no truth values.
* All settings are checked when the object is made, and all problems are told at once, in one `ConfigurationError`; `error.problems`
  has a line for each, with its fix. Nothing is silently corrected, and unknown names are told with the nearest known one.
* A configuration is frozen. It can be compared, pickled, and changed into another: `config.evolve(linger_ms=50)`.
* "derived" defaults follow other settings, also through `evolve`, until they are given.
"""

PROPERTIES = """\
## Properties files

`ProducerConfig.from_properties("client.properties")` reads a Java `.properties` file, or a mapping of dotted names:
comments (`#`, `!`), continued lines, escapes and all three separators work as in Java. The file is read as UTF-8; other
encodings can be written with `\\uXXXX`. Strings are turned into what the setting takes. Settings of this library alone are written
in the same way (`close.timeout.ms`, `linger.awaited`).

Keyword arguments take the place of properties, also of those that only a JVM can honour:

```python
config = ProducerConfig.from_properties("client.properties", value_serializer=serializers.string(), linger_ms=20)
```

No value is looked up elsewhere: no environment variables, no config providers, no class or module names.
"""

REFUSED_HEAD = """\
## Properties of Kafka that are refused

Each is an error that says what to do. A value that asks for what happens anyway (`enable.metrics.push=false`) is accepted in a
properties file.

| Kafka's name | Why, and what to do |
|---|---|
"""


def document() -> str:
    """The whole page."""
    return "\n".join([HEAD, *map(_chapter, Group), PROPERTIES, REFUSED_HEAD + "\n".join(_refusals()) + "\n"])


def _chapter(group: Group) -> str:
    lines = [row for setting in SETTINGS.values() if setting.group is group for row in _row(setting)]
    head = ["| Setting | Kafka's name | Default | Values | Meaning |", "|---|---|---|---|---|"]
    return "\n".join([f"## {group.value}", "", *head, *lines, ""])


def _row(setting: Setting) -> Iterator[str]:
    kafka = f"`{setting.dotted}`" if setting.is_kafkas else "—"
    differs = f" *Differs: {setting.differs}.*" if setting.differs else ""
    yield _cells(f"`{setting.name}`", kafka, _default(setting), setting.kind.range, setting.meaning + differs)


def _cells(*cells: str) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _default(setting: Setting) -> str:
    if setting.default is REQUIRED:
        return "required"
    if setting.default is DERIVED:
        return "derived" if setting.kafka_default is None else f"derived (`{setting.kafka_default}`)"
    own = "`'all'`" if setting.name == "acks" else f"`{setting.default!r}`"
    differs = setting.differs and setting.kafka_default not in {SAME, None, REQUIRED}
    return f"{own} (Kafka: `{setting.kafka_default!r}`)" if differs else own


def _refusals() -> Iterator[str]:
    for name, refusal in sorted(REFUSED.items()):
        yield _cells(f"`{name.replace('_', '.')}`", refusal.reason)
    for prefix, refusal in REFUSED_PREFIXES.items():
        yield _cells(f"every other `{prefix.replace('_', '.')}*`", refusal.reason)


def main(arguments: list[str]) -> int:
    """Write the page, or compare it."""
    wanted = document()
    if "--check" not in arguments:
        TARGET.write_text(wanted, encoding="utf-8")
        return 0
    if TARGET.is_file() and TARGET.read_text(encoding="utf-8") == wanted:
        return 0
    print(f"{TARGET.name} is not what the table says: run python tools/generate_configuration_docs.py")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
