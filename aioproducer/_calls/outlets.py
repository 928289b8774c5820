"""The calls of a producer that `aioproducer.outlets` is made of: records that are followed, and dead letters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aioproducer._callers.refusals import refusal_of
from aioproducer._deferred import deferred
from aioproducer.errors import BufferFullError, ConfigurationError, KafkaError, StateError

if TYPE_CHECKING:
    from collections.abc import Callable

    from aioproducer._calls import running
    from aioproducer._core import Delivery, Sending
    from aioproducer._net.accepting.contexts import Follower
    from aioproducer._net.accepting.intake import Intake
    from aioproducer._net.runtime.engine import Engine
    from aioproducer.config import ProducerConfig
    from aioproducer.records import Headers
else:
    running = deferred("aioproducer._calls.running")


class OutletCalls:
    """The calls of `Producer` that send a record with a follower, or the dead letter of one."""

    if TYPE_CHECKING:
        config: ProducerConfig
        _engine: Engine | None
        _intake: Intake | None

    def _taking(self) -> Engine:
        """The engine of a producer that is not closing, or the reason why it takes no records."""
        raise NotImplementedError

    def _usable(self) -> Engine:
        """The engine of a producer that takes records now, or the reason why it does not."""
        raise NotImplementedError

    def _fail_transaction(self, error: KafkaError) -> None:
        """A part of the open transaction, if there is one, failed."""
        raise NotImplementedError

    def _is_followed(self) -> bool:
        """True when records need a follower: their bytes are made by user code, or their refusal ends a transaction."""
        intake, engine = self._intake, self._engine
        return intake is None or engine is None or not intake.plain or engine.transactions is not None

    def _send_followed(self, follower: Follower, *arguments: Any) -> Sending[Delivery]:
        """`send()` with the positional arguments of a `Call`, and a follower."""
        self._usable()
        assert self._intake is not None  # noqa: S101  # made by start()
        return self._intake.take(running.Call(*arguments)._replace(follower=follower), wants_metadata=False)

    def _send_now_followed(self, follower: Follower, *arguments: Any) -> Delivery:
        """The same of `send_nowait()`."""
        self._usable()
        assert self._intake is not None  # noqa: S101  # made by start()
        return self._intake.take_now(running.Call(*arguments)._replace(follower=follower))

    def _set_aside(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        headers: Headers,
        *,
        may_be_ending: bool,
    ) -> Sending[Delivery]:
        """Send a record that no user code sees; it waits for room.

        `may_be_ending`: it stands for a call that a commit waits for, and is a part of that transaction as the call was.
        """
        if not (may_be_ending and self._taking().waits_for_calls):
            self._usable()
        assert self._intake is not None  # noqa: S101  # made by start()
        call = running.Call(topic, value, key, None, None, headers, None)
        return self._intake.without_user_code().take(call, wants_metadata=False)

    def _set_aside_now(
        self, letter: Callable[[], tuple[str, bytes | None, bytes | None, Headers]]
    ) -> Delivery:
        """The same without waiting. `letter` gives the topic, the value, the key and the headers; it may call user code."""
        self._usable()
        assert self._intake is not None  # noqa: S101  # made by start()
        try:
            topic, value, key, headers = letter()
            call = running.Call(topic, value, key, None, None, headers, None)
            return self._intake.without_user_code().take_now(call)
        except BufferFullError:
            # The letter only comes too early, and may be put again.
            raise
        except BaseException as failure:
            # The transaction would be committed without the letter.
            self._fail_transaction(refusal_of(failure, None))
            raise

    def _is_only_loss(self, topic: str, partition: int | None) -> bool:
        """True when records behind one that is set aside may go on in gapless mode."""
        engine = self._engine
        return engine is None or engine.machines.losses.is_only_loss(topic, partition)

    def _check_letters(self, letters: Any) -> None:
        """Refuse an object that is no `DeadLetters`, or one whose letters would not be a part of the transaction."""
        producer = getattr(letters, "producer", None)
        if producer is None or not hasattr(letters, "send_by"):
            raise ConfigurationError(f"dead_letters takes DeadLetters, not {type(letters).__name__}")
        if producer is not self and self.config.transactional_id is not None:
            raise ConfigurationError("dead letters of another producer are no part of this one's transaction")

    def _count_dead_letter(self, topic: str) -> None:
        """A dead letter is written, of a record that was meant for this topic."""
        if self._engine is None:
            raise StateError("the producer was not started")
        self._engine.tally.set_aside(topic)
