"""Names that are no settings here: Kafka properties that are refused, and why; names of other clients; mistakes."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping

import attrs

from aioproducer._codecs import LEVELS
from aioproducer.errors import printable

__all__ = ["REFUSED", "REFUSED_PREFIXES", "refusal", "refuses_kafka", "says_what_we_do", "unknown"]

NOT_BUILT = "not built yet in this version; remove it"
NO_TWO_PHASES = "two-phase commit (KIP-939) is not built; remove it"
NO_METRICS = "there are no metrics to configure; read producer.stats(), and remove this"
NO_TELEMETRY = "nothing is pushed to brokers; read producer.stats(), and remove this"
ONE_LEVEL = "as an argument, use compression_level, which is for the compression_type in use; works in a properties file"
JVM_CLASS = "a class can only be loaded by a JVM"


@attrs.frozen
class Refusal:
    """Why a Kafka property is no setting, with what to do; `accepts` are values that ask for what happens anyway."""

    reason: str
    accepts: tuple[str, ...] = ()


REFUSED: Mapping[str, Refusal] = {
    "partitioner_class": Refusal(
        f"{JVM_CLASS}; use partitioner= with 'default', 'round_robin', 'murmur3', 'random' or a callable"
    ),
    "interceptor_classes": Refusal(f"{JVM_CLASS}; use interceptors=[…] with objects of yours", accepts=("",)),
    "metric_reporters": Refusal(f"{JVM_CLASS}; read producer.stats(), and remove this", accepts=("",)),
    "enable_metrics_push": Refusal(NO_TELEMETRY, accepts=("false",)),
    "metrics_sample_window_ms": Refusal(NO_METRICS),
    "metrics_num_samples": Refusal(NO_METRICS),
    "metrics_recording_level": Refusal(NO_METRICS),
    "config_providers": Refusal(
        "settings are data: nothing in them is looked up elsewhere; read secrets in your own code, and remove this",
        accepts=("",),
    ),
    "security_providers": Refusal("a Java security provider; TLS comes from Python's ssl module; remove it"),
    "transaction_two_phase_commit_enable": Refusal(NO_TWO_PHASES, accepts=("false",)),
    **{f"compression_{codec}_level": Refusal(ONE_LEVEL) for codec in LEVELS},
    "ssl_keystore_type": Refusal("Java key stores cannot be read; convert to PEM; TLS is " + NOT_BUILT),
    "ssl_truststore_type": Refusal("Java trust stores cannot be read; convert to PEM; TLS is " + NOT_BUILT),
    "ssl_keystore_location": Refusal("Java key stores cannot be read; convert to PEM; TLS is " + NOT_BUILT),
    "ssl_truststore_location": Refusal(
        "Java trust stores cannot be read; convert to PEM; TLS is " + NOT_BUILT
    ),
    "ssl_engine_factory_class": Refusal(f"{JVM_CLASS}; TLS is {NOT_BUILT}"),
    "sasl_client_callback_handler_class": Refusal(f"{JVM_CLASS}; SASL is {NOT_BUILT}"),
    "sasl_login_callback_handler_class": Refusal(f"{JVM_CLASS}; SASL is {NOT_BUILT}"),
    "sasl_login_class": Refusal(f"{JVM_CLASS}; SASL is {NOT_BUILT}"),
    "sasl_oauthbearer_jwt_retriever_class": Refusal(f"{JVM_CLASS}; SASL is {NOT_BUILT}"),
    "sasl_oauthbearer_jwt_validator_class": Refusal(f"{JVM_CLASS}; SASL is {NOT_BUILT}"),
    "sasl_jaas_config": Refusal(f"names a Java login module; SASL is {NOT_BUILT}"),
}
REFUSED_PREFIXES: Mapping[str, Refusal] = {
    "ssl_": Refusal(f"TLS is {NOT_BUILT}"),
    "sasl_": Refusal(f"SASL is {NOT_BUILT}"),
}
SERIALIZERS: Mapping[str, str] = {
    "ByteArraySerializer": "leave {name} out, bytes are what is taken without a serializer",
    "ByteBufferSerializer": "leave {name} out, bytes-like objects are what is taken without a serializer",
    "BytesSerializer": "leave {name} out, bytes are what is taken without a serializer",
    "StringSerializer": "pass {name}=aioproducer.serializers.string()",
}
PARTITIONERS: Mapping[str, str] = {
    "RoundRobinPartitioner": "use partitioner='round_robin'",
    "DefaultPartitioner": "leave it out, hashing keys as Kafka does is the default",
    "UniformStickyPartitioner": "use partitioner_ignore_keys=True",
}
ELSEWHERE: Mapping[str, str] = {  # what other clients call it
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


def refusal(name: str) -> str | None:
    """Why this property of Kafka's is refused, as a line that begins with its name; None if it is not one."""
    found = _find(name.replace(".", "_"))
    return f"{printable(name)}: {found.reason}" if found else None


def refuses_kafka(name: str) -> bool:
    """Whether a Kafka property (its dotted name) is refused with a reason."""
    return refusal(name) is not None


def says_what_we_do(name: str, value: object) -> bool:
    """Whether a refused property asks for what happens anyway, so that a file that has it may keep it."""
    found = _find(name.replace(".", "_"))
    return found is not None and str(value).strip().lower() in found.accepts


def _find(name: str) -> Refusal | None:
    if name in REFUSED:
        return REFUSED[name]
    return next((found for prefix, found in REFUSED_PREFIXES.items() if name.startswith(prefix)), None)


def class_name_problem(dotted: str, value: str) -> str | None:
    """What to do instead of this Java class name in a property, or None if the property does not hold one."""
    name, simple = dotted.replace(".", "_"), value.strip().rpartition(".")[2]
    if name in {"key_serializer", "value_serializer"}:
        advice = SERIALIZERS.get(simple, f"pass {name}= a callable, see aioproducer.serializers").format(
            name=name
        )
    elif name == "partitioner_class" and simple in PARTITIONERS:
        advice = PARTITIONERS[simple]
    else:
        return None
    return f"{dotted}: {JVM_CLASS}; {advice}"


def unknown(name: str, known: Collection[str]) -> str:
    """The line about a name that is nobody's, with the nearest known one."""
    dotted = "." in name
    plain = name.replace(".", "_").strip()
    if plain in known:
        return f"{printable(name)}: written {plain} here"
    near = [ELSEWHERE[plain]] if plain in ELSEWHERE else difflib.get_close_matches(plain.lower(), known, n=1)
    if not near:
        return f"{printable(name)}: no such setting; remove it, or see docs/configuration.md for all names"
    return f"{printable(name)}: no such setting; did you mean {near[0].replace('_', '.') if dotted else near[0]}?"
