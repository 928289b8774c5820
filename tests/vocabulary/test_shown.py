"""Names and values in errors about settings: what may be a part of a secret is not shown, nor kept in a frame."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.pretty import pretty_repr

from aioproducer import (
    ConfigurationError,
    DirectoryProvider,
    EnvProvider,
    FileProvider,
    Producer,
    ProducerConfig,
    Secret,
    SecretEnv,
    SecretFile,
)
from aioproducer.auth import AwsCredentials, Token
from aioproducer.config import SETTINGS
from tests.reports import kept, report

CANARY = "canary7"
LINE = f"MIIEvQIBADANBgkqhkiG9w0BAQEFAASC{CANARY}/+AoIBAQD"
PEM = f"-----BEGIN PRIVATE KEY-----\n{LINE}\n{CANARY}==\n-----END PRIVATE KEY-----\n"
SASL = "bootstrap.servers=a:1\nsecurity.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.username=u\nsasl.password=p\n"
TLS = "bootstrap.servers=a:1\nsecurity.protocol=SSL\n"
HIDDEN = "no such setting; it is not shown, as it may be a part of a secret"


def problems_of(make: Callable[[], object]) -> list[str]:
    """The problems. The canary is in no text, argument, attribute or frame of the library."""
    with pytest.raises(ConfigurationError) as caught:
        make()
    for error in kept(caught.value):
        assert CANARY not in str(error) + repr(error.args) + repr(vars(error))
    assert CANARY not in report(caught.value)
    return list(caught.value.problems)


@pytest.fixture(params=[ProducerConfig.from_properties, Producer.from_properties])
def problems_in(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], list[str]]:
    """The problems of a file with this text."""

    def problems(text: str) -> list[str]:
        path = tmp_path / "client.properties"
        path.write_text(text)
        return problems_of(lambda: request.param(path))

    return problems


ProblemsIn = Callable[[str], list[str]]


# ---- PEM text over several lines


@pytest.mark.parametrize("name", ["ssl.keystore.key", "ssl.keystore.certificate.chain", "ssl.key.pem"])
def test_pem_text_of_several_lines_is_one_problem(problems_in: ProblemsIn, name: str) -> None:
    """Its other lines are not reported, and the problems behind them are."""
    two = PEM.replace("PRIVATE KEY", "CERTIFICATE") * 2
    text = f"{TLS}{name}={PEM if name != 'ssl.keystore.certificate.chain' else two}linger.mz=1\nacks=9\n"
    problems = problems_in(text)
    assert problems[0].startswith(
        rf"{name}: PEM text of several lines needs \n\ at the end of each line but the last"
    )
    assert [line.partition(":")[0] for line in problems[1:]] == ["linger.mz", "acks='9'"]


@pytest.mark.parametrize(
    "pem",
    [
        PEM,
        PEM.replace("-----\n", "-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,F00\n\n", 1),
        PEM.partition("-----END")[0],
    ],
    ids=["whole", "encrypted", "without its end"],
)
def test_both_are_told(problems_in: ProblemsIn, pem: str) -> None:
    """The key and its certificates, with one problem each; neither is called missing."""
    text = f"ssl.keystore.key={pem}ssl.keystore.certificate.chain={pem}acks=9\n"
    names = [line.partition(":")[0] for line in problems_in(TLS + text)]
    assert names == ["ssl.keystore.key", "ssl.keystore.certificate.chain", "acks='9'"]


@pytest.mark.parametrize("name", ["ssl.keystore.key", "ssl.keystore.certificate.chain"])
def test_its_counterpart_is_not_called_missing(problems_in: ProblemsIn, name: str) -> None:
    """Of the two that belong together, one is there and cannot be read."""
    other = {"ssl.keystore.key": "ssl.keystore.certificate.chain"}.get(name, "ssl.keystore.key")
    whole = PEM.replace("PRIVATE KEY", "CERTIFICATE").rstrip().replace("\n", "\\n\\\n")
    assert len(problems_in(f"{TLS}{name}={PEM}{other}={whole}\n")) == 1


def test_pem_text_behind_an_empty_line(problems_in: ProblemsIn) -> None:
    """The line where it begins is named."""
    (problem,) = problems_in(f"{SASL}ssl.key.password=\\\n\n{PEM}")
    assert problem.startswith("line 8: PEM text of several lines needs")


def test_pem_text_with_backslashes_is_read(tmp_path: Path) -> None:
    """Each line ends with an escape of its end and a backslash, as the error says."""
    path = tmp_path / "client.properties"
    lines = PEM.rstrip().replace("\n", "\\n\\\n")
    path.write_text(
        f"{TLS}ssl.keystore.key={lines}\nssl.keystore.certificate.chain={lines}\nacks=all\n".replace(
            "chain=-----BEGIN PRIVATE KEY", "chain=-----BEGIN CERTIFICATE"
        ).replace("END PRIVATE KEY-----\nacks", "END CERTIFICATE-----\nacks")
    )
    config = ProducerConfig.from_properties(path)
    assert config.ssl_keystore_key == Secret(PEM.rstrip())
    assert config.acks == -1


def test_pem_text_in_the_file_of_a_provider(tmp_path: Path) -> None:
    """Its first line alone is no key."""
    (tmp_path / "secrets").write_text(f"key={PEM}")
    given = {"bootstrap.servers": "a:1", "security.protocol": "SSL"}
    given["ssl.keystore.key"] = f"${{file:{tmp_path}/secrets:key}}"
    providers = {"file": FileProvider(tmp_path)}
    (problem,) = problems_of(lambda: ProducerConfig.from_properties(given, providers=providers))
    assert "secrets: key: PEM text of several lines needs" in problem


# ---- names


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (LINE, f"line 6: {HIDDEN}; remove it, or end the line before it with a backslash"),
        (f"{CANARY}==", f"line 6: {HIDDEN}"),
        (f"{CANARY}=", f"line 6: {HIDDEN}"),
        ("retrys==", f"line 6: {HIDDEN}"),
        ("retrys=", f"line 6: {HIDDEN}"),
        (f"{CANARY}=1", f"line 6: {HIDDEN}"),
        (f"  '{CANARY}';", f"line 6: {HIDDEN}"),
        (f"{CANARY}", f"line 6: {HIDDEN}"),
        (f"sasl.{CANARY}", f"line 6: {HIDDEN}"),
        (f"my.{CANARY} words", f"line 6: {HIDDEN}"),
        (f"my-own-{CANARY}=1", f"line 6: {HIDDEN}"),
        (f"550e8400-e29b-41d4-a716-{CANARY}=1", f"line 6: {HIDDEN}"),
        (f"sk_live_4eC39Hq{CANARY}=1", f"line 6: {HIDDEN}"),
        (f"sk_live_4ec39hq{CANARY}=1", f"line 6: {HIDDEN}"),
        (f"{CANARY} ${{env:x}}", "line 6: ${env:…} is replaced only by a provider"),
        (f'password="{CANARY}";', "password: no such setting; did you mean"),
        ("retrys=1", "retrys: no such setting; did you mean retries?"),
        ("max-block-ms=1", "max-block-ms: no such setting; did you mean max_block_ms?"),
        ("maxBlockMs=1", "maxBlockMs: no such setting; did you mean max_block_ms?"),
        ("ssl.endpoint.identification.algoritm=", "did you mean ssl.endpoint.identification.algorithm?"),
        ("group.id=", "group.id: no such setting; remove it"),
        ("log4j.appender.x509=a", "log4j.appender.x509: no such setting; remove it"),
    ],
)  # fmt: skip
def test_names_in_a_file(problems_in: ProblemsIn, line: str, told: str) -> None:
    """A name of two words, or one that is near to a known one, is shown; of all others, the line."""
    (problem,) = problems_in(f"{SASL}{line}\n")
    assert told in problem


def test_lines_of_a_jaas_string_without_backslashes(problems_in: ProblemsIn) -> None:
    """Each is a problem of its own, without its text."""
    jaas = f'x.PlainLoginModule required\n  username="a" password="{CANARY}";\n  "{CANARY}";\n  {CANARY};\n'
    text = SASL.replace("sasl.username=u\nsasl.password=p\n", f"sasl.jaas.config={jaas}")
    assert [line.partition(":")[0] for line in problems_in(text)] == [
        "sasl.jaas.config",
        "username",
        "line 6",
        "line 7",
    ]


def test_names_of_mappings_and_arguments() -> None:
    """Their number takes the place of the line."""
    given = {"bootstrap.servers": "a:1", f"{CANARY}/": "", "x.y": 1}
    hidden, shown = problems_of(lambda: ProducerConfig.from_properties(given))
    assert hidden.startswith(f"property 2: {HIDDEN}")
    assert shown.startswith("x.y: no such setting")
    names: dict[str, Any] = {"acks": "all", f"{CANARY}": 1}
    makes: tuple[Callable[[], object], ...] = (
        lambda: ProducerConfig("a:1", **names),
        lambda: Producer("a:1", **names),
        lambda: ProducerConfig("a:1").evolve(**names),
        lambda: ProducerConfig.from_properties({"bootstrap.servers": "a:1"}, **names),
    )
    for make in makes:
        (hidden,) = problems_of(make)
        assert hidden.startswith(f"argument 2: {HIDDEN}")


# ---- values


@pytest.mark.parametrize("name", sorted(SETTINGS))
@pytest.mark.parametrize("value", [f"all sasl.password={CANARY}", f"-----BEGIN PRIVATE KEY-----\n{CANARY}"])
def test_a_value_with_the_text_of_other_settings_is_not_shown(name: str, value: str) -> None:
    """A file that has lost its line ends is one line."""
    properties = {"bootstrap.servers": "a:1", "linger.ms": "-1", "security.protocol": "SASL_SSL"}
    if name == "linger_ms":
        properties["acks"] = "9"
    problems_of(lambda: ProducerConfig.from_properties({**properties, SETTINGS[name].dotted: value}))
    given: dict[str, Any] = {"bootstrap_servers": "a:1", "acks": "9", name: value}
    if name == "acks":
        given["linger_ms"] = -1
    problems_of(lambda: ProducerConfig(**given))


def test_the_log_of_ignored_properties_shows_no_other_word(caplog: pytest.LogCaptureFixture) -> None:
    """The protocol and mechanism are shown if they are ones."""
    given = {
        "bootstrap.servers": "a:1",
        "security.protocol": f"SSL sasl.password={CANARY}",
        "ssl.protocol": "TLS",
    }
    with caplog.at_level(logging.DEBUG):
        problems_of(lambda: ProducerConfig.from_properties(given))
    assert "security.protocol=(none of its values)" in caplog.text
    assert CANARY not in caplog.text.lower()


@pytest.mark.parametrize("make", [ProducerConfig, Producer])
@pytest.mark.parametrize(
    "servers",
    [
        f"user:{CANARY}@a:1",
        f"a:1 sasl.password={CANARY}",
        [{"password": CANARY}],
        CANARY.encode(),
        [("a", CANARY)],
    ],
)
def test_addresses_are_not_kept(make: Callable[[Any], object], servers: object) -> None:
    """They may have a password by mistake."""
    problems_of(lambda: make(servers))


@pytest.mark.parametrize("make", [ProducerConfig.from_properties, Producer.from_properties])
@pytest.mark.parametrize("text", [f"sasl.password={CANARY}\n", f"sasl.password={CANARY}", f"x={CANARY}\0"])
def test_the_text_of_a_file_in_place_of_its_path(make: Callable[[Any], object], text: str) -> None:
    """Neither the text nor the name of a file with this name is shown."""
    (problem,) = problems_of(lambda: make(text))
    assert "not its text" in problem or "which is not shown: reading the file failed" in problem


def test_settings_in_place_of_a_configuration() -> None:
    """A mapping of settings is not kept."""
    problems_of(lambda: Producer.from_config({"sasl.password": CANARY}))  # type: ignore[arg-type]


# ---- references


class Source:
    """A provider of the user, whose repr tells."""

    def get(self, path: str, key: str, /) -> str:
        return CANARY

    def __repr__(self) -> str:
        return f"Source({CANARY})"


@pytest.mark.parametrize(
    "value", [f"pa${{{CANARY}:x}}", f"pa${{{CANARY}:{CANARY}:{CANARY}}}y", f"${{:{CANARY}}}"]
)
@pytest.mark.parametrize("providers", [{}, {"own": Source()}])
def test_a_password_that_looks_like_a_reference(value: str, providers: dict[str, Source]) -> None:
    """The name of an unknown provider may be a part of the password."""
    given = {"bootstrap.servers": "a:1", "security.protocol": "SASL_SSL", "sasl.password": value}
    problem, *_ = problems_of(lambda: ProducerConfig.from_properties(given, providers=providers))
    assert "sasl.password: ${…:…} is replaced only by a provider that the application passes" in problem


@pytest.mark.parametrize(
    "name", sorted({row.dotted for row in SETTINGS.values()} | {"nope", "some.thing", "config.providers"})
)
def test_the_value_of_a_provider_is_not_shown(name: str, caplog: pytest.LogCaptureFixture) -> None:
    """Also where the error of another value has the part of it that is wrong."""
    given = {"bootstrap.servers": "a:1", "ssl.protocol": "TLS", "linger.ms": "-1", name: "${own:x},${own:y}"}
    with caplog.at_level(logging.DEBUG):
        problems_of(
            lambda: ProducerConfig.from_properties({**given, "acks": "9"}, providers={"own": Source()})
        )
    assert CANARY not in caplog.text.lower()


# ---- objects of the user


class Telling:
    """Everything that a setting takes, with a repr that tells."""

    def __repr__(self) -> str:
        return f"Telling({CANARY})"

    def __call__(self, *_: object) -> Any:
        return None

    serialize = on_send = on_acknowledgement = close = on_batch = context = __call__

    def give(self) -> Any:
        return CANARY


def free(*_: object) -> Any:
    """A function."""


OAUTH: dict[str, Any] = {"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER"}
NAME = f"{__name__}.Telling"
OBJECTS: dict[str, tuple[dict[str, Any], str]] = {
    "partial": (OAUTH | {"sasl_token_provider": functools.partial(free, CANARY)}, f"<functools.partial of {__name__}.free>"),
    "partial of a method": (OAUTH | {"sasl_token_provider": functools.partial(Telling().give)}, f"<functools.partial of {NAME}.give>"),
    "method": (OAUTH | {"sasl_token_provider": Telling().give}, f"<{NAME}.give>"),
    "object": (OAUTH | {"sasl_token_provider": Telling()}, f"<{NAME}>"),
    "function": (OAUTH | {"sasl_token_provider": free}, f"<{__name__}.free>"),
    "builtin": (OAUTH | {"sasl_token_provider": len}, "<builtins.len>"),
    "password": (
        {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "sasl_username": "u", "sasl_password": functools.partial(free, CANARY)},
        "SecretCall()",
    ),
    "context": ({"security_protocol": "SSL", "ssl_context": functools.partial(free, CANARY)}, "<functools.partial of"),
    "partitioner": ({"partitioner": Telling()}, f"<{NAME}>"),
    "serializers": ({"key_serializer": Telling(), "value_serializer": functools.partial(free, CANARY)}, f"<{NAME}>"),
    "interceptors": ({"interceptors": [Telling()]}, f"(<{NAME}>,)"),
    "listeners": ({"listeners": [Telling(), Telling()]}, f"(<{NAME}>, <{NAME}>)"),
    "tracing": ({"tracing": Telling()}, f"<{NAME}>"),
    "allowed brokers": ({"allowed_brokers": ["a", functools.partial(free, CANARY)]}, f"('a', <functools.partial of {__name__}.free>)"),
}  # fmt: skip


@pytest.mark.parametrize(("settings", "shown"), OBJECTS.values(), ids=OBJECTS)
def test_objects_of_the_user_are_shown_by_their_names(settings: dict[str, Any], shown: str) -> None:
    """In the repr; and an error about another setting keeps none of them in a frame."""
    config = ProducerConfig("a:1", **settings)
    assert shown in repr(config)
    assert CANARY not in repr(config) + str(config) + f"{config}" + pretty_repr(config)
    wrong: dict[str, Any] = settings | {"linger_ms": -1}
    makes: tuple[Callable[[], object], ...] = (
        lambda: ProducerConfig("a:1", **wrong),
        lambda: Producer("a:1", **wrong),
        lambda: config.evolve(linger_ms=-1),
        lambda: ProducerConfig.from_properties({"bootstrap.servers": "a:1", "acks": "9"}, **settings),
    )
    for make in makes:
        problems_of(make)


def test_a_text_with_an_equals_sign_in_place_of_a_user_name() -> None:
    """A connection string has a key in it, and so may the query of a URL have."""
    sasl: dict[str, Any] = {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "sasl_password": "x"}
    config = ProducerConfig("a:1", sasl_username=f"Endpoint=sb://x/;SharedAccessKey={CANARY}", **sasl)
    assert "sasl_username='***'" in repr(config)
    assert CANARY not in repr(config)


@pytest.mark.parametrize(
    ("function", "shown"),
    [(str.encode, "<str.encode>"), ("a".join, "<str.join>"), (Telling().give, f"<{NAME}.give>")],
)
def test_functions_without_a_module(function: Callable[..., Any], shown: str) -> None:
    """Those of Python's own classes have none."""
    assert f"key_serializer={shown}" in repr(ProducerConfig("a:1", key_serializer=function))


def test_topics_that_are_objects() -> None:
    """The repr of an object in place of a name is not shown."""
    (problem,) = problems_of(lambda: ProducerConfig("a:1", topics=[Telling()]))  # type: ignore[list-item]
    assert problem == "topics: a name: a topic name must be str, not Telling"


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: Token(CANARY.encode()), "Token() takes a str or Secret, not bytes"),  # type: ignore[arg-type]
        (lambda: Token(Telling()), "Token() takes a str or Secret, not Telling"),  # type: ignore[arg-type]
        (
            lambda: AwsCredentials("AKIA", CANARY.encode()),  # type: ignore[arg-type]
            "AwsCredentials() takes secret_key as str or Secret, not bytes",
        ),
        (
            lambda: AwsCredentials("AKIA", CANARY, CANARY.encode()),  # type: ignore[arg-type]
            "AwsCredentials() takes session_token as str or Secret, not bytes",
        ),
    ],
)
def test_bytes_in_place_of_a_secret(make: Callable[[], object], told: str) -> None:
    """They are refused, and no frame keeps them."""
    assert problems_of(make) == [told]


@pytest.mark.parametrize(
    "make",
    [
        lambda: FileProvider("here"),
        lambda: DirectoryProvider([]),
        lambda: EnvProvider("("),
        lambda: SecretFile(3),  # type: ignore[arg-type]
        lambda: SecretEnv(b"NAME"),  # type: ignore[arg-type]
    ],
)
def test_an_object_whose_arguments_were_refused_can_be_shown(make: Callable[[], object]) -> None:
    """By an error reporter that shows local variables."""
    with pytest.raises((ConfigurationError, TypeError)) as caught:
        make()
    assert "self = " in report(caught.value)
