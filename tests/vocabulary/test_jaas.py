"""JAAS strings, read as Kafka reads them."""

from __future__ import annotations

import contextlib
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioproducer.config.security.jaas import LoginModule, parse_jaas
from tests.golden.java import run_java
from tests.seeds import fresh_seed

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


@pytest.mark.parametrize(
    "text",
    [
        f'{PLAIN} required username="alice" password="a b;=/";',
        f"{PLAIN} REQUIRED username=alice password='a b;=/' ;",
        f'{PLAIN} required // a comment\n username="alice" /* another */ password="a b;=/";\n',
        f'{PLAIN} required\n    username="\\141lice"\n    password="a\\040b\\073\\75/";',
    ],
)
def test_ways_to_write_the_same(text: str) -> None:
    """Quotes of both kinds, words, comments and escapes of Java."""
    module = parse_jaas(text)
    assert (module.class_name, module.name) == (PLAIN, "PlainLoginModule")
    assert dict(module.options) == {"username": "alice", "password": "a b;=/"}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it ends where a login module is missing"),
        ("; required;", "a login module cannot begin at position 0"),
        (PLAIN, "it ends where a flag"),
        (f"{PLAIN} always;", "no flag, such as 'required', before position 62"),
        (f"{PLAIN} required", "does not end with ';'"),
        (f"{PLAIN} required password", "does not end with ';'"),
        (f"{PLAIN} required password canary;", "no '=' at position 74"),
        (f"{PLAIN} required password=;", "put it in double quotes, or it cannot begin at position 74"),
        (f"{PLAIN} required password=7canary;", "put it in double quotes"),
        (f"{PLAIN} required password=canary!;", "an option or ';' cannot begin at position 80"),
        (f"{PLAIN} required; {PLAIN} required;", "another login module begins at position 66"),
        (" " * 65537, "more than 65536 characters"),
    ],
)
def test_what_is_refused(text: str, why: str) -> None:
    """The error names a position and never shows the text."""
    with pytest.raises(ValueError, match=why) as raised:
        parse_jaas(text)
    assert "canary" not in str(raised.value)


def test_options_are_not_shown() -> None:
    """They have passwords."""
    module = parse_jaas(f"{PLAIN} required password=canary;")
    assert "canary" not in repr(module)
    assert module == LoginModule(PLAIN, {"password": "canary"})


@given(st.text())
def test_random_text(text: str) -> None:
    """Any text gives a module or a ValueError."""
    with contextlib.suppress(ValueError):
        parse_jaas(f"{PLAIN} required password={text}")


_PARTS = (
    *("a", "Module", "required", "Optional", "user", "=", "=", ";", ";", " ", " ", "\n", "\r", "\t"),
    *('"x y"', "'x;y'", '"', "'", "\\", "\\n", "\\7", "\\400", "\\12", "/", "//", "/*", "*/", "*"),
    *("1", "-", ".", "_", "$", "!", "@", "\x7f", "\x9f", "\xa0", "ä", "\u2460", "a-b.c", "=v;", ' k="v"'),
)


def _drawn(rng: random.Random) -> str:
    """A string that is often nearly right."""
    parts = rng.choices(_PARTS, k=rng.randrange(8))
    if rng.random() < 0.8:
        parts.insert(0, rng.choice(["a.B required ", "a.B required k=", 'a.B optional k="v']))
    if rng.random() < 0.8:
        parts.append(rng.choice([";", '";', "v;", "=v;"]))
    return "".join(parts)


def _ours(text: str) -> str:
    try:
        module = parse_jaas(text)
    except ValueError:
        return "refused"
    in_utf16 = sorted(module.options.items(), key=lambda option: option[0].encode("utf-16-be"))
    options = [f" {key.encode().hex()}={value.encode().hex()}" for key, value in in_utf16]
    return module.class_name.encode().hex() + "".join(options)


@pytest.mark.kafka
def test_as_kafka_itself() -> None:
    """Kafka's own parser gives the same modules and options, and refuses the same strings."""
    rng = random.Random(fresh_seed())
    drawn = [_drawn(rng) for _ in range(2000)]
    theirs = run_java("ReadJaas", "".join(f"{text.encode().hex()}\n" for text in drawn)).splitlines()
    ours = [_ours(text) for text in drawn]
    different = [each for each in zip(drawn, ours, theirs, strict=True) if each[1] != each[2]]
    assert different == []
    assert 100 < ours.count("refused") < 1900
