"""The common part of the serializers: their options, and what they have to learn before the first record of a topic.

The way of a record whose schema is known is short: `serialize` finds the function of its topic, and calls it.
"""

from __future__ import annotations

import copy
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final, Generic, Self

import attrs
from typing_extensions import TypeVar

from aioproducer.errors import ConfigurationError
from aioproducer.records import Headers
from aioproducer.registry.asking.single_flight import Wait, waits
from aioproducer.registry.caches import Bounded
from aioproducer.registry.client import Registry
from aioproducer.registry.errors import RegistryError
from aioproducer.registry.framings import Framing, Write, framing_of
from aioproducer.registry.schemas import RegisteredSchema, Schema, SchemaId, SchemaType
from aioproducer.registry.subjects import Subject, subject_of
from aioproducer.secret import Secret
from aioproducer.serializers import NotPrepared, Part, Result

__all__ = ["Encoder", "Place", "RegistrySerializer", "T_contra", "referred_texts"]

# A serializer takes any objects, unless their type is given.
T_contra = TypeVar("T_contra", contravariant=True, default=Any)

# A registry may tell new references without an end.
_MOST_REFERENCES: Final = 1_000
# Seconds between two looks at the latest version.
_LOOK: Final = 1.0
# Objects that wait for one preparation.
_MOST_REFUSED: Final = 100_000
# Seconds in which an object that was refused may come again: longer than most calls wait.
_KEPT: Final = 300.0
# Seconds in which it may come in other calls meanwhile.
_FOR_ALL: Final = 1.0


@attrs.frozen
class Encoder:
    """The encoding of a schema: its function, the name of its record, and the path of a Protobuf message."""

    encode: Callable[[bytes], Callable[[Any], bytes]]
    """From a prefix to the function that encodes an object behind it."""
    name: str | None
    indexes: tuple[int, ...] = ()


class Place:
    """The registry of a serializer and all its parts: the user's, or one that ends with the producers that use it.

    Nothing is raised before `check()`: a frame with the URL would keep its password.
    """

    def __init__(self, given: Any) -> None:
        self._url: Secret | None = None
        self._registry: Registry | None = None
        self._problem = ""
        self.users = 0
        if isinstance(given, Registry):
            self._registry = given
        elif isinstance(given, str):
            self._url = Secret(given)
            try:
                self._registry = Registry(given)
            except ConfigurationError as error:
                self._problem = str(error)
        else:
            self._problem = f"registry: must be a Registry or a URL, not {type(given).__name__}"

    def check(self) -> None:
        """Raise if there is no registry."""
        if self._problem:
            raise ConfigurationError(self._problem)

    def registry(self) -> Registry:
        """The registry; of the serializer's own there is another one after its end."""
        assert self._registry is not None  # noqa: S101  # check() has raised otherwise
        if self._url is not None and self._registry.ended:
            self._registry = Registry(self._url.reveal())
        return self._registry

    async def left(self) -> None:
        """A producer no longer uses it."""
        self.users -= 1
        if self._url is not None and self._registry is not None and self.users <= 0:
            await self._registry.close()

    def __repr__(self) -> str:
        return repr(self._registry)


@attrs.frozen
class _Options:
    """The checked options of a serializer."""

    subject: Subject
    auto_register: bool
    use_latest: bool
    schema_id: int | None
    normalize: bool
    framing: Framing


class RegistrySerializer(Generic[T_contra]):
    """A serializer whose schema is in a registry."""

    _type: SchemaType = "AVRO"

    def __init__(
        self,
        place: Place,
        schema: Schema | None,
        *,
        subject: Any,
        auto_register: bool | None,
        use_latest: bool,
        schema_id: int | None,
        normalize: bool,
        framing: Any,
    ) -> None:
        place.check()
        self._place = place
        self._schema = schema
        problem = _conflict(schema, auto_register, use_latest, schema_id)
        if problem is not None:
            raise ConfigurationError(problem)
        register = True if auto_register is None else auto_register
        self._options = _Options(
            subject_of(subject), register, use_latest, schema_id, normalize, framing_of(framing)
        )
        self._encoders: Bounded[Schema, Encoder] = Bounded(self._size)
        self._part: Part = "value"
        self._writes: dict[str, Write] = {}
        # The requests that preparations wait for, by topic.
        self._waits: dict[str, Wait] = {}
        self._refused: dict[str, deque[Any]] = {}
        self._left = False

    @property
    def _size(self) -> int:
        return self._place.registry().cache_size

    # ----- what a producer calls

    def for_part(self, part: Part) -> Self:
        """The serializer of the keys or values of a producer, which asks the same registry."""
        one = copy.copy(self)
        one._part = part  # noqa: SLF001 - of this class
        one._writes = {}  # noqa: SLF001
        one._waits = {}  # noqa: SLF001
        one._refused = {}  # noqa: SLF001
        one._left = False  # noqa: SLF001
        self._place.users += 1
        return one

    def serialize(self, topic: str, headers: Headers | None, data: T_contra, /) -> Result:
        """The framed bytes of an object; None stays None. `NotPrepared` for the first record of a topic."""
        if data is None:
            return None
        try:
            write = self._writes[topic]
        except KeyError:
            raise self._refusal(topic, data) from None
        return write(data)  # type: ignore[no-any-return]  # checked by the producer

    def _refusal(self, topic: str, data: Any) -> NotPrepared:
        """The error of an object whose preparation will follow; with the version of that it is written."""
        if self._options.use_latest:
            self._refused.setdefault(topic, deque(maxlen=_MOST_REFUSED)).append(data)
        return NotPrepared()

    async def prepare(self, topic: str, headers: Headers | None, data: Any) -> None:
        """Learn the id of the schema for a topic."""
        await self.warm(topic)

    async def warm(self, topic: str) -> None:
        """Learn the id of the schema for a topic before its first record."""
        registry = self._place.registry()
        self._waits[topic] = wait = Wait()
        token = waits.set(wait)
        try:
            write = await self._learn(registry, topic)
        finally:
            waits.reset(token)
            if self._waits.get(topic) is wait:
                del self._waits[topic]
        former = self._writes.pop(topic, None)
        if isinstance(write, _Following):
            if isinstance(former, _Following):
                write.prepared = former.prepared
            write.prepared.add(self._refused.pop(topic, ()))
        self._writes[topic] = write
        if len(self._writes) > self._size:
            # The first one: this is a bound, and no cache for many topics in turn.
            del self._writes[next(iter(self._writes))]

    def trouble_of_prepare(self, topic: str) -> RegistryError | None:
        """The last failure of the request that a preparation waits for, or that there is no answer yet."""
        wait = self._waits.get(topic)
        return None if wait is None or wait.flight is None else wait.flight.late()

    async def close(self) -> None:
        """Close the registry, if it is the serializer's own and nothing else uses it."""
        if not self._left:
            self._left = True
            await self._place.left()

    def __repr__(self) -> str:
        # A constructor that raises has none.
        place = getattr(self, "_place", None)
        return f"<{type(self).__name__}>" if place is None else f"<{type(self).__name__} {place!r}>"

    # ----- what has to be known

    async def _learn(self, registry: Registry, topic: str) -> Write:
        options = self._options
        if options.schema_id is not None:
            schema, guid = await registry.schema_by_id(options.schema_id)
            return await self._write(registry, schema, SchemaId(options.schema_id, guid))
        name = None if self._schema is None else (await self._encoder(registry, self._schema)).name
        subject = options.subject(topic, self._part, name)
        if options.use_latest:
            latest = await registry.latest(subject)
            write = await self._write(registry, latest.schema, latest.schema_id)
            return _Following(write, registry, subject, latest, partial(self._refusal, topic))
        schema = await self._complete(registry, self._required())
        ask = registry.register if options.auto_register else registry.lookup
        schema_id = await ask(subject, schema, normalize=options.normalize)
        return await self._write(registry, self._required(), schema_id)

    def _required(self) -> Schema:
        if self._schema is None:
            raise ConfigurationError("schema: is missing")
        return self._schema

    async def _complete(self, registry: Registry, schema: Schema) -> Schema:
        """The schema in the form in which it is registered."""
        return schema

    async def _write(self, registry: Registry, schema: Schema, schema_id: SchemaId) -> Write:
        if schema.type != self._type:
            raise ConfigurationError(
                f"the schema with the id {schema_id.id} is {schema.type}, and {type(self).__name__} needs {self._type}"
            )
        encoder = await self._encoder(registry, schema)
        return self._options.framing(self._part, schema_id, encoder.indexes, encoder.encode)

    async def _encoder(self, registry: Registry, schema: Schema) -> Encoder:
        known = self._encoders.get(schema)
        if known is None:
            known = self._make(schema, await referred_texts(registry, schema))
            self._encoders.put(schema, known)
        return known

    def _make(self, schema: Schema, referred: dict[str, str]) -> Encoder:
        """The encoder of a schema; `referred` has the texts of the schemas that it refers to, by their names."""
        raise NotImplementedError


@attrs.define
class _Refused:
    """An object that was refused, how often, and when it was last prepared."""

    data: Any
    count: int
    at: float


class _Prepared:
    """Objects that were refused until a preparation. They are taken when they come again, also behind a later preparation.

    Several tasks may send one object: it is taken as often as it was refused, and for a second by all of them, because those
    that come for the first time cannot be told from the others. Those whose call was cancelled never come.
    """

    __slots__ = ("left", "taken")

    def __init__(self) -> None:
        self.left: OrderedDict[int, _Refused] = OrderedDict()
        self.taken: OrderedDict[int, _Refused] = OrderedDict()

    def add(self, refused: Iterable[Any]) -> None:
        """Take each of these objects once, in any case."""
        left, now = self.left, time.monotonic()
        for data in refused:
            known = left.pop(id(data), None)
            left[id(data)] = _Refused(data, 1 if known is None else known.count + 1, now)
        while left and (len(left) > _MOST_REFUSED or next(iter(left.values())).at < now - _KEPT):
            left.popitem(last=False)
        self._forget(now)

    def take(self, data: Any) -> bool:
        """Whether it has been refused before: then it is taken now."""
        now = time.monotonic()
        self._forget(now)
        known = self.left.get(id(data))
        if known is None:
            return id(data) in self.taken
        known.count -= 1
        if known.count <= 0:
            del self.left[id(data)]
            if now < known.at + _FOR_ALL:
                self.taken[id(data)] = known
        return True

    def _forget(self, now: float) -> None:
        """Those that have been taken as often as they were refused are kept for others no longer than a second."""
        taken = self.taken
        while taken and next(iter(taken.values())).at <= now - _FOR_ALL:
            taken.popitem(last=False)


class _Following:
    """Writes with the latest version, and asks for a preparation when there is another one."""

    __slots__ = ("_latest", "_look_at", "_pause", "_refusal", "_registry", "_subject", "_write", "prepared")

    def __init__(
        self,
        write: Write,
        registry: Registry,
        subject: str,
        latest: RegisteredSchema,
        refusal: Callable[[Any], NotPrepared],
    ) -> None:
        self._write = write
        self._registry = registry
        self._subject = subject
        self._latest = latest
        self._refusal = refusal
        self._pause = min(_LOOK, registry.latest_ttl)
        self._look_at = time.monotonic() + self._pause
        self.prepared = _Prepared()

    def __call__(self, data: Any) -> Any:
        prepared = self.prepared
        is_prepared = bool(prepared.left or prepared.taken) and prepared.take(data)
        if time.monotonic() >= self._look_at:
            if self._registry.serving(self._subject) == self._latest:
                self._look_at = time.monotonic() + self._pause
            elif not is_prepared:
                raise self._refusal(data)
        return self._write(data)


async def referred_texts(registry: Registry, schema: Schema) -> dict[str, str]:
    """The texts of all schemas that a schema refers to, by their names; those without references come first.

    Each is asked for once, also where several refer to it, or it refers to itself.
    """
    texts: dict[str, str] = {}
    seen: set[str] = set()
    left = [iter(schema.references)]
    # The names and texts of schemas whose own references are being read.
    begun: list[tuple[str, str]] = []
    while left:
        reference = next((each for each in left[-1] if each.name not in seen), None)
        if reference is None:
            left.pop()
            if begun:
                name, text = begun.pop()
                texts[name] = text
            continue
        seen.add(reference.name)
        if len(seen) > _MOST_REFERENCES:
            raise ConfigurationError(f"schema: refers to more than {_MOST_REFERENCES:,} others")
        found = (await registry.version(reference.subject, reference.version)).schema
        left.append(iter(found.references))
        begun.append((reference.name, found.text))
    return texts


def _conflict(
    schema: Schema | None, auto_register: bool | None, use_latest: bool, schema_id: int | None
) -> str | None:
    """The problem of options that exclude each other."""
    if use_latest and schema_id is not None:
        return "use_latest and schema_id exclude each other"
    if use_latest and auto_register:
        return "use_latest and auto_register exclude each other: the subject's latest version encodes"
    if schema is None and not use_latest and schema_id is None:
        return "schema: is missing; without it, use_latest or schema_id chooses one of the registry"
    if schema_id is not None and (type(schema_id) is not int or not 0 <= schema_id < 2**32):
        return "schema_id: must be the id of a schema, a whole number"
    return None
