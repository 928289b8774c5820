"""The mutants of waking: waiting calls, batches and tasks that are not resumed."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Kind

_ACCUMULATOR: Final = "tests/state/batching/test_accumulator.py"
_END_OF_THE_SUPERVISOR: Final = "tests/net/runtime/test_end_of_the_supervisor.py"
_SETTLEMENT: Final = "tests/state/delivery/test_settlement.py"

_mutant = Kind("waking")

WAKING: Final = (
    _mutant(
        "death-of-the-supervisor-unnoticed",
        "_net/runtime/supervisor.py",
        "            self._end(first_of(cause))",
        "            pass",
        "The background task dies and every call waits without end (aiokafka #1039).",
        f"{_END_OF_THE_SUPERVISOR}::test_everything_resolves",
    ),
    _mutant(
        "memory-lingers-on-its-way-to-another-broker",
        "_state/batching/accumulator.py",
        "            elif not is_enough and short in (queue.share.budget, queue.share.budget.whole):",
        "            elif own.whole is not None and queue.share.budget is own:",
        "A call waits for memory until batches for other brokers have lingered, or its time is over.",
        "tests/state/admission/test_hurried_waiting.py",
    ),
    _mutant(
        "a-limited-topic-takes-its-own-limit-for-the-shortage",
        "_state/batching/accumulator.py",
        "short = own if own.whole is None or own.used + size > own.capacity - own.kept else own.whole",
        "short = own",
        "A topic below its limit waits for memory that lingers in other topics.",
        "tests/state/admission/test_topic_limits.py",
    ),
    _mutant(
        "death-of-one-task-unnoticed",
        "_net/runtime/supervisor.py",
        '            self.crash(StateError(f"the {name} task of the producer was cancelled from outside"))\n            raise',
        "            return",
        "One of the inner tasks is cancelled from outside, and the others wait for it without end (aiokafka #1039).",
        f"{_END_OF_THE_SUPERVISOR}::test_everything_resolves",
    ),
    _mutant(
        "dead-producer-goes-on-accepting",
        "_net/runtime/engine.py",
        "        if self.on_death is not None:",
        "        if False:",
        "After its tasks have died a producer accepts records that no task sends.",
        f"{_END_OF_THE_SUPERVISOR}::test_everything_resolves",
    ),
    _mutant(
        "no-alarm-for-the-end-of-a-backoff",
        "_state/delivery/settlement.py",
        "self.accumulator.deadlines.heap.add(batch.retry_at, batch.queue)",
        "pass",
        "A batch that waits for its retry is sent only at the next event of its partition.",
        "tests/state/delivery/test_backoff_alarms.py",
    ),
    _mutant(
        "no-alarm-for-the-end-of-a-linger",
        "_state/batching/accumulator.py",
        "self.deadlines.linger(queue, batch.linger_at)",
        "pass",
        "A half-full batch is sent only at the next event of its partition.",
        _ACCUMULATOR,
    ),
    _mutant(
        "each-linger-ends-alone",
        "_state/delivery/expiry.py",
        "        if leaves:",
        "        if False:",
        "Many partitions with few records make a request for each batch.",
        f"{_ACCUMULATOR}::test_batches_that_have_lingered_for_half_of_their_time_leave_with_others",
    ),
    _mutant(
        "young-batches-leave-with-others",
        "_state/batching/accumulator.py",
        "self.deadlines.lingers, now + self.limits.linger / 2",
        "self.deadlines.lingers, now + self.limits.linger",
        "Batches of busy partitions leave nearly empty, because others leave.",
        f"{_ACCUMULATOR}::test_batches_that_have_lingered_for_half_of_their_time_leave_with_others",
    ),
    _mutant(
        "batches-leave-with-one-that-has-left",
        "_state/batching/accumulator.py",
        "        return queue.is_ready\n",
        "        return True\n",
        "The alarm of a batch that was full ends the lingers of others.",
        f"{_ACCUMULATOR}::test_each_batch_of_a_partition_has_its_own_linger",
    ),
    _mutant(
        "a-batch-without-a-leader-lingers-without-end",
        "_state/batching/accumulator.py",
        "batch.linger_at > until or queue.is_ready:\n",
        "batch.linger_at > until or queue.is_ready or queue.node.node_id == NO_LEADER:\n",
        "A partition that loses its leader while a batch of it lingers holds up the event loop for ever.",
        f"{_ACCUMULATOR}::test_a_batch_without_a_leader_stays_where_others_leave",
    ),
    _mutant(
        "awaited-batch-lingers-by-a-clock-that-is-behind",
        "_state/batching/making.py",
        "linger_at = -math.inf if awaited",
        "linger_at = now if awaited",
        "With uvloop, whose clock stands still during a turn, an awaited record waits for the end of a millisecond.",
        f"{_ACCUMULATOR}::test_an_awaited_batch_does_not_linger_where_the_clock_of_the_loop_is_behind",
    ),
    _mutant(
        "lingers-in-the-order-of-their-begin",
        "_state/batching/batch_deadlines.py",
        "        elif until < lingers[-1][0]:\n",
        "        elif False:\n",
        "A partition whose linger was set anew waits behind those of other partitions that end later.",
        _ACCUMULATOR,
    ),
    _mutant(
        "queue-not-checked-after-an-answer",
        "_state/delivery/settlement.py",
        "log_append_time, now)\n"
        "        batch.judged = True\n"
        "        if queue.queue:\n"
        "            self.accumulator.update_readiness(queue, now)",
        "log_append_time, now)\n        batch.judged = True",
        "A batch that waited for the answer of the batch before it is sent only at the next event.",
        _SETTLEMENT,
    ),
    _mutant(
        "no-metadata-after-a-refusal",
        "_state/delivery/settlement.py",
        "        if decided.refresh_metadata:",
        "        if False:",
        "NOT_LEADER does not start a request for the leader.",
        _SETTLEMENT,
    ),
    _mutant(
        "new-leader-not-given-its-batches",
        "_state/batching/cluster_queues.py",
        "queue.node))\n        self.accumulator.update_readiness(queue, now)",
        "queue.node))",
        "Calls that wait for a partition whose leader has changed are not offered to the new leader.",
        _ACCUMULATOR,
    ),
    _mutant(
        "waiting-calls-stay-with-the-old-leader",
        "_state/machines.py",
        "self.admission.memory.moved(queue)",
        "pass",
        "Calls that wait for memory keep waiting for a broker that does not lead their partition any more.",
        "tests/net/accepting/test_moving_calls.py",
    ),
    _mutant(
        "omitted-partition-hangs",
        "_net/producing/exchange.py",
        "        self._omitted()\n",
        "        pass\n",
        "A Produce answer leaves a partition out, and its batch waits without end.",
        "tests/scenarios/test_b_answers.py::test_b08_an_answer_leaves_partitions_out",
    ),
    _mutant(
        "answer-that-cannot-be-read-is-nobodys",
        "_net/connecting/connection/connection.py",
        "                self._not_answered(sent)\n",
        "                pass\n",
        "Without memory to read an answer, the batches of its request are in flight for ever, and their partitions send nothing.",
        "tests/runtime/starvation/test_threads_and_memory.py",
    ),
    _mutant(
        "request-waits-without-memory-for-its-error",
        "_net/connecting/connection/asking.py",
        "        with suppress(*OUT_OF_MEMORY):\n            own = copy.copy(error)\n",
        "        own = copy.copy(error)\n",
        "Without memory for the error of a request about topics, its task waits without end, and no topic becomes known.",
        "tests/runtime/starvation/test_threads_and_memory.py",
    ),
    _mutant(
        "end-of-a-connection-told-to-some",
        "_net/connecting/connection/connection.py",
        "        if self.close_reason is not None:\n            self._tell(self.close_reason)\n",
        "",
        "Without memory to tell all requests of the end of their connection, the others are in flight for ever.",
        "tests/connection/test_pairing.py",
    ),
    _mutant(
        "permit-lost-with-an-error",
        "_net/producing/exchange.py",
        "        self._lose(error, written=written)\n        self._link.permits.release()",
        "        self._lose(error, written=written)",
        "A failed request keeps its place among those in flight; after five of them the broker gets no request any more.",
        "tests/net/producing/test_lost_permits.py",
    ),
    _mutant(
        "single-record-too-large-is-split-for-ever",
        "_state/delivery/settlement.py",
        "elif decided.kind is Kind.SPLIT and batch.record_count > 1:",
        "elif decided.kind is Kind.SPLIT:",
        "MESSAGE_TOO_LARGE for one record is answered by splitting it again and again.",
        _SETTLEMENT,
    ),
    _mutant(
        "part-of-a-split-is-not-halved",
        "_state/delivery/settlement.py",
        "if len(batch.order) > 1 or batch.plain_size <= limit:",
        "if False:",
        "With batch_size above the broker's limit a batch is split into itself, again and again.",
        _SETTLEMENT,
    ),
    _mutant(
        "cancelled-send-is-written-all-the-same",
        "_net/accepting/pending.py",
        "                self.withdraw()\n",
        "                pass\n",
        "A send() that is cancelled before acceptance is written later.",
        "tests/api/sending/test_cancelling_send.py::test_cancelled_while_waiting_for_metadata_is_not_sent",
    ),
)
