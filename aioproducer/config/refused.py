"""Names that are not settings: refused Kafka properties with the reason, names in other clients, misspellings."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping

import attrs

from aioproducer._codecs import LEVELS
from aioproducer.config.shown import Origin, shows_name
from aioproducer.documentation import page
from aioproducer.errors import printable

__all__ = ["REFUSED", "REFUSED_PREFIXES", "refusal", "refuses_kafka", "says_what_we_do", "unknown"]

NO_TWO_PHASES = "two-phase commit (KIP-939) is not implemented; remove it"
NO_METRICS = "metrics are not configurable; remove it, and read producer.stats()"
ONE_LEVEL = "accepted in properties files only; as an argument, use compression_level, which applies to compression_type"
OF_BROKERS = "only brokers check tokens; remove it"
PROVIDERS = (
    "a file chooses no place where values are looked up; pass each provider: "
    "from_properties(…, providers={'file': FileProvider(['/run/secrets'])}), or remove it"
)
_OAUTH = "org.apache.kafka.common.security.oauthbearer."
JVM_CLASS = "only a JVM can load a Java class"


@attrs.frozen
class Refusal:
    """The reason for which a Kafka property is refused, with the fix; `accepts` are values that are the behaviour anyway."""

    reason: str
    accepts: tuple[str, ...] = ()


REFUSED: Mapping[str, Refusal] = {
    "partitioner_class": Refusal(
        f"{JVM_CLASS}; use partitioner= with 'default', 'round_robin', 'murmur3', 'random' or a callable"
    ),
    "interceptor_classes": Refusal(f"{JVM_CLASS}; use interceptors=[…] with Python objects", accepts=("",)),
    "metric_reporters": Refusal(f"{JVM_CLASS}; remove it, and read producer.stats()", accepts=("",)),
    "metrics_sample_window_ms": Refusal(NO_METRICS),
    "metrics_num_samples": Refusal(NO_METRICS),
    "metrics_recording_level": Refusal(NO_METRICS),
    "config_providers": Refusal(PROVIDERS, accepts=("",)),
    "security_providers": Refusal(
        "it names a Java security provider, and TLS uses Python's ssl module; remove it"
    ),
    "transaction_two_phase_commit_enable": Refusal(NO_TWO_PHASES, accepts=("false",)),
    **{f"compression_{codec}_level": Refusal(ONE_LEVEL) for codec in LEVELS},
    "ssl_engine_factory_class": Refusal(f"{JVM_CLASS}; use ssl_context"),
    "ssl_provider": Refusal(
        "it names a Java security provider, and TLS uses Python's ssl module; remove it", ("",)
    ),
    "ssl_secure_random_implementation": Refusal("TLS uses OpenSSL's random numbers; remove it", ("",)),
    "ssl_keymanager_algorithm": Refusal("TLS uses OpenSSL; remove it", accepts=("sunx509", "pkix")),
    "ssl_trustmanager_algorithm": Refusal("TLS uses OpenSSL; remove it", accepts=("pkix",)),
    "sasl_client_callback_handler_class": Refusal(
        f"{JVM_CLASS}; remove it", accepts=("", "software.amazon.msk.auth.iam.iamclientcallbackhandler")
    ),
    "sasl_login_callback_handler_class": Refusal(
        f"{JVM_CLASS}; use sasl_token_provider for tokens",
        accepts=(
            "",
            f"{_OAUTH}oauthbearerlogincallbackhandler",
            f"{_OAUTH}secured.oauthbearerlogincallbackhandler",
        ),
    ),
    "sasl_login_class": Refusal(f"{JVM_CLASS}; use sasl_token_provider for tokens", accepts=("",)),
}
REFUSED_PREFIXES: Mapping[str, Refusal] = {
    "config_providers_": Refusal(PROVIDERS),
    "sasl_kerberos_principal_to_": Refusal("only brokers map principals; remove it"),
    **{
        f"sasl_kerberos_{part}_": Refusal("tickets are got and renewed without kinit; remove it")
        for part in ("kinit", "min_time", "ticket_renew")
    },
    **{
        f"sasl_oauthbearer_{part}_": Refusal(OF_BROKERS)
        for part in ("clock_skew", "expected", "jwks", "scope_claim", "sub_claim")
    },
    "sasl_oauthbearer_jwt_validator_": Refusal(
        f"{JVM_CLASS}; remove it",
        accepts=("", f"{_OAUTH}defaultjwtvalidator", f"{_OAUTH}clientjwtvalidator"),
    ),
}
SERIALIZERS: Mapping[str, str] = {
    "ByteArraySerializer": "remove {name}: bytes need no serializer",
    "ByteBufferSerializer": "remove {name}: bytes-like objects need no serializer",
    "BytesSerializer": "remove {name}: bytes need no serializer",
    "StringSerializer": "pass {name}=aioproducer.serializers.string()",
}
PARTITIONERS: Mapping[str, str] = {
    "RoundRobinPartitioner": "use partitioner='round_robin'",
    "DefaultPartitioner": "remove it: the default partitioner hashes keys as Kafka does",
    "UniformStickyPartitioner": "use partitioner_ignore_keys=True",
}
ELSEWHERE: Mapping[str, str] = {  # names in other clients
    "enable_ssl_certificate_verification": "ssl_context",
    "oauth_cb": "sasl_token_provider",
    "oauthbearer_token_refresh_cb": "sasl_token_provider",
    "sasl_mechanisms": "sasl_mechanism",
    "sasl_oauth_token_provider": "sasl_token_provider",
    "sasl_oauthbearer_assertion_jwt_template_file": "sasl_oauthbearer_assertion_template_file",
    "sasl_oauthbearer_assertion_private_key_pem": "sasl_oauthbearer_assertion_private_key_file",
    "sasl_oauthbearer_client_id": "sasl_oauthbearer_client_credentials_client_id",
    "sasl_oauthbearer_client_secret": "sasl_oauthbearer_client_credentials_client_secret",
    "sasl_oauthbearer_config": "sasl_token_provider",
    "sasl_oauthbearer_extensions": "sasl_extensions",
    "sasl_oauthbearer_grant_type": "sasl_oauthbearer_jwt_retriever_class",
    "sasl_oauthbearer_metadata_authentication_type": "sasl_token_provider",
    "sasl_oauthbearer_method": "sasl_oauthbearer_token_endpoint_url",
    "sasl_plain_password": "sasl_password",
    "sasl_plain_username": "sasl_username",
    "ssl_ca_certificate_stores": "ssl_context",
    "ssl_ca_location": "ssl_truststore_location",
    "ssl_ca_pem": "ssl_truststore_certificates",
    "ssl_cafile": "ssl_truststore_location",
    "ssl_certfile": "ssl_keystore_location",
    "ssl_certificate_location": "ssl_keystore_location",
    "ssl_certificate_pem": "ssl_keystore_certificate_chain",
    "ssl_certificate_verify_cb": "ssl_context",
    "ssl_check_hostname": "ssl_endpoint_identification_algorithm",
    "ssl_ciphers": "ssl_cipher_suites",
    "ssl_crl_location": "ssl_context",
    "ssl_crlfile": "ssl_context",
    "ssl_curves_list": "ssl_context",
    "ssl_key_location": "ssl_keystore_location",
    "ssl_engine_location": "ssl_context",
    "ssl_key_pem": "ssl_keystore_key",
    "ssl_keyfile": "ssl_keystore_location",
    "ssl_password": "ssl_key_password",
    "ssl_providers": "ssl_context",
    "ssl_sigalgs_list": "ssl_context",
    "compression_codec": "compression_type",
    "max_batch_size": "batch_size",
    "max_in_flight": "max_in_flight_requests_per_connection",
    "max_in_flight_requests": "max_in_flight_requests_per_connection",
    "message_max_bytes": "max_request_size",
    "message_send_max_retries": "retries",
    "message_timeout_ms": "delivery_timeout_ms",
    "metadata_broker_list": "bootstrap_servers",
    "queue_buffering_max_ms": "linger_ms",
    "request_required_acks": "acks",
}
# Arguments that no text of a file stands for.
OBJECTS = frozenset(("sasl_token_provider", "ssl_context"))


def refusal(name: str) -> str | None:
    """The reason for which this Kafka property is refused, as a line that begins with its name, or None."""
    found = _find(name.replace(".", "_"))
    return f"{printable(name)}: {found.reason}" if found else None


def refuses_kafka(name: str) -> bool:
    """Whether a Kafka property (its dotted name) is refused with a reason."""
    return refusal(name) is not None


def says_what_we_do(name: str, value: object) -> bool:
    """Whether a refused property has a value that is the behaviour anyway, so that a file may keep it."""
    found = _find(name.replace(".", "_"))
    return found is not None and str(value).strip().lower() in found.accepts


def _find(name: str) -> Refusal | None:
    if name in REFUSED:
        return REFUSED[name]
    return next((found for prefix, found in REFUSED_PREFIXES.items() if name.startswith(prefix)), None)


def class_name_problem(dotted: str, value: str) -> str | None:
    """The replacement for a Java class name in a property, or None if the property does not hold one."""
    name, simple = dotted.replace(".", "_"), value.strip().rpartition(".")[2]
    if name in {"key_serializer", "value_serializer"}:
        advice = SERIALIZERS.get(simple, f"pass a callable as {name}=, see aioproducer.serializers").format(
            name=name
        )
    elif name == "partitioner_class" and simple in PARTITIONERS:
        advice = PARTITIONERS[simple]
    else:
        return None
    return f"{dotted}: {JVM_CLASS}; {advice}"


def unknown(name: str, value: object, origin: Origin, known: Collection[str]) -> str:
    """The line about an unknown name, with the nearest known one. A name that may be a part of a secret is not shown."""
    plain = name.replace(".", "_").strip()
    if plain in known:
        return f"{printable(name)}: the setting is named {plain}"
    near = [ELSEWHERE[plain]] if plain in ELSEWHERE else difflib.get_close_matches(plain.lower(), known, n=1)
    if not shows_name(name.strip(), value, is_near=bool(near), is_assigned=origin.is_assigned):
        return f"{origin.place}: no such setting; it is not shown, as it may be a part of a secret; {_advice(origin)}"
    if not near:
        return f"{printable(name)}: no such setting; remove it, or see {page('configuration.md')}"
    word = near[0].replace("_", ".") if "." in name and near[0] not in OBJECTS else near[0]
    return f"{printable(name)}: no such setting; did you mean {word}?"


def _advice(origin: Origin) -> str:
    if origin.is_line:
        return "remove it, or end the line before it with a backslash if it belongs to that value"
    return f"remove it, or see {page('configuration.md')}"
