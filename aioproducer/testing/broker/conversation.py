"""One connection to a broker without a socket: bytes in, effects out, one request at a time.

The owner of the transport calls `receive` with received bytes, `wake` after a change or at `deadline`, and performs
the returned effects.
"""

from __future__ import annotations

import attrs

from aioproducer._wire.apis import SASL_AUTHENTICATE
from aioproducer.testing.broker.authentication.session import Session
from aioproducer.testing.broker.broker import Broker
from aioproducer.testing.broker.effects import Close, Dialogue, Effect, Wait
from aioproducer.testing.broker.rules import Asked, CutRequest

_LENGTH = 4
_FIRST_LOOK = 8
"""Length and API key: the bytes that are needed to match a request with faults."""
_ENOUGH = 1 << 20
"""Bytes of later requests that are read while a request is answered; beyond them the socket is not read."""


@attrs.define(eq=False)
class Conversation:
    """The requests of one connection, and their progress."""

    broker: Broker
    session: Session = attrs.field(init=False)
    _received: bytearray = attrs.field(factory=bytearray, init=False)
    _dialogue: Dialogue | None = attrs.field(default=None, init=False)
    _waiting: Wait | None = attrs.field(default=None, init=False)
    _looked: bool = attrs.field(default=False, init=False)
    _cut: CutRequest | None = attrs.field(default=None, init=False)
    _ended: bool = attrs.field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self.session = self.broker.new_session()

    def receive(self, data: bytes) -> list[Effect]:
        """Process received bytes."""
        self._received += data
        return self._advance()

    def wake(self) -> list[Effect]:
        """Check again the condition that the current request waits for."""
        return self._advance()

    @property
    def deadline(self) -> float | None:
        """The latest time to call `wake`."""
        return self._waiting.deadline if self._waiting is not None else None

    @property
    def waits(self) -> bool:
        """Whether a request is waiting."""
        return self._waiting is not None

    @property
    def idles(self) -> bool:
        """Whether only bytes matter: no request waits, and no fault may apply."""
        return self._waiting is None and not self.broker.rules

    @property
    def reads(self) -> bool:
        """Whether the transport should read."""
        if self._ended or self._stopped():
            return False
        return self._waiting is None or len(self._received) < _ENOUGH

    def _advance(self) -> list[Effect]:
        effects: list[Effect] = []
        while not self._ended:
            dialogue = self._dialogue or self._next_dialogue()
            if dialogue is None or not self._go_on(dialogue, effects):
                break
        return effects

    def _next_dialogue(self) -> Dialogue | None:
        """The effects of the next request, if enough of it has arrived."""
        if len(self._received) < _LENGTH or self._stopped():
            return None
        size = _LENGTH + int.from_bytes(self._received[:_LENGTH], "big", signed=True)
        if not _LENGTH <= size <= self.broker.cluster.options.max_request_bytes:
            return _closing(Close())
        if self._is_cut(size):
            return _closing(Close(self._cut is not None and self._cut.reset))
        if len(self._received) < size:
            return None
        self._looked, self._cut = False, None
        return self.broker.handle(self._take(size), self.session)

    def _take(self, size: int) -> bytes:
        with memoryview(self._received) as received:
            frame = bytes(received[_LENGTH:size])
        del self._received[:size]
        return frame

    def _is_cut(self, size: int) -> bool:
        if not self._looked and len(self._received) >= _FIRST_LOOK:
            self._looked = True
            key = int.from_bytes(self._received[_LENGTH : _LENGTH + 2], "big", signed=True)
            self._cut = self.broker.rules.before_request(self._asked(key), CutRequest)
        return self._cut is not None and len(self._received) >= min(self._cut.at_byte, size)

    def _go_on(self, dialogue: Dialogue, effects: list[Effect]) -> bool:
        """Advance the current request as far as possible; True when it is done."""
        self._dialogue = dialogue
        while not self._still_waits():
            effect = next(dialogue, None)
            if effect is None:
                self._dialogue = None
                return True
            if isinstance(effect, Wait):
                self._waiting = effect
                continue
            effects.append(effect)
            if isinstance(effect, Close):
                self._ended = True
                return False
        return False

    def _still_waits(self) -> bool:
        wait = self._waiting
        if wait is None:
            return False
        if wait.ready() or (wait.deadline is not None and self.broker.cluster.clock() >= wait.deadline):
            self._waiting = None
            return False
        return True

    def _stopped(self) -> bool:
        """Whether a fault stops reading. Bytes that the transport has read before count as unread too."""
        rules = self.broker.rules
        return bool(rules) and rules.stopped_reading(self._asked(-1))

    def _asked(self, key: int) -> Asked:
        # The request is not counted yet.
        step = self.session.messages + 1 if key == SASL_AUTHENTICATE else 0
        return Asked(self.broker.node.id, key, step=step)


def _closing(effect: Close) -> Dialogue:
    yield effect
