"""The mutants: each of them a defect of a kind that clients of Kafka have had, in one line of this one."""

from __future__ import annotations

from typing import Final

from tests.mutants.answers import ANSWERS
from tests.mutants.busy import BUSY
from tests.mutants.callers import CALLERS
from tests.mutants.days import DAYS
from tests.mutants.ends import ENDS
from tests.mutants.exactly_once import EXACTLY_ONCE
from tests.mutants.flushing import FLUSHING
from tests.mutants.memory import MEMORY
from tests.mutants.mutant import Mutant
from tests.mutants.quiet import QUIET
from tests.mutants.told import TOLD
from tests.mutants.transactional import TRANSACTIONAL

MUTANTS: Final = (
    # -- order
    Mutant(
        name="retry-at-the-tail",
        kind="order",
        file="_state/queues.py",
        line="self.queue.appendleft(batch)",
        instead="self.queue.append(batch)",
        bug="A batch that is sent again goes to the end of its partition's queue, behind younger ones.",
        by=("tests/state/test_settlement.py",),
    ),
    Mutant(
        name="reset-reverses-what-was-in-flight",
        kind="order",
        file="_state/queues.py",
        line="while self.queue and self.queue[0].order < batch.order:",
        instead="while False:",
        bug="A connection breaks with several batches in flight, and they come back last to first.",
        by=("tests/state/test_sequences.py",),
    ),
    Mutant(
        name="retry-before-it-is-the-first",
        kind="order",
        file="_state/sequences.py",
        line="        if queue.sent[0] is not batch:",
        instead="        if False:",
        bug=(
            "A retried batch leaves while an older one of its partition has no outcome: what Java's "
            "shouldStopDrainBatchesForPartition is for."
        ),
        by=("tests/state/test_sequences.py",),
    ),
    Mutant(
        name="asked-ahead-of-another-leader",
        kind="order",
        file="_state/accumulator.py",
        line="        queue.in_order_again()",
        instead="        pass",
        bug=(
            "What one leader has shown is taken for true of the next: a batch is repeated before those that were sent before "
            "it, at a leader that may never have heard of the producer."
        ),
        by=("tests/state/test_sequences.py",),
    ),
    Mutant(
        name="older-ones-forgotten",
        kind="truth",
        file="_state/settlement.py",
        line="        for older in before:\n            self._leave_queue(older)",
        instead="        for older in []:\n            self._leave_queue(older)",
        bug=(
            "A restarted leader knows the newest batch of a producer alone; those before it are in the log, and wait for their "
            "deadline all the same."
        ),
        by=("tests/state/test_sequences.py",),
    ),
    Mutant(
        name="first-batch-not-alone",
        kind="order",
        file="_state/sequences.py",
        line="(is_confirmed(queue, now) and to_remember(queue) < REMEMBERED_BATCHES)",
        instead="to_remember(queue) < REMEMBERED_BATCHES",
        bug=(
            "Several batches leave before the leader knows the producer, which takes any number from a "
            "stranger: the second may be taken and the first refused."
        ),
        by=("tests/state/test_sequences.py",),
    ),
    Mutant(
        name="new-producer-id-taken-for-known",
        kind="order",
        file="_state/sequences.py",
        line="            queue.confirmed_at = NEVER",
        instead="            pass",
        bug="After the producer id has changed, leaders are taken to know the new one.",
        by=("tests/state/test_strangers.py",),
    ),
    Mutant(
        name="topic-made-anew-taken-for-known",
        kind="order",
        file="_state/own_identity.py",
        line="        queue.confirmed_at = NEVER\n        queue.broken",
        instead="        queue.broken",
        bug="A topic was deleted and made again, and its leaders are taken to know the producer.",
        by=("tests/state/test_strangers.py",),
    ),
    Mutant(
        name="six-batches-unresolved",
        kind="order",
        file="_state/sequences.py",
        line="REMEMBERED_BATCHES = 5",
        instead="REMEMBERED_BATCHES = 6",
        bug=(
            "More batches of a partition are unresolved than a broker remembers, so that a late "
            "repetition is appended again."
        ),
        by=("tests/state/test_sequences.py",),
    ),
    Mutant(
        name="only-unresolved-batches-are-remembered",
        kind="order",
        file="_state/sequences.py",
        line="return queue.numbered - queue.sent[0].nth + 1",
        instead="return len(queue.sent)",
        bug=(
            "While a batch is repeated, so many others follow it that its leader does not know it any more "
            "should a second repetition be needed: OUT_OF_ORDER until its deadline."
        ),
        by=("tests/state/test_sequences.py",),
    ),
    Mutant(
        name="several-in-flight-without-idempotence",
        kind="order",
        file="_state/sequences.py",
        line="return not (self.one_at_a_time and queue.in_flight)",
        instead="return True",
        bug="Without idempotence max_in_flight=1 promises order, but a second request leaves all the same.",
        by=("tests/state/test_sequences.py",),
    ),
    Mutant(
        name="fast-path-passes-who-waits-for-memory",
        kind="order",
        file="_core/accept.pyx",
        line="if not in_line and (partition.waiting or partition.lane.waiting):",
        instead="if not in_line and partition.waiting < 0:",
        bug="A new send takes the memory that just came back, before those that wait for it.",
        by=("tests/api/test_order.py::test_through_the_wait_for_memory",),
    ),
    Mutant(
        name="fast-path-passes-the-line-of-its-topic",
        kind="order",
        file="_core/accept.pyx",
        line="if topic.waiting or not topic.partitions:",
        instead="if not topic.partitions:",
        bug="A new send overtakes calls of its topic that wait for a serializer or for metadata.",
        by=("tests/net/test_line_of_a_topic.py",),
    ),
    Mutant(
        name="bulk-passes-its-own-waiting-record",
        kind="order",
        file="_state/bulk.py",
        line="return self.columns is not None and self.alone is None",
        instead="return self.columns is not None",
        bug="Of a bulk send, later records pass the one that waits for memory.",
        by=("tests/state/test_bulk_news.py",),
    ),
    Mutant(
        name="leader-moves-and-the-line-turns-round",
        kind="order",
        file="_state/admission.py",
        line="Line()).calls.extend(moving)",
        instead="Line()).calls.extend(reversed(moving))",
        bug="Calls that wait for memory follow their partition to another broker in the wrong order.",
        by=("tests/state/test_moving_lines.py",),
    ),
    Mutant(
        name="callbacks-in-the-order-of-asking",
        kind="order",
        file="_core/records.pyx",
        line="for index in sorted(self._waiters)] if self._waiters",
        instead="for index in self._waiters] if self._waiters",
        bug=(
            "Callbacks of one batch are called in the order in which they were added, not in that of the "
            "records (the contract of Java's Callback)."
        ),
        by=("tests/core/test_delivery.py::test_callbacks_run_in_the_order_of_the_records",),
    ),
    Mutant(
        name="end-tells-split-batches-last",
        kind="order",
        file="_state/settlement.py",
        line="return sorted(self.accumulator.live, key=lambda batch: batch.order)",
        instead="return list(self.accumulator.live)",
        bug="When the producer ends, parts of a split batch are told after younger batches.",
        by=("tests/state/test_settlement.py",),
    ),
    # -- identity
    Mutant(
        name="stamped-anew-while-a-batch-is-dirty",
        kind="identity",
        file="_state/sequences.py",
        line="return not queue.in_flight and not any(batch.dirty for batch in queue.sent)",
        instead="return not queue.in_flight",
        bug=(
            "Sequences are written anew while an earlier batch may yet turn out to be in the log "
            "(KAFKA-14034)."
        ),
        by=("tests/state/test_sequences.py",),
    ),
    Mutant(
        name="epoch-raised-with-a-batch-in-flight",
        kind="identity",
        file="_state/sequences.py",
        line="return not queue.in_flight and not any(",
        instead="return not any(",
        bug="The epoch is raised while a batch of the partition is in flight (KAFKA-14034).",
        by=("tests/state/test_sequences.py",),
    ),
    Mutant(
        name="dirty-batch-gets-new-numbers",
        kind="identity",
        file="_state/sequences.py",
        line="if queue.broken and self._mendable(queue):\n            self._mend(queue)",
        instead="if queue.broken:\n            self._mend(queue)",
        bug=(
            "A batch whose first attempt may have been written is sent again under other numbers, so "
            "that the broker cannot tell the repetition (KAFKA-19012, librdkafka #4736)."
        ),
        by=("tests/state/test_sequences.py",),
    ),
    Mutant(
        name="numbers-of-an-unknown-batch-given-again",
        kind="identity",
        file="_state/sequences.py",
        line="        if self._forget(queue, batch):\n            queue.broken = True",
        instead="        if self._forget(queue, batch):\n            queue.next_sequence = batch.sequence",
        bug=(
            "After a batch has expired in flight its numbers go to other records, which the broker then "
            "takes for a repetition: lost, and acknowledged."
        ),
        by=("tests/state/test_sequences.py",),
    ),
    Mutant(
        name="numbers-of-a-refused-batch-given-twice",
        kind="identity",
        file="_state/sequences.py",
        line="if queue.next_sequence == batch.next_sequence and not queue.broken:",
        instead="if not queue.broken:",
        bug="The numbers of a refused batch are given again though batches behind it have theirs.",
        by=("tests/state/test_sequences.py",),
    ),
    Mutant(
        name="epoch-changes-under-unresolved-batches",
        kind="identity",
        file="_state/sequences.py",
        line="if queue.identity != self._identity and not queue.sent:",
        instead="if queue.identity != self._identity:",
        bug="Another partition's new epoch is taken over while batches are unresolved under the old one.",
        by=("tests/state/test_sequences.py",),
    ),
    Mutant(
        name="sequence-does-not-wrap",
        kind="identity",
        file="_state/batches.py",
        line="return (self.sequence + self.record_count) % SEQUENCE_MODULUS",
        instead="return self.sequence + self.record_count",
        bug=(
            "After 2**31 records of a partition the sequence number leaves 32 bits (M14; aiokafka's "
            "comment in place of a check)."
        ),
        by=("tests/state/test_sequences.py",),
    ),
    Mutant(
        name="an-epoch-after-the-last",
        kind="identity",
        file="_state/own_identity.py",
        line="self.exhausted = epoch + 1 >= LAST_EPOCH",
        instead="self.exhausted = False",
        bug="The epoch grows past 32767 and becomes negative on the wire (Dekaf #3341).",
        by=("tests/state/test_sequences.py",),
    ),
    Mutant(
        name="nobody-asks-for-the-next-producer-id",
        kind="identity",
        file="_state/own_identity.py",
        line="            self.on_exhausted()",
        instead="            pass",
        bug=(
            "The last epoch is used up and no new producer id is asked for: the next broken sequence "
            "waits for ever."
        ),
        by=("tests/state/test_sequences.py",),
    ),
    Mutant(
        name="forgotten-partition-counts-from-zero",
        kind="identity",
        file="_state/own_identity.py",
        line="self._lost_count_of = self._identity",
        instead="self._lost_count_of = None",
        bug=(
            "A topic drops out of the metadata and comes back, and its counter begins at 0 under the "
            "same epoch: records are taken for repetitions (M07)."
        ),
        by=("tests/state/test_sequences.py",),
    ),
    Mutant(
        name="new-epoch-goes-on-counting",
        kind="identity",
        file="_state/sequences.py",
        line="        queue.next_sequence = 0\n\n    # -- what",
        instead="        pass\n\n    # -- what",
        bug="Under a new epoch the count goes on instead of beginning at 0.",
        by=("tests/state/test_sequences.py",),
    ),
    Mutant(
        name="gap-behind-the-first-raises-the-epoch",
        kind="identity",
        file="_state/sequences.py",
        line="if batch.sequence >= 0 and queue.sent and queue.sent[0] is batch:",
        instead="if batch.sequence >= 0:",
        bug="OUT_OF_ORDER_SEQUENCE for a batch behind a failed one is taken for a broken sequence (M06).",
        by=("tests/state/test_sequences.py",),
    ),
    Mutant(
        name="parts-of-a-split-share-a-number",
        kind="identity",
        file="_state/sequences.py",
        line="sequence = child.next_sequence",
        instead="sequence = batch.sequence",
        bug=(
            "The parts of a split batch get the same sequence number, and the second is taken for a "
            "repetition of the first."
        ),
        by=("tests/state/test_settlement.py",),
    ),
    Mutant(
        name="part-of-a-split-forgets-it-is-dirty",
        kind="identity",
        file="_state/accumulator.py",
        line="= batch.attempts, batch.dirty, batch",
        instead="= batch.attempts, False, batch",
        bug="A batch that may be in the log is split, and its parts are taken for never written.",
        by=("tests/state/test_settlement.py",),
    ),
    Mutant(
        name="topic-made-anew-goes-on-counting",
        kind="identity",
        file="_state/own_identity.py",
        line="queue.broken = queue.identity is not None",
        instead="pass",
        bug=(
            "A topic was deleted and made again, and its new leaders are told numbers that go on from "
            "those of the old one."
        ),
        by=("tests/state/test_strangers.py",),
    ),
    Mutant(
        name="gap-taken-for-closed",
        kind="identity",
        file="_state/sequences.py",
        line="            if following.sequence != expected:\n                return False",
        instead="            if following.sequence != expected:\n                return True",
        bug="A sequence with a gap is taken for whole because a batch before the gap was acknowledged.",
        by=("tests/state/test_closed_gaps.py",),
    ),
    # -- truth
    Mutant(
        name="lost-connection-says-not-written",
        kind="truth",
        file="_state/settlement.py",
        line="self._retry(batch, error, now, proven=not written)",
        instead="self._retry(batch, error, now, proven=True)",
        bug="A request whose connection broke is taken for not written.",
        by=("tests/state/test_settlement.py",),
    ),
    Mutant(
        name="request-timed-out-says-not-written",
        kind="truth",
        file="_state/verdicts.py",
        line="proof=code in REFUSED_BEFORE_APPEND)",
        instead="proof=code in REFUSED_BEFORE_APPEND or code == 7)",
        bug="REQUEST_TIMED_OUT is taken for not written, although the leader has the batch (M13).",
        by=("tests/state/test_verdicts.py",),
    ),
    Mutant(
        name="appended-but-not-replicated-says-not-written",
        kind="truth",
        file="_state/verdicts.py",
        line="proof=code in REFUSED_BEFORE_APPEND)",
        instead="proof=code in REFUSED_BEFORE_APPEND or code == 20)",
        bug="NOT_ENOUGH_REPLICAS_AFTER_APPEND is taken for not written (M13).",
        by=("tests/state/test_verdicts.py",),
    ),
    Mutant(
        name="deposed-leader-proves-nothing-written",
        kind="truth",
        file="_state/verdicts.py",
        line="if code in _REFUSED_AT_LOOK_UP and base_offset is not None and base_offset < 0:",
        instead="if code in _REFUSED_AT_LOOK_UP:",
        bug="NOT_LEADER after the append (DelayedProduce) is taken for a refusal before it.",
        by=("tests/state/test_verdicts.py",),
    ),
    Mutant(
        name="final-error-forgets-the-unanswered-attempt",
        kind="truth",
        file="_state/settlement.py",
        line="clean = decided.proves_not_appended and not batch.dirty",
        instead="clean = decided.proves_not_appended",
        bug=(
            "An error that proves this attempt not written is told as NOT_WRITTEN, though nobody "
            "answered the one before."
        ),
        by=("tests/state/test_settlement.py",),
    ),
    Mutant(
        name="expired-in-flight-says-not-written",
        kind="truth",
        file="_state/settlement.py",
        line="written = batch.in_flight or batch.dirty or (",
        instead="written = batch.dirty or (",
        bug="A record whose deadline passes while its request is unanswered is told as NOT_WRITTEN.",
        by=("tests/state/test_settlement.py",),
    ),
    Mutant(
        name="expired-while-dirty-says-not-written",
        kind="truth",
        file="_state/settlement.py",
        line="written = batch.in_flight or batch.dirty or (",
        instead="written = batch.in_flight or (",
        bug=(
            "A record whose deadline passes between two attempts is told as NOT_WRITTEN, though the "
            "first was not answered."
        ),
        by=("tests/state/test_settlement.py",),
    ),
    Mutant(
        name="close-says-not-written-of-what-is-dirty",
        kind="truth",
        file="_state/settlement.py",
        line="written = batch.in_flight or batch.dirty or not batch.judged",
        instead="written = batch.in_flight or not batch.judged",
        bug="Closing tells NOT_WRITTEN of a batch that waits for its retry after an unanswered attempt.",
        by=("tests/state/test_closing_dirty.py",),
    ),
    Mutant(
        name="close-says-not-written-of-what-is-in-flight",
        kind="truth",
        file="_state/settlement.py",
        line="written = batch.in_flight or batch.dirty or not batch.judged",
        instead="written = batch.dirty or not batch.judged",
        bug="Closing tells NOT_WRITTEN of what is in flight (librdkafka's purge tells such records apart).",
        by=("tests/state/test_settlement.py",),
    ),
    Mutant(
        name="attempts-used-up-say-not-written",
        kind="truth",
        file="_state/settlement.py",
        line="outcome=Outcome.UNKNOWN if batch.dirty else Outcome.NOT_WRITTEN,",
        instead="outcome=Outcome.NOT_WRITTEN,",
        bug="When `retries` is used up, a batch that may be in the log is told as NOT_WRITTEN.",
        by=("tests/state/test_settlement.py",),
    ),
    Mutant(
        name="repetition-taken-for-a-failure",
        kind="truth",
        file="_state/verdicts.py",
        line="    46: Kind.ACK,",
        instead="    46: Kind.FAIL,",
        bug="DUPLICATE_SEQUENCE_NUMBER, the proof that the batch is in the log, is raised as an error.",
        by=("tests/state/test_verdicts.py",),
    ),
    Mutant(
        name="withdrawn-though-drained",
        kind="truth",
        file="_state/settlement.py",
        line="if batch.attempts or batch.settled:",
        instead="if batch.settled:",
        bug="try_cancel() says that a record is withdrawn which is on the wire.",
        by=("tests/state/test_settlement.py",),
    ),
    Mutant(
        name="offset-of-a-forgotten-repetition",
        kind="truth",
        file="_core/delivery.pyx",
        line="batch.base_offset + delivery._index if batch.base_offset >= 0 else -1)",
        instead="batch.base_offset + delivery._index)",
        bug="An answer without an offset gives the n-th record offset -1 + n.",
        by=("tests/state/test_unknown_offsets.py",),
    ),
    Mutant(
        name="append-time-lost",
        kind="truth",
        file="_state/settlement.py",
        line="count = batch.acknowledge(base_offset, log_append_time)",
        instead="count = batch.acknowledge(base_offset)",
        bug="On a topic with LogAppendTime the metadata has the producer's timestamp.",
        by=("tests/state/test_settlement.py",),
    ),
    Mutant(
        name="repetition-answered-with-its-own-time",
        kind="truth",
        file="_state/settlement.py",
        line="return -1 if repeated else answer.log_append_time",
        instead="return answer.log_append_time",
        bug=(
            "The latest timestamp of the batch, with which Kafka answers a repetition, is told as every "
            "record's own time."
        ),
        by=("tests/state/test_repeated_append_times.py",),
    ),
    # -- memory
    Mutant(
        name="memory-not-given-back",
        kind="memory",
        file="_state/accumulator.py",
        line="batch.lane.release(charged)",
        instead="batch.lane.release(charged // 2)",
        bug="Memory leaks with each batch until no send is accepted any more.",
        by=("tests/state/test_settlement.py",),
    ),
    Mutant(
        name="parts-of-a-split-are-not-charged",
        kind="memory",
        file="_state/accumulator.py",
        line="heir.charged = min(heir.size, charged)",
        instead="heir.charged = 0",
        bug="What a split batch holds is given back while its parts hold it still.",
        by=("tests/state/test_split_memory.py",),
    ),
    Mutant(
        name="moved-batch-is-charged-to-nobody",
        kind="memory",
        file="_state/accumulator.py",
        line="        lane.charge(batch.charged)",
        instead="        pass",
        bug="A partition moves to another broker, and what it holds is no longer counted.",
        by=("tests/state/test_accumulator.py",),
    ),
    Mutant(
        name="nobody-told-of-free-memory",
        kind="memory",
        file="_state/settlement.py",
        line="        self.accumulator.retire(batch)\n        self.on_room(batch.lane)",
        instead="        self.accumulator.retire(batch)",
        bug="Memory comes back and whoever waits for it is not woken.",
        by=("tests/state/test_settlement.py",),
    ),
    Mutant(
        name="wake-up-lost-on-cancel",
        kind="memory",
        file="_state/admission.py",
        line="if lane is not None or held:",
        instead="if held:",
        bug=(
            "The first of the line is cancelled when there is room for the second, and nobody wakes that "
            "one (as asyncio.Semaphore once did)."
        ),
        by=("tests/state/test_admission.py",),
    ),
    Mutant(
        name="cancelled-waiter-keeps-its-memory",
        kind="memory",
        file="_state/admission.py",
        line="        self.waiting -= 1\n        self._let_go(call)",
        instead="        self.waiting -= 1",
        bug="A queued record that is withdrawn keeps what it held.",
        by=("tests/state/test_admission.py",),
    ),
    Mutant(
        name="ended-call-blocks-its-line",
        kind="memory",
        file="_state/admission.py",
        line="while self.calls and self.calls[0].ended:",
        instead="while self.calls and False:",
        bug="A cancelled call stays the first of its line and is appended, or holds up all behind it.",
        by=("tests/state/test_admission.py",),
    ),
    Mutant(
        name="topic-limit-not-charged",
        kind="memory",
        file="_state/accumulator.py",
        line="if topic not in self.topic_budgets:",
        instead="if True:",
        bug="topic_buffer_limits is read and never charged.",
        by=("tests/state/test_topic_limits.py",),
    ),
    Mutant(
        name="topic-limit-not-counted-in-the-whole",
        kind="memory",
        file="_core/accept_places.pxi",
        line="            self._whole.add(size, self._stuck)",
        instead="            pass",
        bug="Records of a topic with a limit of its own do not count in buffer_memory.",
        by=("tests/state/test_topic_limits.py",),
    ),
    Mutant(
        name="dead-broker-may-take-all-memory",
        kind="memory",
        file="_state/accumulator.py",
        line="budget.stuck_limit = budget.capacity if all_slow else budget.capacity // 2",
        instead="budget.stuck_limit = budget.capacity",
        bug="Records for one broker that is down fill the memory, and all topics stand still.",
        by=("tests/state/test_accumulator.py",),
    ),
    Mutant(
        name="a-frozen-broker-takes-all-memory",
        kind="memory",
        file="_state/accumulator.py",
        line="budget.kept = budget.capacity // 8 if brokers > 1 else 0",
        instead="budget.kept = 0",
        bug=(
            "A broker that froze a moment ago takes all of the memory before its silence is noticed, "
            "and the others starve until its records expire."
        ),
        by=("tests/state/test_admission.py",),
    ),
    Mutant(
        name="waiters-do-not-hurry-half-full-batches",
        kind="memory",
        file="_state/admission.py",
        line="if queue.lane.waiting == 1:",
        instead="if False:",
        bug="Calls wait for memory that half-full batches hold for the length of their linger.",
        by=("tests/state/test_hurried_waiting.py",),
    ),
    Mutant(
        name="too-large-a-request",
        kind="memory",
        file="_state/accumulator.py",
        line="if batch is not None and taken and size + batch.size > self.limits.max_request_size:",
        instead="if batch is not None and taken and size < 0:",
        bug=(
            "One request takes all ready batches, however large that makes it, and the broker closes the "
            "connection."
        ),
        by=("tests/state/test_accumulator.py",),
    ),
    Mutant(
        name="too-large-a-batch-never-leaves",
        kind="memory",
        file="_state/accumulator.py",
        line="if batch is not None and taken and size + batch.size > self.limits.max_request_size:",
        instead="if batch is not None and size + batch.size > self.limits.max_request_size:",
        bug="A batch above max_request_size is not even sent alone, and holds up its broker for ever.",
        by=("tests/state/test_accumulator.py",),
    ),
    Mutant(
        name="errors-chain-without-end",
        kind="memory",
        file="_net/engine.py",
        line="return root_of(self.present_trouble if sender is None else sender.trouble)",
        instead="return self.last_error",
        bug=(
            "Each expired record has the error of the one before as its cause: a list of errors without "
            "a bound."
        ),
        by=("tests/proxy/test_silence.py::test_a04_errors_do_not_refer_to_each_other",),
    ),
    # -- waking
    Mutant(
        name="death-of-the-supervisor-unnoticed",
        kind="waking",
        file="_net/engine.py",
        line="            self._end(first_of(cause))",
        instead="            pass",
        bug="The background task dies and every call waits for ever (aiokafka #1039).",
        by=("tests/net/test_end_of_the_supervisor.py::test_everything_resolves",),
    ),
    Mutant(
        name="death-of-one-task-unnoticed",
        kind="waking",
        file="_net/engine.py",
        line=(
            '            self.crash(StateError(f"the {name} task of the producer was cancelled from '
            'outside"))\n            raise'
        ),
        instead="            return",
        bug=(
            "One of the inner tasks is cancelled from outside, and the rest waits for it for ever "
            "(aiokafka #1039)."
        ),
        by=("tests/net/test_end_of_the_supervisor.py::test_everything_resolves",),
    ),
    Mutant(
        name="dead-producer-goes-on-accepting",
        kind="waking",
        file="_net/engine.py",
        line="        if self.on_death is not None:",
        instead="        if False:",
        bug="After its tasks have died a producer accepts records that nobody will send.",
        by=("tests/net/test_end_of_the_supervisor.py::test_everything_resolves",),
    ),
    Mutant(
        name="no-alarm-for-the-end-of-a-backoff",
        kind="waking",
        file="_state/settlement.py",
        line="self.accumulator.deadlines.add(batch.retry_at, batch.queue)",
        instead="pass",
        bug="A batch that waits for its retry is sent only when something else happens to its partition.",
        by=("tests/state/test_backoff_alarms.py",),
    ),
    Mutant(
        name="no-alarm-for-the-end-of-a-linger",
        kind="waking",
        file="_state/accumulator.py",
        line="self.deadlines.add(batch.linger_at, queue)",
        instead="pass",
        bug="A half-full batch is sent only when something else happens to its partition.",
        by=("tests/state/test_accumulator.py",),
    ),
    Mutant(
        name="nobody-looks-again-after-an-answer",
        kind="waking",
        file="_state/settlement.py",
        line="        self.accumulator.consider(queue, now)",
        instead="        pass",
        bug="What waited for the answer of the batch before it is not sent until something else happens.",
        by=("tests/state/test_settlement.py",),
    ),
    Mutant(
        name="no-metadata-after-a-refusal",
        kind="waking",
        file="_state/settlement.py",
        line="        if decided.refresh_metadata:",
        instead="        if False:",
        bug="NOT_LEADER does not make anybody ask who the leader is.",
        by=("tests/state/test_settlement.py",),
    ),
    Mutant(
        name="new-leader-not-told-of-its-batches",
        kind="waking",
        file="_state/accumulator.py",
        line="queue.node))\n        self.consider(queue, now)",
        instead="queue.node))",
        bug="What waits for a partition whose leader has changed is not offered to the new one.",
        by=("tests/state/test_accumulator.py",),
    ),
    Mutant(
        name="waiting-calls-stay-with-the-old-leader",
        kind="waking",
        file="_net/cluster.py",
        line="self.engine.admission.moved(queue)",
        instead="pass",
        bug=(
            "Calls that wait for memory go on waiting for a broker that does not lead their partition "
            "any more."
        ),
        by=("tests/net/test_moving_calls.py",),
    ),
    Mutant(
        name="omitted-partition-hangs",
        kind="waking",
        file="_net/exchange.py",
        line="        self._omitted()\n",
        instead="        pass\n",
        bug="A Produce answer leaves a partition out, and its batch waits for ever.",
        by=("tests/scenarios/test_b_answers.py::test_b08_an_answer_leaves_partitions_out",),
    ),
    Mutant(
        name="permit-lost-with-an-error",
        kind="waking",
        file="_net/exchange.py",
        line="        self._lose(error, written=written)\n        self._link.permits.release()",
        instead="        self._lose(error, written=written)",
        bug=(
            "A request that failed keeps its place among those in flight; after five of them the broker "
            "is not written to again."
        ),
        by=("tests/net/test_lost_permits.py",),
    ),
    Mutant(
        name="single-record-too-large-is-split-for-ever",
        kind="waking",
        file="_state/settlement.py",
        line="elif decided.kind is Kind.SPLIT and batch.record_count > 1:",
        instead="elif decided.kind is Kind.SPLIT:",
        bug="MESSAGE_TOO_LARGE for one record is answered by splitting it again and again.",
        by=("tests/state/test_settlement.py",),
    ),
    Mutant(
        name="part-of-a-split-is-not-halved",
        kind="waking",
        file="_state/settlement.py",
        line="if len(batch.order) > 1 or batch.plain_size <= limit:",
        instead="if False:",
        bug="With batch_size above the broker's limit a batch is split into itself, again and again.",
        by=("tests/state/test_settlement.py",),
    ),
    Mutant(
        name="cancelled-send-is-written-all-the-same",
        kind="waking",
        file="_net/pending.py",
        line="                self.withdraw()\n",
        instead="                pass\n",
        bug="A send() that is cancelled before acceptance is written later.",
        by=("tests/api/test_cancelling_send.py::test_cancelled_while_waiting_for_metadata_is_not_sent",),
    ),
    # -- time
    Mutant(
        name="wall-clock-for-a-deadline",
        kind="time",
        file="_net/intake.py",
        line="record_deadline=0.0 if timeout is None else now + timeout,",
        instead="record_deadline=0.0 if timeout is None else self.engine.wall_ms() / 1000 + timeout,",
        bug=(
            "The deadline of a record is set by the wall clock and judged by the monotonic one "
            "(confluent's _buffer_timeout_manager uses the wall clock for durations)."
        ),
        by=("tests/api/test_failures.py::test_timeout_of_one_record",),
    ),
    Mutant(
        name="delivery-time-begins-again-with-each-retry",
        kind="time",
        file="_state/settlement.py",
        line="indexes = batch.overdue(now)",
        instead="indexes = batch.overdue(now - max(0.0, batch.retry_at - batch.opened_at))",
        bug="Each retry gives a record its whole delivery time again.",
        by=("tests/state/test_settlement.py",),
    ),
    Mutant(
        name="request-never-times-out",
        kind="time",
        file="_net/connection.py",
        line="            self._alarm.expect(now + timeout)\n",
        instead="            pass\n",
        bug="A broker that takes requests and says nothing is waited for without an end.",
        by=("tests/connection/test_time_limits.py::test_request_without_an_answer_ends_the_connection",),
    ),
    Mutant(
        name="request-time-begins-again-with-each-byte",
        kind="time",
        file="_net/connection.py",
        line="        self.reads += 1\n",
        instead=(
            "        self.reads += 1; self._waiting = deque(a._replace(deadline=self._loop.time() + "
            "a.timeout) for a in self._waiting)\n"
        ),
        bug="A broker that sends one byte now and then is never overdue.",
        by=("tests/connection/test_time_limits.py::test_trickled_bytes_do_not_buy_time",),
    ),
    Mutant(
        name="connection-kept-after-a-timeout",
        kind="time",
        file="_net/connection.py",
        line=(
            '        self._end(self._unavailable("the connection was closed because a request timed '
            'out"), overdue_at=now)'
        ),
        instead="        self._waiting.popleft().handler.failed(self._timed_out(0.0), written=True)",
        bug=(
            "A request times out, its connection is used on, and its late answer is paired with another "
            "request."
        ),
        by=("tests/connection/test_time_limits.py::test_request_without_an_answer_ends_the_connection",),
    ),
    Mutant(
        name="answers-that-have-arrived-come-too-late",
        kind="time",
        file="_net/alarm.py",
        line="            self._let_arrive(_CATCH_UP_TURNS)\n",
        instead="            self._watched.overdue(self._loop.time())\n",
        bug="After a loop that was held up, requests time out whose answers are there to be read.",
        by=(
            "tests/connection/test_time_limits.py::test_answers_that_arrived_during_a_stall_come_before_the_timeout",
        ),
    ),
    Mutant(
        name="records-expire-before-their-answers-are-read",
        kind="time",
        file="_net/timekeeper.py",
        line="                await self._let_answers_arrive()",
        instead="                pass",
        bug="After a loop that was held up, records expire whose acknowledgement is there to be read.",
        by=("tests/net/test_stalls.py::test_waiting_for_memory",),
    ),
    Mutant(
        name="no-backoff-between-retries",
        kind="time",
        file="_state/settlement.py",
        line="batch.retry_at = now + (backoff or self.backoff).after(batch.attempts - 1, self.rng)",
        instead="batch.retry_at = now",
        bug="A batch that is refused is sent again at once, for as long as its delivery time lasts.",
        by=("tests/state/test_settlement.py",),
    ),
    Mutant(
        name="no-backoff-between-connects",
        kind="time",
        file="_net/addresses.py",
        line="            if pause > 0:",
        instead="            if pause > 1e9:",
        bug="A broker that is down is called as fast as it refuses.",
        by=("tests/net/test_brokers_down.py::test_calls_to_a_dead_broker_are_bounded",),
    ),
    Mutant(
        name="backoff-between-connects-does-not-grow",
        kind="time",
        file="_net/addresses.py",
        line="        address.failures += 1",
        instead="        pass",
        bug="A broker that is down for an hour is called twenty times a second for an hour.",
        by=("tests/net/test_brokers_down.py::test_calls_to_a_dead_broker_are_bounded",),
    ),
    Mutant(
        name="half-an-answer-ends-the-backoff",
        kind="time",
        file="_net/addresses.py",
        line="if connection.answers > answers_at_opening and not",
        instead="if connection.reads > answers_at_opening and not",
        bug="A peer that cuts every answer in its middle is called without backoff.",
        by=(
            "tests/proxy/test_cuts.py::test_a06_a09_reconnects_follow_the_backoff_when_many_partitions_wait",
        ),
    ),
    Mutant(
        name="throttling-ignored",
        kind="time",
        file="_net/connection.py",
        line="self.muted_until = max(self.muted_until, self._loop.time() + seconds)",
        instead="self.muted_until = max(self.muted_until, self._loop.time() - seconds)",
        bug="The pause that a broker asks for (KIP-219) is not kept.",
        by=("tests/net/test_answers.py::test_throttled_broker_is_left_alone",),
    ),
    Mutant(
        name="throttling-seen-too-late",
        kind="time",
        file="_net/sender.py",
        line="if link.connection.closed or self._pause(link) > 0 or not self._send(link):",
        instead="if link.connection.closed or not self._send(link):",
        bug="A request that waited for a permit leaves although the answer that gave it asked for a pause.",
        by=("tests/net/test_throttled_permits.py",),
    ),
    Mutant(
        name="written-while-the-socket-is-full",
        kind="time",
        file="_net/sender.py",
        line="            await link.connection.drained()\n",
        instead="            pass\n",
        bug="Requests pile up in the transport of a peer that does not read.",
        by=("tests/net/test_time_limits.py::test_peer_that_stops_reading",),
    ),
    # -- metadata
    Mutant(
        name="leader-epoch-goes-back",
        kind="metadata",
        file="_state/topic_reading.py",
        line="if 0 <= epoch < self._epochs[index]:",
        instead="if False:",
        bug="A broker that lags behind brings the old leader back (KIP-320).",
        by=("tests/state/test_metadata.py",),
    ),
    Mutant(
        name="older-hint-is-believed",
        kind="metadata",
        file="_state/metadata.py",
        line="        if leader_epoch <= before.leader_epoch:",
        instead="        if leader_epoch < -1:",
        bug="A leader hint (KIP-951) that waited for an answer wins over it, though it is older.",
        by=("tests/state/test_late_hints.py",),
    ),
    Mutant(
        name="older-hint-changes-an-address",
        kind="metadata",
        file="_state/metadata.py",
        line="        if leader_epoch <= known.partitions.leader_epochs[partition]:",
        instead="        if leader_epoch < -1:",
        bug="A leader hint of an older epoch replaces the address of a broker.",
        by=("tests/state/test_metadata.py",),
    ),
    Mutant(
        name="hint-lost-under-a-question",
        kind="metadata",
        file="_state/metadata.py",
        line="            self._hints.append((topic, partition, leader_id, leader_epoch))",
        instead="            pass",
        bug="An answer that was under way undoes a newer leader hint.",
        by=("tests/state/test_metadata.py",),
    ),
    Mutant(
        name="deleted-topic-comes-back",
        kind="metadata",
        file="_state/metadata.py",
        line="elif interest.rejects(answer.topic_id, now):",
        instead="elif False:",
        bug="A broker that lags behind brings a deleted topic's id back.",
        by=("tests/state/test_metadata.py",),
    ),
    Mutant(
        name="leader-that-nobody-knows",
        kind="metadata",
        file="_state/topic_reading.py",
        line="if leader >= 0 and leader not in self._brokers:",
        instead="if False:",
        bug=(
            "A leader that is not among the brokers is taken over, and its records wait for an address "
            "that never comes."
        ),
        by=("tests/state/test_metadata.py",),
    ),
    Mutant(
        name="partition-listed-twice",
        kind="metadata",
        file="_state/topic_reading.py",
        line="        elif self._listed[index]:",
        instead="        elif False:",
        bug="A partition that is listed twice in one answer has the leader that came last.",
        by=("tests/state/test_metadata.py",),
    ),
    Mutant(
        name="broker-looked-for-where-it-was",
        kind="metadata",
        file="_net/sender.py",
        line="self.link.moved = (node.host, node.port) != self.link.address",
        instead="pass",
        bug=(
            "A broker has moved to another address, and its records go to whoever is at the old one now "
            "(D12)."
        ),
        by=("tests/scenarios/test_d_cluster.py::test_d12_two_brokers_swap_their_addresses",),
    ),
    # -- wire
    Mutant(
        name="buffer-reused-while-in-flight",
        kind="wire",
        file="_core/records.pyx",
        line="        if octets.exports:\n",
        instead="        if octets.exports < 0:\n",
        bug=(
            "The bytes of a batch are stamped anew while a transport still refers to them "
            "(CVE-2026-35554, KAFKA-19012)."
        ),
        by=("tests/core/test_records.py::test_stamping_again_moves_away_from_lent_bytes",),
    ),
    Mutant(
        name="buffer-moves-while-in-flight",
        kind="wire",
        file="_core/records_octets.pxi",
        line="        if self.exports:\n",
        instead="        if self.exports < 0:\n",
        bug="The memory of a batch is moved while somebody refers to it.",
        by=("tests/core/test_records.py::test_lent_bytes_do_not_grow",),
    ),
    Mutant(
        name="checksum-before-the-sequence",
        kind="wire",
        file="_core/records.pyx",
        line=(
            "        put_int(data + 53, base_sequence, 4)\n        put_int(data + 57, self.record_count, "
            "4)\n        put_int(data + 17, <unsigned int>checksum(self.view()[CRC_START:]), 4)\n"
        ),
        instead=(
            "        put_int(data + 17, <unsigned int>checksum(self.view()[CRC_START:]), 4)\n        "
            "put_int(data + 53, base_sequence, 4)\n        put_int(data + 57, self.record_count, 4)\n"
        ),
        bug="The checksum is computed before the sequence number is written.",
        by=("tests/core/test_records.py",),
    ),
    Mutant(
        name="split-loses-headers",
        kind="wire",
        file="_state/rewriting.py",
        line="child.append(key, value, headers, timestamp,",
        instead="child.append(key, value, None, timestamp,",
        bug="Records whose batch is split lose their headers.",
        by=("tests/state/test_rewriting.py",),
    ),
    Mutant(
        name="split-loses-timestamps",
        kind="wire",
        file="_state/rewriting.py",
        line="child.append(key, value, headers, timestamp,",
        instead="child.append(key, value, headers, batch.max_timestamp,",
        bug=(
            "Records whose batch is split all get the time of its last (aiokafka rebinds a timestamp in "
            "a loop)."
        ),
        by=("tests/state/test_rewriting.py",),
    ),
    Mutant(
        name="split-turns-headers-round",
        kind="wire",
        file="_core/records_encoding.pxi",
        line="        pairs.append((name, take_bytes(data, at)))",
        instead="        pairs.insert(0, (name, take_bytes(data, at)))",
        bug="Records whose batch is split have their headers in another order.",
        by=("tests/core/test_records.py",),
    ),
    Mutant(
        name="frame-length-unchecked",
        kind="wire",
        file="_wire/frames.py",
        line="if not _SHORTEST <= length <= self.limit:",
        instead="if length < _SHORTEST:",
        bug="The length that a peer announces is allocated as it is (CVE-2026-111108 and its kind).",
        by=("tests/connection/test_frames.py::test_bad_length_is_told_the_same_wherever_the_stream_is_cut",),
    ),
    Mutant(
        name="correlation-id-unchecked",
        kind="wire",
        file="_net/connection.py",
        line="        if not self._is_next(correlation_id):",
        instead="        if not self._waiting:",
        bug="Each answer is taken for that of the oldest request, whatever its id says.",
        by=("tests/connection/test_pairing.py::test_wrong_correlation_id_ends_the_connection",),
    ),
    Mutant(
        name="half-close-ignored",
        kind="wire",
        file="_net/connection.py",
        line="        self._end(self._unavailable(self._how_it_left()))\n        return False",
        instead="        return True",
        bug="A peer that closes its side is waited for until the request times out.",
        by=("tests/connection/test_dialing.py::test_broker_that_hangs_up_is_told_apart",),
    ),
    Mutant(
        name="sent-before-it-is-compressed",
        kind="wire",
        file="_state/accumulator.py",
        line="        if batch.sealing or (",
        instead="        if (",
        bug="A batch leaves while a thread compresses it.",
        by=("tests/net/test_compressing.py::test_small_and_large_batches_keep_their_order",),
    ),
    Mutant(
        name="key-hash-with-its-sign",
        kind="wire",
        file="_core/accept.pyx",
        line="(murmur2_of(key.data, key.size) & 0x7fffffff) % <unsigned int>count",
        instead="murmur2_of(key.data, key.size) % <unsigned int>count",
        bug="Keys with a negative murmur2 go to other partitions than with the Java client.",
        by=("tests/golden/test_keyed_sends.py",),
    ),
    Mutant(
        name="empty-key-taken-for-none",
        kind="wire",
        file="_core/accept.pyx",
        line="if key.size >= 0 and not topic.ignore_keys:",
        instead="if key.size > 0 and not topic.ignore_keys:",
        bug="An empty key is taken for none (librdkafka's consistent_random does so).",
        by=("tests/golden/test_keyed_sends.py",),
    ),
    # -- gapless
    Mutant(
        name="loss-opens-no-gap",
        kind="gapless",
        file="_state/settlement.py",
        line="        if self.gapless:\n            self._open_gap(batch, error, now, number)",
        instead="        if False:\n            self._open_gap(batch, error, now, number)",
        bug="What was sent behind a lost record is written past it.",
        by=("tests/state/test_gapless.py",),
    ),
    Mutant(
        name="late-comer-is-written-past-the-gap",
        kind="gapless",
        file="_state/admission.py",
        line="if call.asked_at < queue.lost_at:",
        instead="if False:",
        bug="A call that was made before a loss and found its place after it is written past the gap.",
        by=("tests/state/test_gapless.py",),
    ),
    Mutant(
        name="dirty-batch-behind-a-gap-says-not-written",
        kind="gapless",
        file="_state/settlement.py",
        line=(
            "        if not batch.in_flight and not batch.dirty:\n            self._conclude(batch, "
            "gap.error(batch, now), now)"
        ),
        instead="        if not batch.in_flight:\n            self._conclude(batch, gap.error(batch, now), now)",
        bug="A batch behind a gap that may be in the log is told as not written.",
        by=("tests/state/test_gapless.py",),
    ),
    Mutant(
        name="gap-is-closed-unseen",
        kind="gapless",
        file="_state/gapless.py",
        line="return not (self.seen or any(batch.noticed for batch in self.batches))",
        instead="return not self.seen and not self.batches",
        bug="The gap is taken for seen as soon as it has a victim, and records are written past it.",
        by=("tests/state/test_gapless.py",),
    ),
    # -- runtime
    Mutant(
        name="forked-child-may-send",
        kind="runtime",
        file="producer.py",
        line="os.register_at_fork(after_in_child=_core.forked) if hasattr",
        instead="os.register_at_fork(after_in_child=bool) if hasattr",
        bug="A forked child sends over its parent's connections.",
        by=("tests/runtime/test_forks.py::test_f09_every_use_in_a_forked_child",),
    ),
    Mutant(
        name="other-thread-may-send",
        kind="runtime",
        file="_core/accept.pyx",
        line="return (self._accepting and PyThread_get_thread_ident() == self._thread",
        instead="return (self._accepting",
        bug="A send from another thread changes queues while the loop does.",
        by=("tests/core/test_who_may_send.py",),
    ),
    Mutant(
        name="other-loop-may-send",
        kind="runtime",
        file="_core/accept.pyx",
        line="            if not self._in_its_loop():",
        instead="            if False:",
        bug="A send from another loop of the thread is accepted, and wakes the wrong loop.",
        by=("tests/core/test_who_may_send.py",),
    ),
    Mutant(
        name="sends-starve-the-loop",
        kind="runtime",
        file="_core/accept.pyx",
        line="return now - self._turn >= TURN and self._must_yield(now)",
        instead="return False",
        bug="A loop of accepted sends never lets another task run.",
        by=("tests/api/test_fairness.py::test_a_loop_of_sends_lets_others_run",),
    ),
    Mutant(
        name="ten-thousand-are-woken-at-once",
        kind="runtime",
        file="_core/records_waiting.pxi",
        line="    AT_ONCE = 256",
        instead="    AT_ONCE = 1000000",
        bug="All who wait for one batch are woken in one turn, and nobody else has one meanwhile.",
        by=("tests/core/test_delivery.py::test_many_are_woken_in_slices_and_in_order",),
    ),
    Mutant(
        name="timer-left-after-close",
        kind="runtime",
        file="_net/engine.py",
        line="        self.wakeup.silence()",
        instead="        pass",
        bug="A closed producer leaves a timer in the loop.",
        by=("tests/net/test_no_timers.py",),
    ),
    Mutant(
        name="connections-left-after-close",
        kind="runtime",
        file="_net/engine.py",
        line="            sender.close()",
        instead="            pass",
        bug="A closed producer leaves its sockets open.",
        by=("tests/net/test_closing.py::test_many_producers_leave_nothing",),
    ),
    Mutant(
        name="alarm-of-a-closed-connection-left",
        kind="runtime",
        file="_net/connection.py",
        line="        self._alarm.stop()",
        instead="        pass",
        bug="A connection that has ended leaves its timer in the loop.",
        by=("tests/net/test_no_timers.py",),
    ),
    *TRANSACTIONAL,
    *ANSWERS,
    *EXACTLY_ONCE,
    *BUSY,
    *ENDS,
    *TOLD,
    *QUIET,
    *DAYS,
    *CALLERS,
    *FLUSHING,
    *MEMORY,
)
