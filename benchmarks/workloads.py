"""The workloads of the benchmarks, and the contestants of each."""

from __future__ import annotations

from typing import Any, Final

import attrs

from benchmarks.measure import LINGER_MS
from benchmarks.secured import SESSION_SECONDS, Listener

OURS: Final = "aioproducer"
CONFLUENT: Final = "confluent-kafka"
AIOKAFKA: Final = "aiokafka"
JAVA: Final = "Java client"
LIMIT: Final = "the limit"


@attrs.frozen
class Contestant:
    """One program of `benchmarks/clients` and its arguments; `records` are enough for one to three seconds."""

    name: str
    program: str
    records: int
    warm_up: int = 0
    options: dict[str, Any] = attrs.field(factory=dict)
    # The partitions of its topic.
    partitions: int = 4
    listener: Listener = "plaintext"


@attrs.frozen
class Workload:
    """One table of the results."""

    name: str
    title: str
    contestants: tuple[Contestant, ...]
    # Further figures beside rate and processor time: name of the figure, heading, format.
    figures: tuple[tuple[str, str, str], ...] = ()
    # False where the program decides the rate, which is no result then.
    shows_rate: bool = True
    # Without a goal: one round is enough.
    once: bool = False
    nodes: int = 1


def _all(records: dict[str, int], **options: Any) -> tuple[Contestant, ...]:
    programs = {
        OURS: "aioproducer_send",
        CONFLUENT: "confluent_send",
        AIOKAFKA: "aiokafka_send",
        JAVA: "java_send",
        LIMIT: "limit_send",
    }
    own_start = (JAVA, LIMIT)
    return tuple(
        Contestant(name, programs[name], count, 0 if name in own_start else count // 10, options)
        for name, count in records.items()
    )


def _paced(rate: int) -> Workload:
    return Workload(
        f"pace {rate}",
        f"`send_and_wait` of single records, {rate:,} a second (aioproducer with default settings, others with linger 0)",
        tuple(
            Contestant(name, f"{program}_paced", rate * 4, max(200, rate // 2), {"rate": rate})
            for name, program in ((OURS, "aioproducer"), (CONFLUENT, "confluent"), (AIOKAFKA, "aiokafka"))
        ),
        figures=(("p50_ms", "p50 ms", ".2f"), ("p99_ms", "p99 ms", ".2f")),
        shows_rate=False,
    )


def _transactions(each: int, count: int, warm_up: int, linger_ms: int, **others: str) -> Workload:
    options = {"per_transaction": each, "linger_ms": linger_ms}
    programs = {OURS: "aioproducer", CONFLUENT: "confluent", JAVA: "java", **others}
    return Workload(
        f"transactions {each}",
        f"Transactions of {each:,} record{'s' if each > 1 else ''} of 100 B, one after the other",
        tuple(
            Contestant(name, f"{program}_transactions", each * count, each * warm_up, options)
            for name, program in programs.items()
        ),
        figures=(
            ("transactions", "transactions/s", ".0f"),
            ("p50_ms", "commit p50 ms", ".2f"),
            ("p99_ms", "commit p99 ms", ".2f"),
        ),
    )


def _ours(name: str, records: int, **changes: Any) -> Contestant:
    outer = {key: changes.pop(key) for key in ("partitions", "program", "listener") if key in changes}
    program = outer.pop("program", "aioproducer_send")
    return Contestant(name, program, records, records // 10, changes, **outer)


VALUES: Final = Workload(
    "values",
    "100 B, one task, `await send()` each, deliveries kept",
    _all({OURS: 2_000_000, CONFLUENT: 1_000_000, AIOKAFKA: 150_000, JAVA: 1_000_000, LIMIT: 4_000_000}),
)
KEYS: Final = Workload(
    "keys", "The same with 16-byte keys", _all({OURS: 1_500_000, CONFLUENT: 800_000}, key_size=16)
)
KILOBYTES: Final = Workload(
    "kilobytes", "1 KB", _all({OURS: 400_000, CONFLUENT: 400_000, LIMIT: 500_000}, value_size=1024)
)
BULK: Final = Workload(
    "bulk",
    "`send_batch` of 10,000 values of 100 B",
    (
        _ours(OURS, 4_000_000, program="aioproducer_bulk", many=10_000),
        _ours("one by one", 2_000_000),
        Contestant(LIMIT, "limit_send", 4_000_000),
    ),
)
TASKS: Final = Workload(
    "tasks",
    "Many tasks, each `send_and_wait` in a loop",
    (
        _ours("10,000 tasks", 500_000, program="aioproducer_tasks", many=10_000),
        _ours("1,000 tasks", 500_000, program="aioproducer_tasks", many=1_000),
        _ours("100 tasks", 300_000, program="aioproducer_tasks", many=100),
    ),
)
PACES: Final = tuple(_paced(rate) for rate in (200, 2_000, 5_000))
# A single record in a transaction does not linger: the commit of confluent-kafka and of Java would wait. The broker now
# and then keeps those of Java for 20 ms: many are needed for similar rounds.
TRANSACTIONS: Final = (
    _transactions(1, 3_000, 500, 0, **{LIMIT: "limit"}),
    _transactions(100, 150, 50, LINGER_MS),
    _transactions(10_000, 30, 8, LINGER_MS),
)
# Small batches make many requests: the cost of a request shows here.
_SMALL: Final[dict[str, Any]] = {"partition": 0, "settings": {"batch_size": 4096}}
PARTITIONS: Final = Workload(
    "partitions",
    "One busy partition of a topic with many (batches of 4 KiB)",
    tuple(
        _ours(f"{count:,} partition{'s' if count > 1 else ''}", 200_000, partitions=count, **_SMALL)
        for count in (1, 100, 5_000)
    ),
    figures=(("request_micros", "CPU us/request", ".0f"),),
)
MEMORY: Final = Workload(
    "memory",
    "Memory of a buffered record with its delivery held, beside its value",
    (_ours(OURS, 1_000_000, program="aioproducer_memory"),),
    figures=(("bytes_per_record", "bytes", ".0f"),),
    shows_rate=False,
)
IDLE: Final = Workload(
    "idle",
    "An idle producer with two connections, one of 1,000 in a process",
    (_ours(OURS, 1_000, program="aioproducer_idle"),),
    figures=(("kib_each", "KiB each", ".0f"), ("idle_cpu_ms", "CPU of all in 2 s, ms", ".1f")),
    shows_rate=False,
)
STALLS: Final = Workload(
    "stalls",
    "Longest time for which the loop's thread works without looking up (processor time)",
    (_ours(OURS, 1_000_000, program="aioproducer_stalls"),),
    figures=tuple(
        (f"{kind}_{part}_ms", f"{kind.replace('_', ' ')}: longest {part}, ms", ".1f")
        for kind in ("one_by_one", "bulk", "tasks")
        for part in ("step", "turn")
    ),
    shows_rate=False,
)
LOOPS: Final = Workload(
    "loops",
    "100 B again: other loops, several producers in one loop, Kafka's default socket buffer",
    (
        _ours("asyncio", 1_000_000),
        _ours("uvloop", 1_000_000, uvloop=True),
        _ours("2 producers", 1_000_000, many=2),
        _ours("4 producers", 1_000_000, many=4),
        _ours("8 producers", 1_000_000, many=8),
        _ours("`send_buffer_bytes` at its default", 1_000_000, settings={"send_buffer_bytes": 131072}),
    ),
    once=True,
)
CODECS: Final = Workload(
    "codecs",
    "1 KB of words, by codec",
    tuple(
        _ours(codec, 100_000, value_size=1024, texts=True, settings={"compression_type": codec})
        for codec in ("none", "gzip", "snappy", "lz4", "zstd")
    ),
    figures=(("off_loop", "CPU off the loop", ".0%"),),
    once=True,
)
THREE_NODES: Final = Workload(
    "three nodes",
    "100 B on three brokers, 6 partitions with 3 replicas",
    tuple(
        attrs.evolve(contestant, records=contestant.records // 4, partitions=6)
        for contestant in _all({OURS: 2_000_000, CONFLUENT: 1_000_000, AIOKAFKA: 150_000})
    ),
    once=True,
    nodes=3,
)


ON_THREE_BROKERS: Final = ", 100 B with random keys of 16 B on three brokers"


def _shape(
    name: str, title: str, records: int, *, partitions: int, topics: int = 1, rate: int = 0
) -> Workload:
    options = {"rate": rate, "topics": topics}
    return Workload(
        f"shape {name}",
        title + ON_THREE_BROKERS,
        tuple(
            Contestant(client, f"{program}_shape", count, count // 10, options, partitions=partitions)
            for client, program, count in (
                (OURS, "aioproducer", records),
                (CONFLUENT, "confluent", records),
                (AIOKAFKA, "aiokafka", records // 4),
            )
        ),
        figures=(
            *((("cpu_us", "CPU us/record", ".2f"),) if rate else ()),
            ("per_batch", "records a batch", ".1f"),
            ("per_request", "records a request", ".1f"),
        ),
        shows_rate=not rate,
        nodes=3,
    )


SHAPES: Final = (
    _shape("keys", "120 partitions, 20,000 records a second", 80_000, partitions=120, rate=20_000),
    _shape("many keys", "1,000 partitions, 20,000 records a second", 80_000, partitions=1_000, rate=20_000),
    _shape(
        "trickle",
        "50 topics of 4 partitions, 5,000 records a second",
        20_000,
        partitions=4,
        topics=50,
        rate=5_000,
    ),
)
KEYS_UNPACED: Final = _shape("all keys", "120 partitions, without a pace", 400_000, partitions=120)
PRODUCTION: Final = (*SHAPES, KEYS_UNPACED)
PLAINTEXT: Final = "aioproducer, plaintext"
ON_UVLOOP: Final = "aioproducer on uvloop"
ON_UVLOOP_PLAINTEXT: Final = "aioproducer on uvloop, plaintext"


def _secured(name: str, title: str, ours: int, confluent: int, value_size: int) -> Workload:
    options: dict[str, Any] = {"value_size": value_size}
    tls: Listener = "SASL_SSL"
    contestants = (
        _ours(OURS, ours, listener=tls, **options),
        Contestant(CONFLUENT, "confluent_send", confluent, confluent // 10, options, listener=tls),
        _ours(ON_UVLOOP, ours, listener=tls, uvloop=True, **options),
        _ours(PLAINTEXT, ours, **options),
        _ours(ON_UVLOOP_PLAINTEXT, ours, uvloop=True, **options),
        Contestant("confluent-kafka, plaintext", "confluent_send", confluent, confluent // 10, options),
    )
    return Workload(name, f"{title} over SASL_SSL (TLS 1.3, SCRAM-SHA-512), and in plaintext", contestants)


SECURED: Final = (
    _secured("secured values", "100 B", 1_500_000, 800_000, 100),
    _secured("secured kilobytes", "1 KB", 400_000, 300_000, 1024),
)
DIALS: Final = Workload(
    "dials",
    "A producer that connects and closes, nothing sent",
    (
        _ours("TLS and SCRAM-SHA-512", 200, program="aioproducer_dials", listener="SASL_SSL"),
        _ours("plaintext", 200, program="aioproducer_dials"),
    ),
    figures=(
        ("cpu_ms", "CPU ms", ".2f"),
        ("loop_ms", "of it the loop's thread, ms", ".2f"),
        ("step_ms", "longest step, ms", ".2f"),
    ),
    shows_rate=False,
)
WITH_SESSIONS: Final = f"sessions of {SESSION_SECONDS} s"
ENDLESS: Final = "sessions without an end"
SESSIONS: Final = Workload(
    "sessions",
    "100 B over SASL_SSL for a longer time",
    (
        _ours(WITH_SESSIONS, 20_000_000, program="aioproducer_long", listener="SESSIONS"),
        _ours(ENDLESS, 20_000_000, program="aioproducer_long", listener="SASL_SSL"),
    ),
)
SESSION_PACE: Final = Workload(
    "session pace",
    "`send_and_wait` of single records, 500 a second for 20 s, over SASL_SSL",
    tuple(
        _ours(name, 10_000, program="aioproducer_paced", listener=listener, rate=500)
        for name, listener in ((WITH_SESSIONS, "SESSIONS"), (ENDLESS, "SASL_SSL"))
    ),
    figures=(("p50_ms", "p50 ms", ".2f"), ("p99_ms", "p99 ms", ".2f"), ("longest_ms", "longest, ms", ".1f")),
    shows_rate=False,
)
OBSERVED: Final = Workload(
    "observed",
    "The cost of being seen from outside, as differences to the same work without it (processor time)",
    (_ours(OURS, 10_000, program="aioproducer_observed"),),
    figures=(
        ("listener_us", "listener, us/batch", ".1f"),
        ("prometheus_us", "Prometheus, us/batch", ".1f"),
        ("otel_us", "OpenTelemetry's metrics, us/batch", ".1f"),
        ("context_none_us", "tracing, no span, us/record", ".2f"),
        ("context_same_us", "the context of the record before", ".2f"),
        ("context_other_us", "another context", ".2f"),
        ("span_us", "span with 32 links, us/batch", ".0f"),
        ("push_ms", "telemetry push, ms", ".2f"),
        ("stats_ms", "`stats()`, ms", ".2f"),
        ("scrape_ms", "scrape of 50 topics and 10 brokers, ms", ".1f"),
    ),
    shows_rate=False,
)
# 10,000 scrapes in the time of 10^9 records at 1 M records a second.
SCRAPES_A_SECOND: Final = 10
SCRAPED_OFTEN, NOT_SCRAPED = f"{SCRAPES_A_SECOND} scrapes a second", "no scrapes"
SCRAPED: Final = Workload(
    "scraped",
    "100 B for a longer time, scraped for Prometheus from another thread",
    (
        _ours(SCRAPED_OFTEN, 20_000_000, program="aioproducer_long", scrapes=SCRAPES_A_SECOND),
        _ours(NOT_SCRAPED, 20_000_000, program="aioproducer_long"),
    ),
    figures=(("scrapes", "scrapes", ".0f"), ("scrape_ms", "processor ms each", ".2f")),
)
SERIALIZERS: Final = Workload(
    "serializers",
    "Serializers with a schema registry: an object of four fields whose schema is known (no record is sent)",
    tuple(
        Contestant(name, f"{program}_serializers", 200_000)
        for name, program in ((OURS, "aioproducer"), (CONFLUENT, "confluent"), (LIMIT, "limit"))
    ),
    figures=tuple(
        (f"{name}_us", f"{title}, CPU us", ".2f")
        for name, title in (
            ("avro", "Avro"),
            ("json", "JSON"),
            ("validated", "JSON, validated"),
            ("protobuf", "Protobuf"),
        )
    ),
    shows_rate=False,
)
WORKLOADS: Final = (
    VALUES, KEYS, KILOBYTES, BULK, TASKS, *PACES, *TRANSACTIONS, PARTITIONS, MEMORY, IDLE, STALLS, *SECURED, DIALS, SESSIONS,
    SESSION_PACE, OBSERVED, SCRAPED, SERIALIZERS, LOOPS, CODECS, *SHAPES,
    KEYS_UNPACED, THREE_NODES,
)  # fmt: skip
# A broker's JVM compiles its code for transactions completely only after some ten thousand of them, which halves its
# time: these come before the counted ones.
MANY_TRANSACTIONS: Final = attrs.evolve(TRANSACTIONS[0].contestants[0], records=20_000)
