"""The sink's options as Spark passes them: names in lower case, values as text. All problems are reported together."""

from __future__ import annotations

import difflib
import enum
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import attrs

from aioproducer.config import (
    ConfigProvider,
    DirectoryProvider,
    EnvProvider,
    FileProvider,
    ProducerConfig,
    reading_files_again,
    shown_pair,
    shows_name,
    topic_problem,
)
from aioproducer.errors import ConfigurationError, printable
from aioproducer.spark.formats import OPTIONS, SPELT_FORMATS, Structure, read_structure

__all__ = ["Guarantee", "SinkOptions", "read_options", "require_own_id", "settings_of", "with_time_for_a_job"]

T = TypeVar("T")

PREFIX: Final = "kafka."
FAIL: Final = "fail"
# Spark's own options, which arrive with the others: `queryName()` sets one as well.
OF_SPARK: Final = frozenset({"checkpointlocation", "queryname"})
OURS: Final = (
    "topic", "includeheaders", "delivery", "sink.id", "write.id", "marker.topic", "ledger.topic", "on.error", "secrets.folders", "secrets.env",
    *OPTIONS,
)  # fmt: skip
# The users' spelling; Spark makes option names lower case.
SPELT: Final[Mapping[str, str]] = {
    "includeheaders": "includeHeaders",
    "checkpointlocation": "checkpointLocation",
    **SPELT_FORMATS,
}
INSTEAD: Final[Mapping[str, str]] = {
    "path": "set the topic by the option 'topic' or the column of that name, and call save() or start() without a path",
    "transactional_id": "the sink sets 'kafka.transactional.id': use delivery=exactly-once, and name the work by sink.id or write.id",
    "bootstrap.servers": "did you mean 'kafka.bootstrap.servers'?",
}
LONGEST_ID: Final = 200
# The ledger of all sinks of a cluster, and the word for none.
LEDGER: Final = "aioproducer-spark-marks"
NONE: Final = "none"
# Kafka's default of 128 KiB costs a task with many rows half of its rate.
SEND_BUFFER: Final = "send.buffer.bytes"
AS_THE_SYSTEM_LIKES: Final = "-1"
# A placeholder: each task gets an id of its own before it does anything.
PLACEHOLDER_ID: Final = "aioproducer-spark"
# The default limit of brokers: a task's transaction stays open until the driver has the results of all tasks.
JOB_TIMEOUT_MS: Final = 900_000


class Guarantee(enum.Enum):
    """The guarantee for readers of committed records."""

    AT_LEAST_ONCE = "at-least-once"
    EXACTLY_ONCE = "exactly-once"


@attrs.frozen
class SinkOptions:
    """The checked options of the user; they are sent to the executors unchanged, and their repr shows no secret."""

    producer: ProducerConfig
    topic: str | None = None
    includes_headers: bool = True
    guarantee: Guarantee = Guarantee.AT_LEAST_ONCE
    sink_id: str | None = None
    write_id: str | None = None
    # The topic of the offsets that mark committed work.
    marker_topic: str | None = None
    # The compacted topic that keeps the marks; None: they are kept as long as brokers keep offsets.
    ledger_topic: str | None = None
    # The topic for records that can never be written; None: they fail the write.
    dead_letters: str | None = None
    # How columns become values and keys; None: they are bytes already.
    structure: Structure | None = None
    # As the user gave them. Executors make the configuration again: one with a password is not pickled.
    given: Mapping[str, str] = attrs.field(factory=dict, repr=False, eq=False)

    def __reduce__(self) -> tuple[Callable[[Mapping[str, str]], SinkOptions], tuple[Mapping[str, str]]]:
        return read_options, (self.given,)

    @property
    def is_exactly_once(self) -> bool:
        """Whether records are written in transactions."""
        return self.guarantee is Guarantee.EXACTLY_ONCE


def read_options(given: Mapping[str, str]) -> SinkOptions:
    """The checked options; ConfigurationError has every problem and its fix, and no value of a Kafka property."""
    problems: list[str] = []
    options = _read({name.lower(): value for name, value in given.items()}, problems)
    # Values with passwords must not be in a frame of an error's traceback: Spark can be configured to print locals.
    del given
    if options is None or problems:
        del options
        raise ConfigurationError("; ".join(problems))
    return options


def with_time_for_a_job(options: SinkOptions) -> SinkOptions:
    """The same with the longest transactions that brokers allow by default, unless the user has set a timeout."""
    if "transaction_timeout_ms" in options.producer.given:
        return options
    return read_options({**options.given, f"{PREFIX}transaction.timeout.ms": str(JOB_TIMEOUT_MS)})


def require_own_id(options: SinkOptions, *, is_stream: bool) -> None:
    """Raise ConfigurationError for the id of the other kind of work: a repeated run would not be recognized by it."""
    if is_stream and options.write_id is not None:
        raise ConfigurationError("write.id is for batches: a stream uses the option 'sink.id'")
    if not is_stream and options.sink_id is not None:
        raise ConfigurationError(
            "sink.id is for streams: a batch uses the option 'write.id', and foreachBatch the "
            "argument epoch= of write()"
        )


def settings_of(config: ProducerConfig) -> dict[str, Any]:
    """The settings besides the servers, for calls that need no producer."""
    return {name: getattr(config, name) for name in config.given if name != "bootstrap_servers"}


def _read(given: dict[str, str], problems: list[str]) -> SinkOptions | None:
    ours = {name: value for name, value in given.items() if not name.startswith(PREFIX)}
    problems += [
        _unknown(name, value) for name, value in ours.items() if name not in OURS and name not in OF_SPARK
    ]
    guarantee = _one_of(
        "delivery", ours, {each.value: each for each in Guarantee}, Guarantee.AT_LEAST_ONCE, problems
    )
    kafkas = {name.removeprefix(PREFIX): value for name, value in given.items() if name not in ours}
    producer = _producer(kafkas, guarantee, _providers(ours, problems), problems)
    headers = _one_of("includeheaders", ours, {"true": True, "false": False}, True, problems)
    on_error = ours.get("on.error", FAIL)
    dead_letters = None if on_error.strip().lower() == FAIL else _topic("on.error", on_error, problems)
    topic = _topic("topic", ours["topic"], problems) if "topic" in ours else None
    ids = {name: _id(name, ours[name], problems) for name in ("sink.id", "write.id") if name in ours}
    if ids and guarantee is not Guarantee.EXACTLY_ONCE:
        problems.append(f"{' and '.join(ids)}: set delivery=exactly-once")
    if topic is not None and topic == dead_letters:
        problems.append("on.error names the topic of the rows: rows that it refused would be refused again")
    structure = read_structure(ours, problems)
    problems += _without_subject(structure, topic)
    marker_topic = _topic("marker.topic", ours["marker.topic"], problems) if "marker.topic" in ours else topic
    if guarantee is Guarantee.EXACTLY_ONCE and marker_topic is None:
        problems.append(
            "delivery=exactly-once marks completed work by offsets of a topic: set the option 'topic' or 'marker.topic'"
        )
    ledger = _ledger(ours, guarantee, [topic, marker_topic, dead_letters], problems)
    if producer is None:
        return None
    return SinkOptions(
        producer,
        topic,
        headers,
        guarantee,
        ids.get("sink.id"),
        ids.get("write.id"),
        marker_topic,
        ledger,
        dead_letters,
        structure,
        given,
    )


def _ledger(
    ours: Mapping[str, str], guarantee: Guarantee, others: list[str | None], problems: list[str]
) -> str | None:
    if guarantee is not Guarantee.EXACTLY_ONCE:
        return None
    text = ours.get("ledger.topic", LEDGER)
    if text.strip().lower() == NONE:
        return None
    name = _topic("ledger.topic", text, problems)
    if name in others:
        problems.append("ledger.topic: must be a topic of its own, because it is compacted")
    return name


def _without_subject(structure: Structure | None, topic: str | None) -> list[str]:
    """The usual subject of a schema has the name of the topic."""
    if structure is None or structure.registry is None or topic is not None:
        return []
    return [
        f"{prefix}subject or {prefix}schema.id: set one of them, because the option 'topic' is not set"
        for prefix, part in (("", structure.value), ("key.", structure.key))
        if part is not None and part.subject is None and part.schema_id is None
    ]


def _unknown(name: str, value: str) -> str:
    if name in INSTEAD:
        return f"unknown option {name!r}: {INSTEAD[name]}"
    near = difflib.get_close_matches(name, [*OURS, PREFIX + "bootstrap.servers"], n=1)
    hint = (
        f"did you mean {SPELT.get(near[0], near[0])!r}?"
        if near
        else "names of Kafka's properties begin with 'kafka.'"
    )
    if not shows_name(name, value, is_near=bool(near)):
        return "unknown option, not shown, as it may be a part of a secret: names of Kafka's properties begin with 'kafka.'"
    return f"unknown option {printable(name)!r}: {hint}"


def _providers(ours: Mapping[str, str], problems: list[str]) -> dict[str, ConfigProvider]:
    """The sources of secrets on each machine: the options have references to them, and travel in their place."""
    found: dict[str, ConfigProvider] = {}
    try:
        if "secrets.folders" in ours:
            folders = [folder.strip() for folder in ours["secrets.folders"].split(",")]
            found |= {"file": FileProvider(folders), "dir": DirectoryProvider(folders)}
        if "secrets.env" in ours:
            found["env"] = EnvProvider(ours["secrets.env"])
    except ConfigurationError as error:
        problems.append(f"secrets.folders and secrets.env: {error}")
    return found


def _producer(
    properties: dict[str, str],
    guarantee: Guarantee,
    providers: Mapping[str, ConfigProvider],
    problems: list[str],
) -> ProducerConfig | None:
    for name in [name for name in properties if name.replace("_", ".") == "transactional.id"]:
        del properties[name]
        problems.append(INSTEAD["transactional_id"])
    if guarantee is Guarantee.EXACTLY_ONCE:
        properties["transactional.id"] = PLACEHOLDER_ID
    properties.setdefault(SEND_BUFFER, AS_THE_SYSTEM_LIKES)
    weak = [name for name, text in properties.items() if _is_weak(name, text)]
    for name in weak:
        del properties[name]
    if not providers and any("${" in text for text in properties.values()):
        problems.append("references such as ${dir:...} need the option secrets.folders or secrets.env")
    config: ProducerConfig | None = None
    try:
        made = ProducerConfig.from_properties(properties, providers=providers)
        # A password may change while a task runs, or while workers keep their connections.
        config = reading_files_again(made, properties, providers)
    except ConfigurationError as error:
        problems.append(f"options that begin with 'kafka.': {error}")
    # A reference may have led to such a value.
    if weak or (config is not None and not (config.acks == -1 and config.enable_idempotence)):
        problems.append(
            "the sink requires acks=all and idempotence: remove kafka.acks and kafka.enable.idempotence, or set them to all and true"
        )
    return config


def _is_weak(name: str, text: str) -> bool:
    """Whether a setting gives up a guarantee. The producer's own error about `acks` would advise to do without idempotence."""
    weak = {"acks": ("0", "1"), "enable.idempotence": ("false",)}
    return text.strip().lower() in weak.get(name.replace("_", "."), ())


def _one_of(
    name: str, ours: Mapping[str, str], choices: Mapping[str, T], default: T, problems: list[str]
) -> T:
    text = ours.get(name)
    if text is None:
        return default
    if text.strip().lower() not in choices:
        problems.append(f"{shown_pair(SPELT.get(name, name), text)}: must be {' or '.join(choices)}")
        return default
    return choices[text.strip().lower()]


def _topic(name: str, text: str, problems: list[str]) -> str:
    problem = topic_problem(text)
    if problem:
        problems.append(f"{name}: {problem}")
    return text


def _id(name: str, text: str, problems: list[str]) -> str:
    if not text.strip() or not text.isprintable() or len(text.encode(errors="replace")) > LONGEST_ID:
        problems.append(
            f"{name}: must be 1 to {LONGEST_ID} printable bytes, because it is part of transactional ids"
        )
    return text
