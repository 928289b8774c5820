"""A producer for unit tests of the code that sends: it needs no broker, and does what the test says."""

from __future__ import annotations

import asyncio
import copy
import logging
import os
from collections.abc import AsyncIterable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Generic, Self, overload

from aioproducer._callers.owners import Owner, Scope, TaskOwners, Told
from aioproducer._callers.threads import run_in_loop
from aioproducer._core import Clock, sending_of
from aioproducer.config import ProducerConfig, require_config
from aioproducer.errors import BufferFullError, KafkaError, StateError
from aioproducer.interceptors import run_close
from aioproducer.records import CloseReport, FlushReport, PartitionInfo
from aioproducer.stats import Health, Stats
from aioproducer.testing.mock.base import ProducerBase
from aioproducer.testing.mock.bulk import BulkCall, send_every, take_batch
from aioproducer.testing.mock.calls import Call, MockCall
from aioproducer.testing.mock.checks import checked_partitions, checked_timeout, checked_topic
from aioproducer.testing.mock.controls import MockControls
from aioproducer.testing.mock.intake import MockIntake
from aioproducer.testing.mock.ledger import Held, Ledger, MockRecord, Totals
from aioproducer.testing.mock.plan import Plan
from aioproducer.testing.mock.transactions.coordinators import MockCoordinators
from aioproducer.testing.mock.transactions.transaction_calls import MockTransactionCalls
from aioproducer.testing.mock.transactions.transaction_controls import MockTransactionControls
from aioproducer.testing.mock.transactions.transactions import MockTransactions

if TYPE_CHECKING:
    import concurrent.futures
    from types import TracebackType

    from typing_extensions import TypeVar, Unpack

    from aioproducer._core import BatchDelivery, Delivery, Sending
    from aioproducer.config import BootstrapServers, Settings
    from aioproducer.records import BatchResult, BytesLike, Headers, Record, RecordMetadata, Timestamp
    from aioproducer.serializers import Serializer

    # Without serializers keys and values are bytes-like.
    K_contra = TypeVar("K_contra", default=BytesLike, contravariant=True)
    V_contra = TypeVar("V_contra", default=BytesLike, contravariant=True)
    # What a serializer without annotations takes, such as a lambda, is anything. The bound lets it look into that.
    K = TypeVar("K", bound=Any, default=Any)
    V = TypeVar("V", bound=Any, default=Any)
else:
    from typing import TypeVar

    K_contra = TypeVar("K_contra", contravariant=True)
    V_contra = TypeVar("V_contra", contravariant=True)

__all__ = ["MockProducer", "MockRecord"]

log = logging.getLogger("aioproducer")


class MockProducer(
    MockTransactionCalls,
    MockTransactionControls,
    MockControls,
    ProducerBase[K_contra, V_contra],
    Generic[K_contra, V_contra],
):
    """A `Producer` without brokers, for unit tests.

    ```python
    async with MockProducer() as producer:
        await place_order(producer, "2 apples")
        assert [record.value for record in producer.history] == [b"2 apples"]
    ```

    It takes the settings of `Producer`, and uses those that matter without a broker: serializers, partitioner,
    interceptors, limits and timeouts. Every topic exists, with `partitions` partitions (a number, or a mapping by name;
    topics that are not named have 1).

    Records are acknowledged at once, with the next offset of their partition. With `auto_complete=False` they wait
    for `complete_next`, `complete_all`, `fail_next` or `fail_all`, at most `timeout` or `delivery_timeout_ms`; until
    then `try_cancel` and `purge` withdraw them. `fail_send` and `fail_delivery` order failures of records to come.

    With a `transactional_id` it has transactions; `committed` is what readers of committed records find. `fence_me`,
    `fail_commit`, `lose_commit_answer` and `fail_offsets` order what may happen to them.

    `close_timeout_ms` is 0 unless given: closing fails what a test has left without an outcome, at once.
    """

    config: ProducerConfig
    close_report: CloseReport | None

    @overload
    def __init__(
        self: MockProducer[BytesLike, BytesLike],
        bootstrap_servers: BootstrapServers = "mock:9092",
        *,
        auto_complete: bool = True,
        partitions: Mapping[str, int] | int = 1,
        key_serializer: None = None,
        value_serializer: None = None,
        **settings: Unpack[Settings],
    ) -> None: ...

    @overload
    def __init__(
        self: MockProducer[K, BytesLike],
        bootstrap_servers: BootstrapServers = "mock:9092",
        *,
        auto_complete: bool = True,
        partitions: Mapping[str, int] | int = 1,
        key_serializer: Serializer[K],
        value_serializer: None = None,
        **settings: Unpack[Settings],
    ) -> None: ...

    @overload
    def __init__(
        self: MockProducer[BytesLike, V],
        bootstrap_servers: BootstrapServers = "mock:9092",
        *,
        auto_complete: bool = True,
        partitions: Mapping[str, int] | int = 1,
        key_serializer: None = None,
        value_serializer: Serializer[V],
        **settings: Unpack[Settings],
    ) -> None: ...

    @overload
    def __init__(
        self: MockProducer[K, V],
        bootstrap_servers: BootstrapServers = "mock:9092",
        *,
        auto_complete: bool = True,
        partitions: Mapping[str, int] | int = 1,
        key_serializer: Serializer[K],
        value_serializer: Serializer[V],
        **settings: Unpack[Settings],
    ) -> None: ...

    def __init__(
        self,
        bootstrap_servers: BootstrapServers = "mock:9092",
        *,
        auto_complete: bool = True,
        partitions: Mapping[str, int] | int = 1,
        key_serializer: Serializer[Any] | None = None,
        value_serializer: Serializer[Any] | None = None,
        **settings: Unpack[Settings],
    ) -> None:
        settings.setdefault("close_timeout_ms", 0)
        config = ProducerConfig(
            bootstrap_servers, key_serializer=key_serializer, value_serializer=value_serializer, **settings
        )
        self._set_out(config, auto_complete, partitions)

    @classmethod
    def from_config(
        cls,
        config: ProducerConfig,
        *,
        auto_complete: bool = True,
        partitions: Mapping[str, int] | int = 1,
    ) -> Self:
        """Make a mock of a configuration that was checked before; its `close_timeout_ms` counts as it is."""
        producer = cls.__new__(cls)
        producer._set_out(config, auto_complete, partitions)  # noqa: SLF001  # a constructor
        return producer

    @classmethod
    def from_properties(
        cls, properties: Mapping[str, object] | str | os.PathLike[str], **overrides: Unpack[Settings]
    ) -> Self:
        """Make a mock of Kafka's dotted properties, or of a Java `.properties` file."""
        return cls.from_config(ProducerConfig.from_properties(properties, **overrides))

    def _set_out(
        self, config: ProducerConfig, auto_complete: bool, partitions: Mapping[str, int] | int
    ) -> None:
        require_config(config)
        self.config = config
        self.close_report = None
        self._phase = "new"
        self._plan = Plan(auto_complete, *checked_partitions(partitions))
        self._ledger = Ledger(acks_tell_offsets=config.acks != 0)
        self._coordinators = MockCoordinators()
        self._mock_transactions = MockTransactions(config, self._plan, self._ledger, self._coordinators)
        self._mock_intake: MockIntake | None = None
        self._ended: asyncio.Future[None] | None = None
        self._at_close = Totals()
        self._owners = TaskOwners()

    # -- lifecycle

    async def start(self, *, wait_ready: float | None = None) -> None:
        """Bind to the running loop. There is nothing to wait for."""
        if self._phase in ("running", "closing"):
            raise StateError(f"the producer is {self._phase} already")
        if self._phase == "closed":
            raise StateError("the producer was closed, and is started once only: make a new one")
        checked_timeout("wait_ready", wait_ready)
        loop = asyncio.get_running_loop()
        intake = self._mock_intake = MockIntake(self.config, self._plan, self, self._ledger, loop)
        self._mock_transactions.bind(intake)
        # `_accepting` stays false: every record takes the long way, through `_send_slowly` and `_send_now`.
        self._bind(intake.topics, Clock(), loop, running_loop, self.config.max_request_size)
        self._follow_tasks(self._owners.entries, asyncio.current_task)
        self._phase = "running"

    async def ready(self, timeout: float | None = None) -> None:
        """Return at once: there is no broker to wait for."""
        self._intake_alive()
        checked_timeout("timeout", timeout)

    def _intake_here(self) -> MockIntake:
        intake = self._mock_intake
        if intake is None or self._phase in ("new", "closed"):
            raise self._no_intake()
        if not self._same_process():
            raise StateError(
                "this process was forked after the producer was started: make a new one in the child"
            )
        if not self._same_thread():
            raise StateError("the producer runs in another thread: use send_threadsafe() from here")
        if intake.loop is not running_loop():
            raise StateError("the producer belongs to another event loop: make one per loop")
        return intake

    def _no_intake(self) -> StateError:
        if self._phase == "closed":
            return StateError("the producer was closed")
        return StateError(
            "the producer was not started: use `async with producer:` or `await producer.start()`"
        )

    def _intake_alive(self) -> MockIntake:
        intake = self._intake_here()
        refusal = self._mock_transactions.refusal
        if refusal is not None:
            # A copy: what is raised collects a traceback.
            raise copy.copy(refusal)
        return intake

    def _intake_open(self) -> MockIntake:
        intake = self._intake_alive()
        if self._phase != "running":
            raise StateError("the producer is closing and accepts no more records")
        self._mock_transactions.check_send()
        self._note_task()
        return intake

    async def close(self, timeout: float | None = None) -> CloseReport:
        """Stop accepting, wait at most `timeout` seconds for what is pending, and fail what is left.

        The default is the setting `close_timeout_ms`, which is 0 for a mock unless given. A second call waits for the
        first, and shortens it if its own limit is shorter.
        """
        patience = checked_timeout("timeout", timeout)
        patience = self.config.close_timeout_ms / 1000 if patience is None else patience
        if self._phase == "new":
            self._phase = "closed"
            self.close_report = CloseReport()
        if self._phase == "closed":
            return self.close_report or CloseReport()
        self._intake_here()
        if self._ended is None:
            await self._end_within(patience)
        else:
            await asyncio.wait([self._ended], timeout=patience)
            self._give_up()
        return self.close_report or CloseReport()

    async def _end_within(self, patience: float) -> None:
        intake = self._intake_here()
        self._ended = intake.loop.create_future()
        self._phase = "closing"
        self._at_close = self._ledger.totals
        self._refuse_callers(intake)
        self._mock_transactions.wind_up()
        try:
            if patience > 0:
                async with asyncio.timeout(patience):
                    await self._all_settled()
        except TimeoutError:
            pass
        finally:
            self._give_up()
        # Callbacks of what was resolved just now are due in the loop's next turn; they come first.
        await asyncio.sleep(0)

    def _refuse_callers(self, intake: MockIntake) -> None:
        error = StateError("the producer was closed before this record was accepted")
        if intake.lines.at_work():
            self._mock_transactions.on_lost(error)
        intake.lines.refuse_all(error)

    async def _all_settled(self) -> list[Held]:
        """Wait until everything that was accepted so far has its outcome, and its callbacks have run."""
        waited_for = list(self._ledger.pending.values())
        for held in waited_for:
            await held.delivery.wait(None)
        await asyncio.sleep(0)
        return waited_for

    def _give_up(self) -> None:
        if self._phase == "closed":
            return
        self._mock_transactions.give_up()
        for held in list(self._ledger.pending.values()):
            self._ledger.withdraw(held.batch, "close() ran out of time")
        self._phase = "closed"
        self._report_end()
        run_close(tuple(self.config.interceptors), log)
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)

    def _report_end(self) -> None:
        new = self._ledger.totals.since(self._at_close)
        self.close_report = CloseReport(new.acked, new.not_written, new.unknown)
        if new.not_written or new.unknown:
            log.error(
                "records were lost when the producer was closed: %d not written, %d of unknown fate",
                new.not_written,
                new.unknown,
            )

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    # -- sending; `send`, `send_and_wait` and `send_nowait` are the core's

    def _send_slowly(
        self,
        topic: object,
        value: object,
        key: object,
        partition: object,
        timestamp: object,
        headers: object,
        timeout: object,
        max_block: object,
        serialized: bool,  # never: the core serializes what it may append, and here it may nothing
        wants_metadata: bool,
    ) -> Any:
        try:
            intake = self._intake_open()
        except KafkaError as error:
            refused = MockCall()
            refused.error = error
            return sending_of(refused, wants_metadata)
        call = Call(topic, value, key, partition, timestamp, headers, timeout, max_block)
        return sending_of(intake.take(call), wants_metadata)

    def _send_now(
        self,
        topic: object,
        value: object,
        key: object,
        partition: object,
        timestamp: object,
        headers: object,
        timeout: object,
    ) -> Delivery:
        intake = self._intake_open()
        try:
            return intake.take_now(Call(topic, value, key, partition, timestamp, headers, timeout))
        except BufferFullError:
            # Not now, says the call, which is not to wait: the record may be sent again.
            raise
        except KafkaError as error:
            intake.on_refused(error)
            raise

    def send_threadsafe(
        self,
        topic: str,
        value: V_contra | None = None,
        *,
        key: K_contra | None = None,
        partition: int | None = None,
        timestamp: Timestamp | None = None,
        headers: Headers | None = None,
        timeout: float | None = None,
        max_block: float | None = None,
    ) -> concurrent.futures.Future[RecordMetadata]:
        """Send one record from any other thread; the future gives its metadata, or raises what went wrong."""
        intake = self._mock_intake
        if intake is None or self._phase != "running":
            raise (self._no_intake() if self._phase != "closing" else StateError("the producer is closing"))
        if self._same_thread():
            text = "send_threadsafe() is for other threads than the producer's own: use send() here"
            raise StateError(text)

        def send() -> Sending[RecordMetadata]:
            return self.send_and_wait(
                topic,
                value,
                key=key,
                partition=partition,
                timestamp=timestamp,
                headers=headers,
                timeout=timeout,
                max_block=max_block,
            )

        return run_in_loop(intake.loop, send)

    def _send_many(  # the arguments of send_batch()
        self,
        topic: Any,
        values: Any,
        keys: Any,
        partition: Any,
        timestamps: Any,
        headers: Any,
        timeout: Any,
    ) -> Sending[BatchDelivery]:
        call, intake = (
            BulkCall(topic, values, keys, partition, timestamps, headers, timeout),
            self._intake_open(),
        )
        try:
            return sending_of(take_batch(intake, call))
        except KafkaError as error:
            intake.on_refused(error)
            raise

    async def send_all(
        self,
        records: Iterable[Record[Any, Any]] | AsyncIterable[Record[Any, Any]],
        *,
        on_progress: Callable[[int], object] | None = None,
    ) -> BatchResult:
        """Send every `Record` of an iterable or async iterable, and wait for all of them."""
        self._intake_open()
        return await send_every(self, records, on_progress)

    # -- waiting and looking

    def scope(self) -> Scope:
        """Reports of their own; see `Producer.scope`."""

        def now() -> Told:
            self._intake_alive()
            return self._ledger.told_now()

        return Scope(self._flush, now)

    async def _flush(self, owner: Owner | asyncio.Task[Any] | None, timeout: float | None) -> FlushReport:
        """With `auto_complete=False` it waits for the test to complete its records."""
        self._intake_alive()
        told_to = owner if isinstance(owner, Owner) else self._owners.of(owner or asyncio.current_task())
        began = self._ledger.told_now()
        async with asyncio.timeout(checked_timeout("timeout", timeout)):
            waited_for = await self._all_settled()
        report, told_to.told = self._ledger.report(began, waited_for, told_to.told)
        return report

    def _first_send(self, task: asyncio.Task[Any]) -> None:
        """Called by the core: a task sends that has not sent before."""
        self._owners.begin(task, self._ledger.told_now())

    async def partitions_for(self, topic: str, *, timeout: float | None = None) -> tuple[PartitionInfo, ...]:
        """The partitions of a topic, which are known at once."""
        self._intake_alive()
        checked_timeout("timeout", timeout)
        count = self._plan.partitions_of(checked_topic(topic))
        return tuple(PartitionInfo(index, 0, (0,), (0,)) for index in range(count))

    def purge(self, topic: str | None = None) -> int:
        """Withdraw what is pending (of one topic); returns how many records that were."""
        self._intake_alive()
        name = None if topic is None else checked_topic(topic)
        return self._for_all(name, lambda held: self._ledger.withdraw(held.batch, "withdrawn by purge()"))

    def stats(self) -> Stats:
        """One snapshot of what the mock has done and holds; nothing of it is about brokers."""
        ledger = self._ledger
        return Stats(
            records_accepted=self.accepted_records,
            bytes_accepted=self.accepted_bytes,
            records_acked=ledger.totals.acked,
            bytes_acked=ledger.acked_bytes,
            records_failed=ledger.totals.not_written + ledger.totals.unknown,
            failed_by_error=dict(ledger.failed_by_error),
            losses_by_topic=dict(ledger.losses_by_topic),
            records_buffered=len(ledger.pending),
            bytes_buffered=sum(held.batch.charged for held in ledger.pending.values()),
            waiting_calls=0 if self._mock_intake is None else len(self._mock_intake.lines.at_work()),
            oldest_unacked_seconds=self._oldest_seconds(),
        )

    def health(self) -> Health:
        """A small snapshot for probes: one broker is connected while the mock runs."""
        last, failed = self._ledger.last_ack, self._ledger.last_error_at
        intake, refusal = self._mock_intake, self._mock_transactions.refusal
        return Health(
            state=self._phase if refusal is None or self._phase == "closed" else "failed",
            connected_brokers=int(self._phase == "running" and refusal is None),
            seconds_since_last_ack=None if last is None or intake is None else intake.loop.time() - last,
            oldest_unacked_seconds=self._oldest_seconds(),
            last_error=refusal or self._ledger.last_error,
            answered_seconds_ago=0.0 if self._phase == "running" and refusal is None else None,
            last_error_seconds_ago=None if failed is None or intake is None else intake.loop.time() - failed,
        )

    def _oldest_seconds(self) -> float | None:
        oldest = self._ledger.waiting(None)
        return next((held.batch.loop.time() - held.batch.opened_at for held in oldest), None)

    def __repr__(self) -> str:
        accepted, pending = len(self._ledger.history), len(self._ledger.pending)
        return f"<MockProducer {self._phase}: {accepted} records in its history, {pending} pending>"

    def __reduce__(self) -> Any:
        raise TypeError("a producer cannot be pickled; producer.config can")


def running_loop() -> asyncio.AbstractEventLoop | None:
    """The event loop that runs here, None if there is none."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
