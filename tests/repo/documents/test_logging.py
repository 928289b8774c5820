"""docs/logging.md lists every line of the log that the library writes, and no other."""

from __future__ import annotations

import ast
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aioproducer import Producer
from aioproducer._net.log import log_of
from aioproducer.testing import EmbeddedKafka

ROOT = Path(__file__).parents[3]
METHODS = {"debug", "info", "warning", "error", "exception", "critical", "log", "_tell", "level"}
LOGS = {"log", "_log", "logger", "log_of"}
# Programs of their own.
OTHERS = {"cli", "spark", "testing"}


def templates() -> Iterator[tuple[str, str]]:
    """The place and the text of each line in the sources; parts that vary are `%s`."""
    for path in sorted((ROOT / "aioproducer").rglob("*.py")):
        if path.relative_to(ROOT / "aioproducer").parts[0] in OTHERS:
            continue
        tree = ast.parse(path.read_text())
        texts = {
            target.id: _text(node.value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name) and target.id == "text"
        }
        for call in ast.walk(tree):
            if isinstance(call, ast.Call) and _logs(call, path):
                place = f"{path.name}:{call.lineno}"
                for argument in call.args[:3]:
                    found = texts.get(argument.id) if isinstance(argument, ast.Name) else _text(argument)
                    if found is not None:
                        yield place, re.sub(r"%\.?\d*[sdrfg]", "%s", found)
                        break
                else:
                    raise AssertionError(f"the text of the line at {place} was not found")


def _logs(call: ast.Call, path: Path) -> bool:
    if isinstance(call.func, ast.Name):
        return call.func.id == "level" and path.name == "reloading.py"
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in METHODS:
        return False
    if call.func.attr == "_tell":
        return path.name == "addresses.py"
    owner: Any = call.func.value
    owner = owner.func if isinstance(owner, ast.Call) else owner
    is_log = getattr(owner, "attr", getattr(owner, "id", "")) in LOGS
    # `_tell()` passes on the text of its callers, and the log adds its prefix.
    return is_log and not (call.func.attr == "log" and path.name in {"addresses.py", "log.py"})


def _text(node: ast.expr) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def documented() -> list[str]:
    """The lines of the tables."""
    page = (ROOT / "docs" / "logging.md").read_text().partition("## Lines")[2]
    lines = re.findall(r"^\| (?:DEBUG|INFO|WARNING|ERROR)[^|]*\| `([^`]+)` \|", page, re.MULTILINE)
    return [re.sub(r"<[^>]*>", "%s", line) for line in lines]


def test_every_line_is_documented() -> None:
    """Each text in the sources stands in a table."""
    listed = set(documented())
    assert len(listed) > 50
    assert [found for found in templates() if found[1] not in listed] == []


def test_every_documented_line_exists() -> None:
    """No table has a line that the library does not write, or has it twice."""
    listed, written = documented(), {text for _, text in templates()}
    assert [line for line in listed if line not in written] == []
    assert len(listed) == len(set(listed))


async def test_fields(caplog: pytest.LogCaptureFixture) -> None:
    """A line has the producer, and the facts that it is about, as attributes; none of them replaces another."""
    caplog.set_level(logging.INFO, "aioproducer")
    async with EmbeddedKafka() as kafka:
        kafka.create_topic("t", 1)
        kafka.faults.error("NOT_ENOUGH_REPLICAS", times=2)
        async with Producer(kafka.bootstrap_servers, client_id="shop", retry_backoff_ms=1) as producer:
            await producer.send_and_wait("t", b"v")
    fields = [vars(record) for record in caplog.records]
    assert {each["client_id"] for each in fields} == {"shop"}
    connected = next(each for each in fields if "connected to broker" in each["message"])
    assert connected["broker"]
    fault = next(each for each in fields if "sent again" in each["message"])
    assert (fault["broker"], fault["error"]) == (1, "NOT_ENOUGH_REPLICAS")
    log_of("shop").warning("%s", "text", extra={"topic": "t"})
    assert (caplog.records[-1].client_id, caplog.records[-1].topic) == ("shop", "t")  # type: ignore[attr-defined]
