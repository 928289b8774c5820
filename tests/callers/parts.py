"""Each public call of the parts beside the producer, with arguments of the zoo: outlets, outbox, registry."""

from __future__ import annotations

import contextlib
import sqlite3
from typing import Any, Final

from aioproducer import Record, RecordError
from aioproducer.outbox import Relay, SqliteStore
from aioproducer.outlets import Checkpoint, DeadLetters
from aioproducer.registry import AvroSerializer, JsonSerializer, Reference, Registry, Schema
from tests.callers.table import MOST_SECONDS, Call, CallOn, Wild
from tests.callers.zoo import ERRORS
from tests.net.support import LIMIT

TEXT: Final = '"bytes"'


def batch(wild: Wild) -> dict[str, Any]:
    """The columns of `send_batch()` behind the values."""
    return {
        "keys": wild.maybe(None),
        "partition": wild.maybe(0),
        "timestamps": wild.maybe(None),
        "headers": wild.maybe(None),
        "timeout": wild.maybe(1.0),
    }


LETTERS: Final[dict[str, CallOn]] = {
    "send": lambda wild, _, letters: letters.send(
        wild.maybe("zoo"), **wild.record(), max_block=wild.maybe(MOST_SECONDS)
    ),
    "send_and_wait": lambda wild, _, letters: letters.send_and_wait(
        wild.maybe("zoo"), **wild.record(), max_block=MOST_SECONDS
    ),
    "put": lambda wild, _, letters: letters.put(
        wild.maybe(Record(wild.thing(), wild.thing(), key=wild.thing(), headers=wild.thing())),
        wild.maybe(RecordError("bad")) if wild.rng.random() < 0.5 else wild.one_of(ERRORS),
    ),
}
SENT: Final[dict[str, CallOn]] = {
    "done": lambda _, __, sent: sent.done(),
    "wait": lambda wild, _, sent: sent.wait(wild.maybe(LIMIT)),
}
CHECKPOINT: Final[dict[str, CallOn]] = {
    "send": lambda wild, _, checkpoint: checkpoint.send(
        wild.maybe("zoo"), **wild.record(), max_block=wild.maybe(MOST_SECONDS)
    ),
    "send_nowait": lambda wild, _, checkpoint: checkpoint.send_nowait(wild.maybe("zoo"), **wild.record()),
    "send_batch": lambda wild, _, checkpoint: checkpoint.send_batch(
        wild.maybe("zoo"), wild.maybe([b"1", b"2"]), **batch(wild)
    ),
    "watch": lambda wild, _, checkpoint: checkpoint.watch(wild.thing()),
    "mark": lambda wild, _, checkpoint: checkpoint.mark(wild.thing()),
    "reached": lambda wild, _, checkpoint: checkpoint.reached(wild.thing(), timeout=wild.maybe(MOST_SECONDS)),
    "rewind": lambda _, __, checkpoint: checkpoint.rewind(),
    "close": lambda wild, _, checkpoint: checkpoint.close(wild.maybe(LIMIT)),
}


def schema_of(wild: Wild) -> Any:
    """A schema, or something that lies, or a schema of it."""
    if wild.rng.random() < 0.5:
        return wild.maybe(Schema(TEXT))
    references = wild.maybe([Reference(wild.maybe("r"), wild.maybe("zoo"), wild.maybe(1))])
    return Schema(wild.maybe(TEXT), wild.maybe("AVRO"), wild.maybe(references))


REGISTRY: Final[dict[str, CallOn]] = {
    **{
        name: lambda wild, _, registry, name=name: getattr(registry, name)(  # type: ignore[misc]
            wild.maybe("zoo"), schema_of(wild), normalize=wild.maybe(False)
        )
        for name in ("register", "lookup")
    },
    "latest": lambda wild, _, registry: registry.latest(wild.maybe("zoo")),
    "version": lambda wild, _, registry: registry.version(wild.maybe("zoo"), wild.maybe(1)),
    "schema": lambda wild, _, registry: registry.schema(wild.maybe(1)),
    "compatible": lambda wild, _, registry: registry.compatible(
        wild.maybe("zoo"), schema_of(wild), wild.maybe("latest")
    ),
    "subjects": lambda _, __, registry: registry.subjects(),
}
SERIALIZER: Final[dict[str, CallOn]] = {
    "serialize": lambda wild, _, one: one.serialize(wild.maybe("zoo"), wild.maybe(None), wild.thing()),
    "prepare": lambda wild, _, one: one.prepare(wild.maybe("zoo"), wild.maybe(None), wild.thing()),
    "warm": lambda wild, _, one: one.warm(wild.maybe("zoo")),
}


def ids(wild: Wild) -> Any:
    """Those of rows, which a relay gives: a collection."""
    given = wild.maybe([])
    return given if hasattr(type(given), "__len__") else []


STORE: Final[dict[str, CallOn]] = {
    "acquire": lambda _, __, store: store.acquire(),
    "read": lambda wild, _, store: store.read(wild.maybe(10), ids(wild)),
    "delete": lambda wild, _, store: store.delete(ids(wild)),
    "wait": lambda wild, _, store: store.wait(wild.maybe(MOST_SECONDS)),
    "release": lambda _, __, store: store.release(),
    "schema_sql": lambda _, __, store: store.schema_sql(),
}


def added(wild: Wild, connection: sqlite3.Connection, store: SqliteStore) -> None:
    """A row of lies: it is refused, or a relay can send it or sets it aside."""
    partition = wild.maybe(0)
    if isinstance(partition, int) and partition > 0:
        # A relay waits for a partition that is not there.
        partition = 0
    store.add(
        wild.maybe(connection),
        wild.maybe("zoo"),
        wild.maybe(b"row"),
        key=wild.maybe(None),
        headers=wild.maybe(None),
        partition=partition,
    )


def settings(wild: Wild) -> dict[str, Any]:
    """Those of a `Registry`."""
    made = {
        "auth": wild.maybe(None),
        "headers": wild.maybe({}),
        "timeout": wild.maybe(1.0),
        "ssl_context": wild.maybe(None),
        "proxy": wild.maybe(None),
        "cache_size": wild.maybe(10),
        "latest_ttl": wild.maybe(1.0),
        "client": wild.maybe(None),
    }
    return {name: value for name, value in made.items() if wild.rng.random() < 0.3}


async def registry_made(wild: Wild, url: str) -> None:
    """A client of lies, which is asked once."""
    async with Registry(wild.maybe(url), **settings(wild)) as registry:
        with contextlib.suppress(RecursionError):
            repr(registry)
        await registry.subjects()


CONSTRUCTING: Final[dict[str, Call]] = {
    "DeadLetters": lambda wild, producer: DeadLetters(
        wild.maybe(producer), wild.function(producer), when=wild.function(producer)
    ),
    "Checkpoint": lambda wild, producer: Checkpoint(
        wild.maybe(producer), wild.thing(), every=wild.thing(), dead_letters=wild.maybe(None)
    ),
    "Relay": lambda wild, producer: Relay(
        wild.maybe(producer),
        wild.thing(),
        batch=wild.maybe(1),
        poll=wild.maybe(1.0),
        dead_letters=wild.maybe(None),
    ),
    "SqliteStore": lambda wild, _: SqliteStore(wild.maybe("zoo.db"), wild.maybe("zoo")),
    "AvroSerializer": lambda wild, _: AvroSerializer(
        wild.maybe("http://localhost"), wild.thing(), **option_of(wild)
    ),
    "JsonSerializer": lambda wild, _: JsonSerializer(
        wild.maybe("http://localhost"), wild.thing(), **option_of(wild)
    ),
}


def option_of(wild: Wild) -> dict[str, Any]:
    """One option of a serializer."""
    names = ("subject", "auto_register", "use_latest", "schema_id", "normalize", "framing", "to_dict")
    return {wild.rng.choice(names): wild.thing()}
