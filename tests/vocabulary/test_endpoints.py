"""Addresses of brokers: the accepted forms, and the piece that an error names."""

from __future__ import annotations

import pytest

from aioproducer.config import Endpoint, ProducerConfig, parse_endpoint
from aioproducer.errors import ConfigurationError


@pytest.mark.parametrize(
    ("servers", "expected"),
    [
        ("localhost:9092", [("localhost", 9092)]),
        ("a:1,b:65535", [("a", 1), ("b", 65535)]),
        (" a:1 , b:2 ", [("a", 1), ("b", 2)]),
        ("a:1,,b:2,", [("a", 1), ("b", 2)]),
        (["a:1", "b:2"], [("a", 1), ("b", 2)]),
        (["a:1,b:2", "c:3"], [("a", 1), ("b", 2), ("c", 3)]),
        (("a:1", ("b", 2), Endpoint("c", 3)), [("a", 1), ("b", 2), ("c", 3)]),
        ("a:1,a:1,b:2", [("a", 1), ("b", 2)]),
        ("[::1]:9092", [("::1", 9092)]),
        (["[2001:db8::1]:9092", "10.0.0.1:9092"], [("2001:db8::1", 9092), ("10.0.0.1", 9092)]),
        ("[fe80::1%eth0]:9092", [("fe80::1%eth0", 9092)]),
        ("kafka_1.my-net.:9092", [("kafka_1.my-net.", 9092)]),
    ],
)
def test_accepted(servers: object, expected: list[tuple[str, int]]) -> None:
    """Strings and sequences, in order, each address once, IPv6 in brackets."""
    assert list(ProducerConfig(servers).bootstrap_servers) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("servers", "words"),
    [
        ("", "at least one"),
        (" , ", "at least one"),
        ([], "at least one"),
        ("localhost", "'localhost' has no port: write 'host:port', such as 'localhost:9092'"),
        ("a:1,b", "'b' has no port"),
        ("[::1]", "no port"),
        ("a:", "'a:' has an invalid port"),
        ("a:0", "'a:0' has an invalid port"),
        ("a:65536", "'a:65536' has an invalid port"),
        ("a:-1", "'a:-1' has an invalid port"),
        ("a:9092x", "'a:9092x' has an invalid port"),
        ("a:٣", "has an invalid port"),
        ("a: 9092", "has an invalid port"),
        (":9092", "no host"),
        ("::1:9092", "brackets"),
        ("a:b:9092", "too many colons"),
        ("[::g]:9092", "no valid IPv6 address"),
        ("[10.0.0.1]:9092", "no valid IPv6 address"),
        ("a b:9092", "'a b:9092' has an invalid host"),
        ("-a:9092", "invalid host"),
        ("a\nb:9092", r"'a\nb:9092' has an invalid host"),
        ("x" * 256 + ":9092", "invalid host"),
        ("kafka://a:9092", "'kafka://a:9092' has a scheme: write 'a:9092'"),
        ("a:1,PLAINTEXT://b:2", "'PLAINTEXT://b:2' has a scheme"),
        (("localhost", 9092), "'localhost' has no port"),
        ([9092], "9092 is not an address"),
        ([("a", True)], "is not an address"),
        ([("a", 0)], "'a:0' has an invalid port"),
        ([None], "None is not an address"),
        (9092, "not int"),
        (None, "not NoneType"),
        (b"a:1", "not bytes"),
        ({"a": 1}, "not dict"),
    ],
)
def test_refused(servers: object, words: str) -> None:
    """Each impossible address is refused with the piece at fault and what to write."""
    with pytest.raises(ConfigurationError) as caught:
        ProducerConfig(servers)  # type: ignore[arg-type]
    assert str(caught.value).startswith("bootstrap_servers: ")
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "servers", ["user:canary@kafka:9092", "sasl://user:canary@kafka:9092", "a:1,x:canary@b:2"]
)
def test_credentials_in_an_address_are_not_repeated(servers: str) -> None:
    """A password put into an address is refused and stays out of the text."""
    with pytest.raises(ConfigurationError, match="credentials") as caught:
        ProducerConfig(servers)
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize("text", ["kafka:9092", "[::1]:9092"])
def test_endpoint_is_written_as_it_is_read(text: str) -> None:
    """`str()` of an endpoint is what it was parsed from."""
    assert str(parse_endpoint(text)) == text
