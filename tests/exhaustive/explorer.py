"""The explorer: every order of events of a model, by depth-first search; a known state is not explored again.

The machines cannot be copied, so a branch is reached by replaying the events that lead to it. States are explored in
layers, by the number of faults that struck: a state that was reached with fewer faults can do all that it could with
more, so each is gone into once.

Two claims are proven. *Safety*: every state keeps the promise (`promise.check`). *Liveness*: from every state in which
nothing strikes any more, the events that are due lead to an end in which all outcomes are known and no memory is held
(`promise.check_end`); where they lead in a circle or to a stop instead, only dirty records and those behind them
may be without an outcome, and the deadlines end that.
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from tests.exhaustive.fingerprint import fingerprint
from tests.exhaustive.model import EXPIRE, Model
from tests.exhaustive.promise import check, check_end, is_over, only_the_unprovable_waits
from tests.exhaustive.world import World

Script = tuple[str, ...]
BEGINNING = -1
# A healthy world needs at most so many events to resolve what can be resolved before a deadline.
PATIENCE = 100


@attrs.define
class Counts:
    """The explored counts."""

    states: int = 0
    transitions: int = 0
    ends: int = 0
    """States in which every record has its outcome and no memory is held."""
    held: int = 0
    """Circles and stops that only a deadline ends."""

    def __str__(self) -> str:
        return (
            f"{self.states:,} states, {self.transitions:,} transitions, {self.ends:,} ends, and {self.held:,} places "
            "where only a deadline goes on"
        )


class Broken(AssertionError):  # noqa: N818  # says what happened
    """The promise was broken, by the shortest script that was found."""

    def __init__(self, model: Model, script: Script, why: str) -> None:
        super().__init__(
            f"{why}\n\nmodel {model.name!r}, {len(script)} events; to replay it, add to REPLAYS in "
            f'tests/exhaustive/test_replays.py:\n    ("{model.name}", "{"; ".join(script)}"),'
        )
        self.model = model
        self.script = script
        self.why = why


class _Stumbled(Exception):  # noqa: N818  # says what happened
    """An event or a check failed after these events."""

    def __init__(self, script: Script, error: Exception) -> None:
        super().__init__(f"{type(error).__name__}: {error}")
        self.script = script


class Explorer:
    """The states of one model, as far as they were reached."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.counts = Counts()
        self.numbers: dict[bytes, int] = {}
        # How each state was reached first; the next state by deadlines (itself: there is none); is it an end?
        self.origins: list[tuple[int, str]] = []
        self.next_due: list[int] = []
        self.ends: set[int] = set()
        self.layers: list[list[tuple[int, str]]] = [[] for _ in range(model.most_faults + 1)]

    def explore(self) -> Counts:
        """Go everywhere; raises `Broken`."""
        try:
            self._follow(World(self.model), BEGINNING, "", 0)
            for layer, branches in enumerate(self.layers):
                while branches:
                    self._branch(*branches.pop(), layer)
            for state in self._places_without_an_end():
                self._wait_for_deadlines(state)
        except _Stumbled as error:
            raise shortest(self.model, error.script, str(error)) from error
        self.counts.states = len(self.numbers)
        self.counts.ends = len(self.ends)
        return self.counts

    def script(self, state: int) -> Script:
        """The events that lead to a state."""
        events: list[str] = []
        while state != BEGINNING:
            state, event = self.origins[state]
            events.append(event)
        return tuple(reversed(events[:-1]))

    # -- safety

    def _branch(self, state: int, event: str, layer: int) -> None:
        world = World(self.model)
        for earlier in self.script(state):
            world.do(earlier)
        self._go(world, state, event)
        self._follow(world, state, event, layer)

    def _follow(self, world: World, origin: int, event: str, layer: int) -> None:
        """From a world that was just reached, on to one that is known."""
        state, is_new = self._reached(world, origin, event)
        while is_new:
            due = world.due()
            self._plan(world, state, due[1:], layer)
            if not due:
                return
            self._go(world, state, due[0])
            self.next_due[state], is_new = self._reached(world, state, due[0])
            state = self.next_due[state]

    def _go(self, world: World, state: int, event: str) -> None:
        self.counts.transitions += 1
        try:
            world.do(event)
        except Exception as error:
            raise _Stumbled((*self.script(state), event), error) from error

    def _reached(self, world: World, origin: int, event: str) -> tuple[int, bool]:
        """The number of this state, and whether it is new."""
        key = fingerprint(world)
        known = self.numbers.get(key)
        if known is not None:
            return known, False
        state = self.numbers[key] = len(self.numbers)
        self.origins.append((origin, event))
        self.next_due.append(state)
        self._look(world, state)
        return state, True

    def _look(self, world: World, state: int) -> None:
        try:
            check(world)
            if is_over(world):
                check_end(world)
                self.ends.add(state)
        except Exception as error:
            raise _Stumbled(self.script(state), error) from error

    def _plan(self, world: World, state: int, due: Iterable[str], layer: int) -> None:
        """Note the events that are possible here, to be explored later."""
        self.layers[layer] += [(state, event) for event in (*due, *world.possible())]
        if layer < self.model.most_faults:
            self.layers[layer + 1] += [(state, event) for event in world.faults()]

    # -- liveness

    def _places_without_an_end(self) -> list[int]:
        """The ends of the deadlines' path that are no end: one state of each circle, and each stop."""
        leads_to = dict.fromkeys(self.ends, True)
        places = []
        for start in range(len(self.next_due)):
            path = self._path(start, leads_to)
            if path[-1] not in leads_to:
                places.append(path[-1])
            leads_to.update(dict.fromkeys(path, True))
        return places

    def _path(self, state: int, known: dict[int, bool]) -> list[int]:
        """The path of the deadlines from here: up to a state that is known, or seen for the second time."""
        path = [state]
        seen = {state}
        while path[-1] not in known:
            following = self.next_due[path[-1]]
            if following in seen:
                break
            path.append(following)
            seen.add(following)
        return path

    def _wait_for_deadlines(self, state: int) -> None:
        self.counts.held += 1
        script = self.script(state)
        world = World(self.model)
        try:
            for event in script:
                world.do(event)
            bring_to_the_end(world)
        except Exception as error:
            raise _Stumbled(script, error) from error


# -- one script


def replay(model: Model, script: Iterable[str]) -> World:
    """These events, each of them checked, and then all deadlines until every record has its outcome."""
    world = World(model)
    check(world)
    for event in script:
        assert world.can(event), (
            f"{event!r} cannot happen here: {world.due()}, {world.possible()}, {world.faults()}"
        )
        world.do(event)
        check(world)
    bring_to_the_end(world)
    return world


def bring_to_the_end(world: World) -> None:
    """No fault strikes any more: what can be resolved is resolved, and deadlines end the rest."""
    while not _keeps_going(world):
        only_the_unprovable_waits(world)
        world.do(EXPIRE)
        check(world)
    check_end(world)


def _keeps_going(world: World) -> bool:
    """Whether the deadlines lead to an end."""
    for _ in range(PATIENCE):
        due = world.due()
        if is_over(world) or not due:
            break
        world.do(due[0])
        check(world)
    return is_over(world)


# -- the shortest script


def shortest(model: Model, script: Script, why: str) -> Broken:
    """The failure of a script, without the events that it does not need: first without many at once, then one by one."""
    failure = failure_of(model, script) or (script, why)
    for size in (8, 4, 2, 1, 1):
        at = 0
        while at < len(failure[0]):
            shorter = failure_of(model, failure[0][:at] + failure[0][at + size :])
            if shorter is None or len(shorter[0]) >= len(failure[0]):
                at += size
            else:
                failure = shorter
    return Broken(model, *failure)


def failure_of(model: Model, script: Iterable[str]) -> tuple[Script, str] | None:
    """The events of the script that can happen, up to the one that breaks the promise, and how it is broken."""
    done: list[str] = []
    try:
        world = World(model)
        for event in script:
            if world.can(event):
                done.append(event)
                world.do(event)
                check(world)
        bring_to_the_end(world)
    except Exception as error:  # noqa: BLE001  # whatever the machines raise is a finding
        return tuple(done), f"{type(error).__name__}: {error}"
    return None
