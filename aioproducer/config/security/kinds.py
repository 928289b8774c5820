"""The kinds of values of security settings. No complaint shows a value of them."""

from __future__ import annotations

import inspect
import ssl
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

from aioproducer.config.security.jaas import parse_jaas
from aioproducer.config.security.urls import check_url
from aioproducer.secret import Secret, SecretCall, SecretEnv, SecretFile, SecretSource

__all__ = [
    "Ciphers",
    "ContextSource",
    "Extensions",
    "Jaas",
    "PemText",
    "Protocols",
    "Retriever",
    "SecretText",
    "StorePath",
    "TokenProvider",
    "Url",
    "Urls",
]

# The suites of TLS 1.2 with authenticated encryption, by the names that Java uses.
_SUITES = {
    f"TLS_{exchange}_WITH_{cipher}": f"{exchange.replace('_', '-')}-{short}"
    for exchange in ("ECDHE_ECDSA", "ECDHE_RSA", "DHE_RSA")
    for cipher, short in (
        ("AES_128_GCM_SHA256", "AES128-GCM-SHA256"),
        ("AES_256_GCM_SHA384", "AES256-GCM-SHA384"),
        ("CHACHA20_POLY1305_SHA256", "CHACHA20-POLY1305"),
    )
}
_SUITES_OF_1_3 = frozenset(
    ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")
)
_VERSIONS = ("TLSv1.2", "TLSv1.3")
_OLD_VERSIONS = frozenset(("sslv2", "sslv3", "tlsv1", "tlsv1.0", "tlsv1.1"))


_MOST_WORDS = 100


def _words(value: Any) -> list[str]:
    words = value.split(",") if isinstance(value, str) else value
    if isinstance(words, bytes) or not hasattr(words, "__iter__"):
        raise ValueError("must be a sequence of names, or one string with commas")
    found: list[str] = []
    # One by one: an iterable may have no end.
    for word in words:
        if not isinstance(word, str) or len(found) == _MOST_WORDS:
            raise ValueError(f"must be a sequence of at most {_MOST_WORDS} names, or one string with commas")
        found.append(str.strip(word))
    return [word for word in found if word]


class SecretText:
    """A secret, or the place where it is read."""

    hides: ClassVar[bool] = True
    is_secret: ClassVar[bool] = True
    range: Final = "a string, Secret, SecretFile, SecretEnv, or a callable that gives a string"

    def check(self, value: Any) -> SecretSource:
        if isinstance(value, Secret | SecretFile | SecretEnv | SecretCall):
            return value
        if isinstance(value, str):
            return Secret(str.__str__(value))
        if callable(value) and not isinstance(value, type):
            return SecretCall(value)
        raise ValueError(f"must be {self.range}, not {type(value).__name__}")

    def parse(self, text: str) -> str:
        return text


class Jaas:
    """A JAAS string, which has passwords."""

    hides: ClassVar[bool] = True
    is_secret: ClassVar[bool] = True
    range: Final = "a JAAS string, as text or Secret"

    def check(self, value: Any) -> Secret:
        if not isinstance(value, str | Secret):
            raise ValueError(f"must be {self.range}, not {type(value).__name__}")
        secret = value if isinstance(value, Secret) else Secret(str.__str__(value))
        parse_jaas(secret.reveal())
        return secret

    def parse(self, text: str) -> str:
        return text


class PemText:
    """Certificates as PEM text."""

    hides: ClassVar[bool] = True
    range: Final = "PEM text"

    def check(self, value: Any) -> str:
        if not isinstance(value, str) or "-----BEGIN" not in value:
            raise ValueError("must be PEM text, which begins with -----BEGIN CERTIFICATE-----")
        if "PRIVATE KEY-----" in value:
            # The text of certificates is no secret, and is shown.
            raise ValueError("must be certificates, without a private key: that is for ssl_keystore_key")
        return str.__str__(value)

    def parse(self, text: str) -> str:
        return text


class StorePath:
    """The path of a store. PEM text in its place may be a private key."""

    hides: ClassVar[bool] = True
    range: Final = "the path of a file"

    def check(self, value: Any) -> str:
        if not isinstance(value, str):
            raise ValueError(f"must be a string, {self.range}, not {type(value).__name__}")
        text = str.__str__(value)
        if "-----BEGIN" in text:
            raise ValueError("must be the path of a file: PEM text has settings of its own")
        if not text or not text.isprintable():
            raise ValueError("must be the path of a file, printable and not empty")
        return text

    def parse(self, text: str) -> str:
        return text


class ContextSource:
    """A TLS context, or a callable that makes one."""

    holds_objects: ClassVar[bool] = True
    range: Final = "ssl.SSLContext, or a callable that makes one"

    def check(self, value: Any) -> ssl.SSLContext | Callable[[], ssl.SSLContext]:
        if isinstance(value, ssl.SSLContext):
            if value.protocol is ssl.PROTOCOL_TLS_SERVER:
                raise ValueError(
                    "is a context for the server's side: make it with ssl.create_default_context()"
                )
            return value
        if inspect.iscoroutinefunction(value):
            raise ValueError("the callable cannot be a coroutine function: it is called in a thread")
        if callable(value) and not isinstance(value, type):
            return value  # type: ignore[no-any-return]  # its result is checked when it is called
        raise ValueError(f"must be {self.range}, not {type(value).__name__}")

    def parse(self, text: str) -> str:
        return text


class TokenProvider:
    """A callable that gives a token, most often a coroutine function. A token in its place is not shown."""

    hides: ClassVar[bool] = True
    is_secret: ClassVar[bool] = True
    holds_objects: ClassVar[bool] = True
    range: Final = "an async callable that gives a Token, (str, expires_at) or str"

    def check(self, value: Any) -> Callable[[], Any]:
        if not callable(value) or isinstance(value, type):
            raise ValueError(f"must be {self.range}, not {type(value).__name__}")
        return value  # type: ignore[no-any-return]  # its result is checked when it is called

    def parse(self, text: str) -> str:
        return text


class Extensions:
    """The SASL extensions of OAUTHBEARER; stored as a tuple of pairs, sorted by name."""

    range: Final = "a mapping of names to texts"

    def check(self, value: Any) -> tuple[tuple[str, str], ...]:
        pairs = tuple(value.items()) if isinstance(value, Mapping) else value
        if not isinstance(pairs, tuple) or not all(
            isinstance(pair, tuple) and len(pair) == 2 and all(isinstance(each, str) for each in pair)
            for pair in pairs
        ):
            raise ValueError("must be a mapping of names to texts, such as {'logicalCluster': 'lkc-1'}")
        return tuple(sorted(pairs))

    def parse(self, text: str) -> dict[str, str]:
        pairs = (pair.partition("=") for pair in filter(None, map(str.strip, text.split(","))))
        return {name.strip(): value.strip() for name, _, value in pairs}


class Protocols:
    """Versions of TLS."""

    range: Final = "'TLSv1.2', 'TLSv1.3', or both"

    def check(self, value: Any) -> tuple[str, ...]:
        found = []
        for word in _words(value):
            if word.lower() in _OLD_VERSIONS:
                raise ValueError(f"{word} is not safe: use 'TLSv1.2' or 'TLSv1.3', or ssl_context")
            known = next((version for version in _VERSIONS if version.lower() == word.lower()), None)
            if known is None:
                raise ValueError(f"must be {self.range}")
            found.append(known)
        if not found:
            raise ValueError(f"must be {self.range}")
        return tuple(dict.fromkeys(found))

    def parse(self, text: str) -> str:
        return text


class Ciphers:
    """Cipher suites of TLS 1.2, stored by OpenSSL's names. Those of TLS 1.3 are always on."""

    range: Final = "names of suites of TLS 1.2 with AES-GCM or ChaCha20"

    def check(self, value: Any) -> tuple[str, ...]:
        found = []
        for word in _words(value):
            if word in _SUITES_OF_1_3:
                continue
            name = _SUITES.get(word, word)
            if name not in _SUITES.values():
                raise ValueError(f"must be {self.range}, such as TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384")
            found.append(name)
        return tuple(dict.fromkeys(found))

    def parse(self, text: str) -> str:
        return text


class Url:
    """The URL of a token endpoint. One that is refused may have a password."""

    hides: ClassVar[bool] = True
    range: Final = "a URL that begins with https://"

    def check(self, value: Any) -> str:
        if not isinstance(value, str):
            raise ValueError(f"must be {self.range}, not {type(value).__name__}")
        text = str.__str__(value)
        check_url(text)
        return text

    def parse(self, text: str) -> str:
        return text


class Urls:
    """Patterns of URLs: `*` stands for any text within the host name, or within the path."""

    hides: ClassVar[bool] = True
    range: Final = "URLs, where `*` stands for any text in the host name or in the path"

    def check(self, value: Any) -> tuple[str, ...]:
        found = tuple(dict.fromkeys(_words(value)))
        if not found:
            raise ValueError("must be at least one URL, such as 'https://idp.example/oauth2/token'")
        for text in found:
            check_url(text.replace("*", "x"))
        return found

    def parse(self, text: str) -> str:
        return text


_RETRIEVERS = ("DefaultJwtRetriever", "ClientCredentialsJwtRetriever", "JwtBearerJwtRetriever")
_PACKAGE = "org.apache.kafka.common.security.oauthbearer."


class Retriever:
    """The name of a class of Kafka, which stands for a grant. Nothing is loaded."""

    range: Final = ", ".join(map(repr, _RETRIEVERS))

    def check(self, value: Any) -> str:
        name = str.__str__(value).removeprefix(_PACKAGE) if isinstance(value, str) else ""
        if name == "FileJwtRetriever":
            raise ValueError("use sasl_token_provider=aioproducer.auth.token_file(path)")
        if name not in _RETRIEVERS:
            raise ValueError(f"must be one of {self.range}: other classes cannot be loaded")
        return _PACKAGE + name

    def parse(self, text: str) -> str:
        return text
