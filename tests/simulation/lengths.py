"""The lengths of all containers of a producer: found by walking the object graph, so that none has to be named."""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
import types
import weakref
from collections import Counter, deque
from collections.abc import Iterator
from typing import Any, Final

_CONTAINERS: Final = (dict, list, set, frozenset, deque)
_NOT_FOLLOWED: Final = (
    types.ModuleType,
    type,
    types.FrameType,
    types.CodeType,
    types.BuiltinFunctionType,
    weakref.ref,
    asyncio.AbstractEventLoop,
    logging.Logger,
    str,
    bytes,
    int,
    float,
)
_FOREIGN: Final = ("tests.", "aioproducer.testing", "unittest", "random", "threading", "logging", "_pytest")


def lengths(root: object) -> Counter[str]:
    """The sums of the lengths of all reachable containers, by their place: `Class.attribute`."""
    gc.collect()
    found: Counter[str] = Counter()
    globals_ = {id(module.__dict__) for module in list(sys.modules.values()) if hasattr(module, "__dict__")}
    seen = {id(root)}
    todo: deque[tuple[str, Any]] = deque([("", root)])
    while todo:
        place, thing = todo.popleft()
        if isinstance(thing, _CONTAINERS):
            found[place] += len(thing)
        for label, child in _children(place, thing):
            if id(child) not in seen and id(child) not in globals_ and _is_followed(child):
                seen.add(id(child))
                todo.append((label, child))
    return found


def _is_followed(thing: Any) -> bool:
    return not isinstance(thing, _NOT_FOLLOWED) and not type(thing).__module__.startswith(_FOREIGN)


def _children(place: str, thing: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(thing, dict):
        for key, value in list(thing.items()):
            yield f"{place}[]", key
            yield f"{place}[]", value
    elif isinstance(thing, (*_CONTAINERS, tuple)):
        for item in list(thing):
            yield f"{place}[]", item
    elif isinstance(thing, types.FunctionType):
        for cell in thing.__closure__ or ():
            yield f"{thing.__qualname__}()", cell
    else:
        names = dict(_attributes(thing))
        own = type(thing).__name__
        for name, value in names.items():
            yield f"{own}.{name}", value
        # Contents of compiled objects and coroutines have no name.
        for value in gc.get_referents(thing):
            if not (isinstance(value, dict) and value is getattr(thing, "__dict__", None)):
                yield f"{own}.{type(value).__name__}", value


def _attributes(thing: Any) -> Iterator[tuple[str, Any]]:
    yield from list(getattr(thing, "__dict__", {}).items())
    for kind in type(thing).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if not name.startswith("__"):
                value = (
                    kind.__dict__[name].__get__(thing) if _is_set(kind.__dict__.get(name), thing) else None
                )
                if value is not None:
                    yield name, value


def _is_set(slot: Any, thing: Any) -> bool:
    try:
        slot.__get__(thing)
    except AttributeError:
        return False
    return True
