"""ProducerConfig: defaults, checks, conflicts, and what can be done with one."""

from __future__ import annotations

import asyncio
import builtins
import pickle
import random
import socket
import threading
import traceback
import typing
from functools import partial
from typing import Any

import attrs
import pytest

from aioproducer._codecs import CODECS
from aioproducer.config import SETTINGS, Changes, ProducerConfig, Settings
from aioproducer.config.conflicts import CEILINGS
from aioproducer.documentation import page
from aioproducer.errors import ConfigurationError
from aioproducer.interceptors import Interceptor
from aioproducer.partitioners import RoundRobin, round_robin
from aioproducer.serializers import String
from tests.seeds import fresh_seed

SERVER = "localhost:9092"


def problems(**settings: Any) -> list[str]:
    """The lines of the error that these settings raise."""
    with pytest.raises(ConfigurationError) as caught:
        ProducerConfig(SERVER, **settings)
    assert all(line in str(caught.value) for line in caught.value.problems)
    return list(caught.value.problems)


def the_problem(**settings: Any) -> str:
    (line,) = problems(**settings)
    return line


async def _coroutine(*_: object) -> None: ...


# ---- values


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"linger_ms": -1}, "linger_ms=-1: must be 0 or more"),
        ({"linger_ms": 1.5}, "linger_ms=1.5: must be a whole number of milliseconds, not float"),
        ({"linger_ms": 5.0}, "linger_ms=5.0: must be a whole number of milliseconds, not float"),
        ({"linger_ms": "5"}, "linger_ms='5': must be a whole number of milliseconds, not str"),
        ({"linger_ms": True}, "linger_ms=True: must be a whole number of milliseconds, not bool"),
        ({"linger_ms": None}, "linger_ms=None: must be a whole number of milliseconds, not NoneType"),
        ({"batch_size": -1}, "batch_size=-1: must be 0 or more"),
        ({"batch_size": 2**31}, "batch_size=2147483648: must be 0 to 2147483647"),
        ({"buffer_memory": 0}, "buffer_memory=0: must be 1 or more"),
        ({"max_request_size": 0}, "max_request_size=0: must be 1 or more"),
        ({"max_in_flight_requests_per_connection": 0}, "must be 1 or more"),
        ({"metadata_max_idle_ms": 4999}, "must be 5000 or more"),
        ({"send_buffer_bytes": -2}, "must be -1 or more"),
        ({"enable_idempotence": 1}, "enable_idempotence=1: must be True or False, not int"),
        ({"linger_awaited": "yes"}, "must be True or False, not str"),
        ({"acks": 2}, "acks=2: must be 'all' (or -1), 1 or 0"),
        ({"acks": True}, "acks=True: must be 'all'"),
        ({"acks": None}, "acks=None: must be 'all'"),
        ({"acks": 1.0}, "acks=1.0: must be 'all'"),
        ({"compression_type": "brotli"}, "must be one of 'none', 'gzip', 'snappy', 'lz4', 'zstd'"),
        ({"compression_type": None}, "must be one of"),
        ({"security_protocol": "TLS"}, "must be one of 'PLAINTEXT', 'SSL', 'SASL_PLAINTEXT', 'SASL_SSL'"),
        ({"client_dns_lookup": "resolve_canonical_bootstrap_servers_only"}, "use 'use_all_dns_ips'"),
        ({"client_id": ""}, "must not be empty"),
        ({"client_id": 7}, "must be str, not int"),
        ({"client_id": "a\nb"}, r"client_id='a\nb': must consist of printable characters"),
        ({"client_id": "é" * 128}, "at most 255 bytes"),
        ({"client_rack": ""}, "not empty"),
        ({"transactional_id": ""}, "not empty"),
        ({"transactional_id": 7}, "must be str, not int"),
        ({"transactional_id": "é" * 16_384}, "at most 32767 bytes"),
        ({"topics": "orders"}, "must be a sequence of names, such as ['orders']"),
        ({"topics": ["a b"]}, "'a b': a topic name must consist of ASCII letters"),
        ({"topics": [""]}, "must not be empty"),
        ({"topics": [".."]}, "must not be '..'"),
        ({"topics": ["x" * 250]}, "at most 249 characters, not 250"),
        ({"topics": [["a"]]}, "must be str, not list"),
        ({"key_serializer": "string"}, "must be a Python object, not a name"),
        ({"value_serializer": 5}, "must be a callable, or an object with serialize"),
        ({"value_serializer": String}, "String is a class: pass an instance, String(…)"),
        ({"partitioner": "sticky"}, "must be 'default', 'round_robin', 'murmur3', 'random', or a callable"),
        ({"partitioner": RoundRobin}, "RoundRobin is a class"),
        ({"partitioner": _coroutine}, "cannot be a coroutine function"),
        ({"interceptors": Interceptor()}, "must be a sequence of objects"),
        ({"interceptors": [Interceptor]}, "Interceptor is a class"),
        ({"interceptors": [object()]}, "object has no on_send(): derive it from Interceptor"),
    ],
)
def test_impossible_values_are_refused(settings: dict[str, Any], line: str) -> None:
    """Each wrong type or value is reported with the setting, the value and the accepted values."""
    problem = the_problem(**settings)
    assert problem.startswith(next(iter(settings)))
    assert line in problem


@pytest.mark.parametrize(
    ("settings", "kept"),
    [
        ({"acks": "all"}, -1),
        ({"acks": "ALL"}, -1),
        ({"acks": -1}, -1),
        ({"compression_type": "ZSTD"}, "zstd"),
        ({"security_protocol": "plaintext"}, "PLAINTEXT"),
        ({"connections_max_idle_ms": -1}, -1),
        ({"batch_size": 0}, 0),
        ({"topics": ["a", "b", "a"]}, ("a", "b")),
        ({"client_rack": None}, None),
        ({"interceptors": []}, ()),
        ({"partitioner": round_robin}, round_robin),
        ({"client_id": "zahlungen-ü"}, "zahlungen-ü"),
    ],
)
def test_values_are_kept_in_one_form(settings: dict[str, Any], kept: object) -> None:
    """A setting that can be written in several forms is kept in one."""
    assert getattr(ProducerConfig(SERVER, **settings), next(iter(settings))) == kept


@pytest.mark.parametrize("acks", ["1", 1, "0", 0])
def test_acks_is_a_number(acks: typing.Literal["1", 1, "0", 0]) -> None:
    """`acks` is kept as the number that goes on the wire."""
    assert ProducerConfig(SERVER, acks=acks, enable_idempotence=False).acks == int(acks)


class _Index:
    def __index__(self) -> int:
        return 7


def test_integers_of_other_libraries_are_integers() -> None:
    """Whatever is an integer for Python (numpy's are) is one here, and is kept as int."""
    kept = ProducerConfig(SERVER, linger_ms=_Index()).linger_ms  # type: ignore[arg-type]
    assert (type(kept), kept) == (int, 7)


def test_coroutine_serializers_are_accepted() -> None:
    """A serializer may wait, unlike a partitioner."""
    assert ProducerConfig(SERVER, value_serializer=_coroutine).value_serializer is _coroutine


def test_interceptors_cannot_wait() -> None:
    """A coroutine method of an interceptor is refused, because its result would not be awaited."""

    class Waiting(Interceptor):
        async def on_send(self, record: Any, /) -> Any:  # type: ignore[override]
            return record

    assert "on_send() of Waiting cannot be a coroutine function" in the_problem(interceptors=[Waiting()])


# ---- names


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("lingr_ms", "lingr_ms: no such setting; did you mean linger_ms?"),
        ("linger", "did you mean linger_ms?"),
        ("linger.ms", "did you mean linger.ms?"),
        ("Batch_Size", "did you mean batch_size?"),
        ("max_batch_size", "did you mean batch_size?"),
        ("queue_buffering_max_ms", "did you mean linger_ms?"),
        ("xyz_zy", f"xyz_zy: no such setting; remove it, or see {page('configuration.md')}"),
        ("xyzzy", "argument 1: no such setting; it is not shown, as it may be a part of a secret; remove it"),
        ("transaction_two_phase_commit_enable", "two-phase commit (KIP-939) is not implemented"),
        ("ssl_cafile", "did you mean ssl_truststore_location?"),
        ("sasl_plain_username", "did you mean sasl_username?"),
        ("sasl_kerberos_kinit_cmd", "tickets are got and renewed without kinit"),
        ("metric_reporters", "producer.stats()"),
        ("partitioner_class", "use partitioner="),
        ("compression_gzip_level", "use compression_level"),
        ("a_a\nb", "argument 1: no such setting; it is not shown"),
    ],
)
def test_names_that_are_no_settings(name: str, line: str) -> None:
    """The error of an unknown or refused name has the nearest name, or the alternative."""
    if name == "linger.ms":
        line = "linger.ms: the setting is named linger_ms"
    assert line in the_problem(**{name: "1"})


def test_all_problems_are_told_at_once() -> None:
    """One error has every problem: unknown names, wrong values, conflicts, and the address."""
    with pytest.raises(ConfigurationError) as caught:
        ProducerConfig(
            "localhost",
            lingr_ms=1,  # type: ignore[call-arg]
            batch_size=-1,
            acks=1,
            compression_level=3,
            request_timeout_ms="1",  # type: ignore[arg-type]
        )
    begin = [line.split(":")[0].split("=")[0] for line in caught.value.problems]
    assert sorted(begin) == [
        "acks",
        "batch_size",
        "bootstrap_servers",
        "compression_level",
        "lingr_ms",
        "request_timeout_ms",
    ]


# ---- conflicts


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"acks": 1}, "acks=1: enable_idempotence=True (the default) requires acks='all'"),
        ({"acks": 0}, "acks=0: enable_idempotence=True (the default) requires"),
        ({"retries": 0}, "retries=0: enable_idempotence=True (the default) requires retries of 1 or more"),
        ({"max_in_flight_requests_per_connection": 6}, "at most 5"),
        ({"acks": 1, "enable_idempotence": True}, "acks=1: enable_idempotence=True requires"),
    ],
)
def test_losing_idempotence_is_always_an_error(settings: dict[str, Any], line: str) -> None:
    """A setting that would take idempotence away is an error that names the way out, asked for by name or not."""
    problem = the_problem(**settings)
    assert line in problem
    assert "enable_idempotence=False" in problem
    assert not ProducerConfig(SERVER, **{**settings, "enable_idempotence": False}).enable_idempotence


def test_delivery_timeout_must_hold_one_linger_and_one_request() -> None:
    """An explicit `delivery_timeout_ms` below linger + request is an error; at the sum it is none."""
    line = the_problem(delivery_timeout_ms=30_004)
    assert line.startswith(
        "delivery_timeout_ms=30004: must be at least linger_ms + request_timeout_ms (5 + 30000)"
    )
    assert ProducerConfig(SERVER, delivery_timeout_ms=30_005).delivery_timeout_ms == 30_005


def test_default_delivery_timeout_grows_with_the_others() -> None:
    """A `delivery_timeout_ms` that was not given is never too short, as in Kafka."""
    assert ProducerConfig(SERVER).delivery_timeout_ms == 120_000
    assert ProducerConfig(SERVER, request_timeout_ms=200_000).delivery_timeout_ms == 200_005


def test_close_timeout_follows_the_delivery_timeout() -> None:
    """`close_timeout_ms` is `delivery_timeout_ms` unless it is given."""
    assert ProducerConfig(SERVER, delivery_timeout_ms=45_000).close_timeout_ms == 45_000
    assert ProducerConfig(SERVER, delivery_timeout_ms=45_000, close_timeout_ms=0).close_timeout_ms == 0


@pytest.mark.parametrize(
    ("ceiling", "start", "default"), [(name, *facts) for name, facts in CEILINGS.items()]
)
def test_ceilings_are_never_below_where_they_begin(ceiling: str, start: str, default: int) -> None:
    """A longest pause follows a longer first one if it was not given, and is an error if it was."""
    assert getattr(ProducerConfig(SERVER), ceiling) == default
    assert getattr(ProducerConfig(SERVER, **{start: default + 1}), ceiling) == default + 1  # type: ignore[arg-type]
    assert f"must be at least {start}=5: raise it" in the_problem(**{ceiling: 4, start: 5})


@pytest.mark.parametrize(("kind", "low", "high"), [("gzip", 1, 9), ("lz4", 1, 17), ("zstd", -131_072, 22)])
def test_compression_levels_depend_on_the_type(
    kind: typing.Literal["gzip", "lz4", "zstd"], low: int, high: int
) -> None:
    """Each type has levels of its own, with both ends included."""
    for level in (low, high):
        assert (
            ProducerConfig(SERVER, compression_type=kind, compression_level=level).compression_level == level
        )
    for level in (low - 1, high + 1):
        assert "compression_level" in the_problem(compression_type=kind, compression_level=level)


@pytest.mark.parametrize("kind", ["none", "snappy"])
def test_some_types_have_no_levels(kind: str) -> None:
    """A level for a type without levels is an error, not ignored."""
    assert "has no levels: remove compression_level" in the_problem(
        compression_type=kind, compression_level=1
    )


def test_rack_awareness_needs_a_rack() -> None:
    """Preferring one's own rack without saying which it is, is an error."""
    assert "requires client_rack" in the_problem(partitioner_rack_aware=True)
    assert ProducerConfig(SERVER, partitioner_rack_aware=True, client_rack="a").client_rack == "a"


# ---- what can be done with one


def test_configuration_is_frozen_and_has_no_dict() -> None:
    """Nothing in a configuration can be changed behind the producer's back."""
    config = ProducerConfig(SERVER)
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        config.linger_ms = 1  # type: ignore[misc]
    assert not hasattr(config, "__dict__")


def test_equality_is_of_values() -> None:
    """Two configurations are equal, and hash alike, if all settings are, given or not."""
    assert ProducerConfig(SERVER, linger_ms=5) == ProducerConfig([SERVER])
    assert hash(ProducerConfig(SERVER, linger_ms=5)) == hash(ProducerConfig([SERVER]))
    assert ProducerConfig(SERVER, linger_ms=6) != ProducerConfig(SERVER)


def test_pickle_keeps_everything() -> None:
    """A configuration survives a pickle, and is still evolved in the same way."""
    config = ProducerConfig(SERVER, linger_ms=7, value_serializer=String(), partitioner="murmur3")
    again = pickle.loads(pickle.dumps(config))
    assert again == config
    assert again.evolve(delivery_timeout_ms=40_000).close_timeout_ms == 40_000


def test_evolve_changes_and_derives_anew() -> None:
    """`evolve` keeps the given settings, changes the named ones, and derives the rest again."""
    config = ProducerConfig(SERVER, request_timeout_ms=200_000, linger_ms=0)
    changed = config.evolve(request_timeout_ms=1_000)
    assert (changed.delivery_timeout_ms, changed.close_timeout_ms, changed.linger_ms) == (120_000, 120_000, 0)
    assert config.delivery_timeout_ms == 200_000
    assert config.evolve(bootstrap_servers="other:1").bootstrap_servers == (("other", 1),)


def test_evolve_checks_like_the_constructor() -> None:
    """A change that conflicts, or has no such name, is refused."""
    with pytest.raises(ConfigurationError, match="enable_idempotence=False"):
        ProducerConfig(SERVER).evolve(acks=1)
    with pytest.raises(ConfigurationError, match="did you mean"):
        ProducerConfig(SERVER).evolve(lingr_ms=1)  # type: ignore[call-arg]


def test_repr_shows_what_was_given() -> None:
    """The repr is short: the servers and the given settings, in one line."""
    config = ProducerConfig(["a:1", "[::1]:2"], acks="all", linger_ms=20)
    assert repr(config) == "ProducerConfig('a:1,[::1]:2', acks=-1, linger_ms=20)"


def test_constructing_touches_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """No event loop, socket, file or thread is needed to make a configuration."""

    def forbidden(*_: object, **__: object) -> None:
        pytest.fail("touched the outside")

    for owner, name in (
        (socket, "socket"),
        (socket, "getaddrinfo"),
        (threading.Thread, "start"),
        (builtins, "open"),
        (asyncio, "get_event_loop"),
        (asyncio, "get_running_loop"),
    ):
        monkeypatch.setattr(owner, name, forbidden)
    assert ProducerConfig(SERVER, linger_ms=1, topics=["a"]).linger_ms == 1


@pytest.mark.parametrize("name", ["sasl_plain_password", "ssl_key_password", "sasl_jaas_config", "pasword"])
def test_value_of_a_refused_setting_is_nowhere(name: str) -> None:
    """The value of a refused name is in no text, no argument, and no frame of ours in the traceback (I14)."""
    settings = {name: "canary-" + "secret"}
    make = partial(ProducerConfig, SERVER, **settings)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError) as caught:
        make()
    told = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
    ours = [frame for frame in told.stack if "aioproducer/config" in frame.filename]
    assert ours
    assert "canary-secret" not in str([frame.locals for frame in ours])
    assert "canary-secret" not in str(caught.value) + repr(caught.value.args) + repr(vars(caught.value))


# ---- the table


def test_signature_has_the_names_of_the_table() -> None:
    """The keyword arguments that editors complete are the settings of the table, no more and no less."""
    elsewhere = {"bootstrap_servers", "key_serializer", "value_serializer"}
    assert set(Settings.__annotations__) == SETTINGS.keys() - elsewhere
    assert typing.get_type_hints(Changes).keys() == SETTINGS.keys()


def test_signature_has_the_codecs_of_the_table() -> None:
    """Type checkers accept each compression codec that there is, and no other."""
    assert typing.get_args(typing.get_type_hints(Settings)["compression_type"]) == tuple(CODECS)


def test_every_field_is_a_row() -> None:
    """Every field of the configuration but the bookkeeping has a row, with a meaning that is a sentence."""
    fields = {field.name for field in attrs.fields(ProducerConfig)}
    assert fields - {"given"} == SETTINGS.keys()
    for row in SETTINGS.values():
        assert row.meaning.endswith(".")
        assert not row.differs.endswith(".")
        assert row.kind.range


def test_defaults_pass_their_own_checks() -> None:
    """Giving every value of a default configuration by name makes an equal one."""
    config = ProducerConfig(SERVER)
    values = {name: getattr(config, name) for name in SETTINGS}
    assert ProducerConfig(**values) == config


def test_random_settings_are_accepted_or_refused_with_their_name() -> None:
    """Whatever object is given for whatever setting, the answer is a configuration or an error that names it."""
    rng = random.Random(fresh_seed())
    things = [
        None,
        True,
        0,
        -1,
        10**30,
        1.5,
        float("nan"),
        "",
        "x",
        b"y",
        [],
        ["a:1"],
        {},
        object(),
        int,
        len,
        (1, 2),
    ]
    for _ in range(2_000):
        name, thing = rng.choice(list(SETTINGS)), rng.choice(things)
        lines = _told({"bootstrap_servers": SERVER, name: thing})
        assert not lines or any(name in line for line in lines), (name, thing)


def _told(settings: dict[str, Any]) -> tuple[str, ...]:
    try:
        ProducerConfig(**settings)
    except ConfigurationError as error:
        return error.problems
    return ()
