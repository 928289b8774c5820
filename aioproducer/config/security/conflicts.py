"""Security settings that depend on each other: what a JAAS string stands for, and invalid combinations."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final

from aioproducer.config.security.iam import IAM, IAM_MODULE, iam_problems
from aioproducer.config.security.jaas import LoginModule, parse_jaas
from aioproducer.config.security.kerberos import (
    KERBEROS,
    KERBEROS_MODULE,
    WITHOUT_EFFECT,
    kerberos_problems,
    settings_of_kerberos,
    ticket_cache_in,
)
from aioproducer.config.security.sasl_texts import extension_problem, user_name_problem
from aioproducer.config.security.token_conflicts import token_problems
from aioproducer.secret import Secret, is_unicode

__all__ = [
    "CREDENTIALS_IN_CLEAR",
    "PASSWORD_MECHANISMS",
    "fill_from_jaas",
    "filled_from_jaas",
    "iam_options",
    "ignored_by_java",
    "jaas_options",
    "security_problems",
    "ticket_cache",
]

PASSWORD_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
# These send the secret itself.
CREDENTIALS_IN_CLEAR: Final = ("PLAIN", "OAUTHBEARER")
_MODULES: Final[Mapping[str, tuple[str, ...]]] = {
    "PlainLoginModule": ("PLAIN",),
    "ScramLoginModule": ("SCRAM-SHA-256", "SCRAM-SHA-512"),
    "OAuthBearerLoginModule": ("OAUTHBEARER",),
    IAM_MODULE: ("OAUTHBEARER",),
    KERBEROS_MODULE: (KERBEROS,),
}
_CLIENT: Final = "sasl_oauthbearer_client_credentials_client_"
_CLIENT_IN_JAAS: Final = {"clientId": f"{_CLIENT}id", "scope": "sasl_oauthbearer_scope"}
_OTHER_TOKENS: Final = ("sasl_token_provider", "sasl_oauthbearer_token_endpoint_url")
_EXTENSION: Final = "extension_"
_SAYS_NOTHING: Final = (None, False, ())
_PLAIN: Final = (str, bool, int, float, tuple, type(None))
# Properties that Java reads for this mechanism only.
_OF_MECHANISM: Final[Mapping[str, str]] = {
    "sasl_kerberos_": KERBEROS,
    "sasl_oauthbearer_": "OAUTHBEARER",
    "sasl_login_connect_": "OAUTHBEARER",
    "sasl_login_read_": "OAUTHBEARER",
    "sasl_login_refresh_": "OAUTHBEARER",
    "sasl_login_retry_": "OAUTHBEARER",
}
# Properties that only brokers read.
_OF_BROKERS: Final = (
    "sasl_oauthbearer_clock_skew_",
    "sasl_oauthbearer_expected_",
    "sasl_oauthbearer_jwks_",
    "sasl_oauthbearer_scope_claim_",
    "sasl_oauthbearer_sub_claim_",
)
_OF_ASSERTIONS: Final = "sasl_oauthbearer_assertion_"
_ASSERTION_FILE: Final = f"{_OF_ASSERTIONS}file"
_DEFAULTS: Final[Mapping[str, Any]] = {
    "ssl_endpoint_identification_algorithm": "https",
    "ssl_enabled_protocols": ("TLSv1.2", "TLSv1.3"),
    "ssl_keystore_type": "JKS",
    "ssl_truststore_type": "JKS",
    "ssl_protocol": "TLSv1.3",
    "sasl_mechanism": KERBEROS,
    "sasl_oauthbearer_assertion_algorithm": "RS256",
    "sasl_oauthbearer_assertion_claim_exp_seconds": 300,
    "sasl_oauthbearer_assertion_claim_nbf_seconds": 60,
    "sasl_oauthbearer_jwt_retriever_class": "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever",
    "sasl_scram_max_iterations": 1_000_000,
    "sasl_login_retry_backoff_ms": 100,
    "sasl_login_retry_backoff_max_ms": 10_000,
    "sasl_login_refresh_window_factor": 0.8,
    "sasl_login_refresh_window_jitter": 0.05,
    "sasl_login_refresh_min_period_seconds": 60,
    "sasl_login_refresh_buffer_seconds": 300,
}


def _without_effect(names: Collection[str], protocol: object) -> list[str]:
    """Those of the given settings that this security protocol ignores."""
    word = str(protocol).upper()
    ignored = [prefix for prefix, needed in (("ssl_", "SSL"), ("sasl_", "SASL")) if not _uses(word, needed)]
    return [name for name in names if name.startswith(tuple(ignored))] if ignored else []


def ignored_by_java(names: Collection[str], protocol: str, mechanism: str) -> list[str]:
    """Those of the properties that Java's producer ignores with this security protocol and this mechanism.

    Those that tell Java when to run kinit are among them.
    """
    other = tuple(prefix for prefix, needed in _OF_MECHANISM.items() if needed != mechanism.upper())
    ignored = {
        *_without_effect(names, protocol),
        *(name for name in names if name.startswith((*other, *_OF_BROKERS, *WITHOUT_EFFECT))),
    }
    if _ASSERTION_FILE in names:
        # An assertion that is signed already.
        ignored.update(name for name in names if name.startswith(_OF_ASSERTIONS) and name != _ASSERTION_FILE)
    return [name for name in names if name in ignored]


def _uses(protocol: str, part: str) -> bool:
    return protocol in {"SASL": ("SASL_PLAINTEXT", "SASL_SSL"), "SSL": ("SSL", "SASL_SSL")}[part]


def fill_from_jaas(fields: dict[str, Any]) -> None:
    """Set the settings that the JAAS string stands for."""
    if fields["sasl_mechanism"] == IAM and iam_options(fields["sasl_jaas_config"]) is not None:
        fields["sasl_mechanism"] = "OAUTHBEARER"
    for name, value in _stands_for(_module_of(fields)).items():
        if fields[name] is None or fields[name] is False:
            fields[name] = value


def filled_from_jaas(fields: Mapping[str, Any]) -> Collection[str]:
    """The settings that the JAAS string stands for."""
    return _stands_for(_module_of(fields)).keys()


def jaas_options(jaas: Secret | None) -> Mapping[str, str]:
    """The options of a JAAS string."""
    return {} if jaas is None else parse_jaas(jaas.reveal()).options


def iam_options(jaas: Secret | None) -> Mapping[str, str] | None:
    """The options of the login module of Amazon MSK; None for any other one."""
    module = None if jaas is None else parse_jaas(jaas.reveal())
    return None if module is None or module.name != IAM_MODULE else module.options


def ticket_cache(jaas: Secret | None) -> str | None:
    """The ticket cache that the JAAS string names; None for the default one."""
    return ticket_cache_in(jaas_options(jaas))


def _stands_for(module: LoginModule | None) -> dict[str, Any]:
    if module is None:
        return {}
    options = module.options
    if module.name == IAM_MODULE:
        return {}
    if module.name == KERBEROS_MODULE:
        return settings_of_kerberos(options)
    if module.name == "OAuthBearerLoginModule":
        found = {
            name.removeprefix(_EXTENSION): value
            for name, value in options.items()
            if name.startswith(_EXTENSION)
        }
        filled: dict[str, Any] = {
            name: options[key] for key, name in _CLIENT_IN_JAAS.items() if key in options
        }
        if "clientSecret" in options:
            filled[f"{_CLIENT}secret"] = Secret(options["clientSecret"])
        return filled | ({"sasl_extensions": tuple(sorted(found.items()))} if found else {})
    return {
        "sasl_username": options.get("username"),
        "sasl_password": Secret(options["password"]) if "password" in options else None,
        "sasl_scram_token_auth": options.get("tokenauth", "false").lower() == "true",
    }


def _module_of(fields: Mapping[str, Any]) -> LoginModule | None:
    jaas = fields["sasl_jaas_config"]
    return None if jaas is None else parse_jaas(jaas.reveal())


def security_problems(fields: Mapping[str, Any], given: AbstractSet[str]) -> Iterator[str]:
    """One line, with its fix, for each invalid combination."""
    protocol = fields["security_protocol"]
    # Each default can be written down.
    telling = [name for name in given if _tells(name, fields.get(name))]
    for name in sorted(_without_effect(telling, protocol)):
        yield f"{name}: has no effect with security_protocol={protocol!r}: remove it, or set another security_protocol"
    if _uses(protocol, "SSL"):
        yield from _tls_problems(fields, given)
    if _uses(protocol, "SASL"):
        yield from _jaas_problems(fields, given)
        yield from _mechanism_problems(fields, given)


def _tells(name: str, value: Any) -> bool:
    # An object of the user may have an `__eq__` of its own.
    return type(value) not in _PLAIN or (value not in _SAYS_NOTHING and value != _DEFAULTS.get(name))


def _tls_problems(fields: Mapping[str, Any], given: AbstractSet[str]) -> Iterator[str]:
    if fields["ssl_context"] is not None:
        own = (name for name in given if name.startswith("ssl_") and name != "ssl_context")
        others = sorted(name for name in own if _tells(name, fields.get(name)))
        for name in others:
            yield f"{name}: has no effect with ssl_context: remove one of the two"
        return
    if fields["ssl_truststore_location"] is not None and fields["ssl_truststore_certificates"] is not None:
        yield "ssl_truststore_certificates: takes the place of ssl_truststore_location: remove one of the two"
    key, chain = fields["ssl_keystore_key"], fields["ssl_keystore_certificate_chain"]
    if (key is None) != (chain is None):
        missing = "ssl_keystore_key" if key is None else "ssl_keystore_certificate_chain"
        yield f"{missing}: is missing: the key and its certificates belong together"
    if key is not None and fields["ssl_keystore_location"] is not None:
        yield "ssl_keystore_key: takes the place of ssl_keystore_location: remove one of the two"
    for password, store in (
        ("ssl_truststore_password", "ssl_truststore"),
        ("ssl_keystore_password", "ssl_keystore"),
    ):
        if fields[password] is not None and fields[f"{store}_location"] is None:
            yield f"{password}: requires {store}_location: set it, or remove {password}"


def _jaas_problems(fields: Mapping[str, Any], given: AbstractSet[str]) -> Iterator[str]:
    module = _module_of(fields)
    if module is None:
        return
    for name, value in _stands_for(module).items():
        if name in given and fields[name] != value:
            yield f"{name}: sasl_jaas_config stands for it: remove one of the two"
    if any(name.startswith("unsecuredLogin") for name in module.options):
        yield "sasl_jaas_config: unsecuredLogin… makes tokens that are not signed: remove it"
    yield from _endpoint_problems(module)
    mechanisms = _MODULES.get(module.name)
    if mechanisms is None:
        yield f"sasl_jaas_config: its login module is none of {', '.join(_MODULES)}"
    elif fields["sasl_mechanism"] not in mechanisms:
        names = (IAM,) if module.name == IAM_MODULE else mechanisms
        yield f"sasl_jaas_config: {module.name} requires sasl_mechanism={' or '.join(map(repr, names))}"
    elif module.name == IAM_MODULE:
        yield from iam_problems(module.options, fields.get("bootstrap_servers", ()))
        for name in _OTHER_TOKENS:
            if fields[name] is not None:
                yield f"{name}: sasl_jaas_config with {IAM_MODULE} takes the place of it: remove one of the two"


def _endpoint_problems(module: LoginModule) -> Iterator[str]:
    """Those of the stores for the token endpoint."""
    options = module.options if module.name == "OAuthBearerLoginModule" else {}
    pair = ("ssl.keystore.key", "ssl.keystore.certificate.chain")
    missing = [name for name in pair if name not in options]
    if len(missing) == 1:
        yield f"sasl_jaas_config: {missing[0]} is missing: the key and its certificates belong together"
    for text, file in (
        (pair[0], "ssl.keystore.location"),
        ("ssl.truststore.certificates", "ssl.truststore.location"),
    ):
        if text in options and file in options:
            yield f"sasl_jaas_config: {text} takes the place of {file}: remove one of the two"


def _mechanism_problems(fields: Mapping[str, Any], given: AbstractSet[str]) -> Iterator[str]:
    mechanism = fields["sasl_mechanism"]
    yield from kerberos_problems(fields, given)
    if mechanism in PASSWORD_MECHANISMS:
        for name in ("sasl_username", "sasl_password"):
            if fields[name] is None:
                yield f"{name}: is missing: sasl_mechanism={mechanism!r} requires it"
        yield from _user_problems(fields["sasl_username"])
        yield from _password_problems(fields["sasl_password"], mechanism)
    elif mechanism == IAM:
        yield f"sasl_mechanism={mechanism!r}: requires sasl_jaas_config with {IAM_MODULE}"
    elif mechanism != KERBEROS and iam_options(fields["sasl_jaas_config"]) is None:
        yield from _extension_problems(fields["sasl_extensions"] or ())
        yield from token_problems(fields, {name for name in given if _tells(name, fields.get(name))})
    if fields["sasl_scram_token_auth"] and not mechanism.startswith("SCRAM"):
        yield "sasl_scram_token_auth=True: requires a SCRAM mechanism"
    in_clear = fields["security_protocol"] == "SASL_PLAINTEXT" and mechanism in CREDENTIALS_IN_CLEAR
    if in_clear and not fields["allow_plaintext_credentials"]:
        yield (
            f"security_protocol='SASL_PLAINTEXT': {mechanism} sends the secret itself, and the connection is not encrypted: "
            "use 'SASL_SSL', or set allow_plaintext_credentials=True"
        )


def _user_problems(name: str | None) -> Iterator[str]:
    """A name that no authentication can send: that of a JAAS string is not checked before."""
    problem = None if name is None else user_name_problem(name)
    if problem is not None:
        yield f"sasl_username: {problem}"


def _extension_problems(extensions: Iterable[tuple[str, str]]) -> Iterator[str]:
    for name, value in extensions:
        problem = extension_problem(name, value)
        if problem is not None:
            yield f"sasl_extensions: {problem}"


def _password_problems(password: object, mechanism: str) -> Iterator[str]:
    """A password that no authentication can send. One that is read somewhere else is checked there, each time."""
    if type(password) is not Secret:
        return
    if not password.reveal():
        yield "sasl_password: is empty: Kafka has no empty passwords"
    if not is_unicode(password):
        yield "sasl_password: has a lone surrogate, so it cannot be encoded as UTF-8"
    if mechanism == "PLAIN" and "\0" in password.reveal():
        yield "sasl_password: has a NUL character, which PLAIN cannot send"
