"""The mutants of buffer_memory: memory that is not counted, not freed, or taken by one topic or broker from all."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Kind

_ACCUMULATOR: Final = "tests/state/batching/test_accumulator.py"
_ADMISSION: Final = "tests/state/admission/test_admission.py"
_SETTLEMENT: Final = "tests/state/delivery/test_settlement.py"
_TOPIC_LIMITS: Final = "tests/state/admission/test_topic_limits.py"

_mutant = Kind("memory")

ROOM: Final = (
    _mutant(
        "memory-not-given-back",
        "_core/ordinary_opening.pxi",
        ".take(-charged)",
        ".take(-(charged // 2))",
        "Memory leaks with each batch until no send is accepted any more.",
        _SETTLEMENT,
    ),
    _mutant(
        "parts-of-a-split-are-not-charged",
        "_state/batching/accumulator.py",
        "replacement.charged = min(replacement.size, charged)",
        "replacement.charged = 0",
        "The memory of a split batch is freed while its parts still hold it.",
        "tests/state/admission/test_split_memory.py",
    ),
    _mutant(
        "moved-batch-is-charged-to-no-broker",
        "_state/batching/cluster_queues.py",
        "        share.charge(batch.charged)",
        "        pass",
        "A partition moves to another broker, and its memory is no longer counted.",
        _ACCUMULATOR,
    ),
    _mutant(
        "waiters-not-woken-by-free-memory",
        "_core/ordinary_settling.pxi",
        "        self.effects.has_room = True\n",
        "",
        "Memory is freed and the waiting call does not wake.",
        _SETTLEMENT,
    ),
    _mutant(
        "sent-batch-counted-in-flight-for-ever",
        "_core/ordinary_settling.pxi",
        "queue.in_flight -= 1",
        "queue.in_flight -= not batch.has_ended()",
        "A batch expires in flight; after its answer its partition counts as having one in flight, and is never mended.",
        "tests/exhaustive/test_models.py",
    ),
    _mutant(
        "wake-up-lost-on-cancel",
        "_state/admission/lines.py",
        "if share is not None or held:",
        "if held:",
        "The first of the line is cancelled when there is room for the second, which does not wake (as in asyncio.Semaphore once).",
        _ADMISSION,
    ),
    _mutant(
        "cancelled-waiter-keeps-its-memory",
        "_state/admission/waiting.py",
        "        self.waiting -= 1\n        self.let_go(call)",
        "        self.waiting -= 1",
        "A queued record that is withdrawn keeps its memory.",
        _ADMISSION,
    ),
    _mutant(
        "ended-call-blocks-its-line",
        "_state/admission/waiting.py",
        "while self.calls and self.calls[0].ended:",
        "while self.calls and False:",
        "A cancelled call stays the first of its line and is appended, or holds up all behind it.",
        _ADMISSION,
    ),
    _mutant(
        "topic-limit-not-charged",
        "_state/batching/cluster_queues.py",
        "if topic not in self.topic_budgets:",
        "if True:",
        "topic_buffer_limits is read and never charged.",
        _TOPIC_LIMITS,
    ),
    _mutant(
        "topic-limit-not-counted-in-the-whole",
        "_core/accept_places.pxi",
        "            self._whole.add(size, self._stuck)",
        "            pass",
        "Records of a topic with a limit of its own do not count in buffer_memory.",
        _TOPIC_LIMITS,
    ),
    _mutant(
        "a-large-record-never-has-room-at-a-dead-broker",
        "_core/accept_places.pxi",
        " and self.used > 0)\n",
        ")\n",
        "A record that is larger than half of the memory is refused without end, long after its broker is well again.",
        f"{_ACCUMULATOR}::test_a_large_record_has_room_at_a_dead_broker_where_nothing_is_buffered",
    ),
    _mutant(
        "dead-broker-may-take-all-memory",
        "_state/batching/cluster_queues.py",
        "budget.stuck_limit = budget.capacity if all_slow else budget.capacity // 2",
        "budget.stuck_limit = budget.capacity",
        "Records for one broker that is down fill the memory, and all topics stand still.",
        _ACCUMULATOR,
    ),
    _mutant(
        "a-frozen-broker-takes-all-memory",
        "_state/batching/cluster_queues.py",
        "budget.kept = budget.capacity // 8 if brokers > 1 else 0",
        "budget.kept = 0",
        "A broker that froze a moment ago takes all of the memory before its silence is noticed, and the others starve until its records expire.",
        _ADMISSION,
    ),
    _mutant(
        "later-batches-linger-before-waiters",
        "_state/admission/memory_lines.py",
        "                self._free_memory_for(share, ANY_TIME)\n                return\n",
        "                return\n",
        "A call waits for memory while batches that were opened after it linger on their way to other brokers.",
        "tests/state/admission/test_hurried_waiting.py",
    ),
    _mutant(
        "calls-expire-before-memory-that-came-back-is-theirs",
        "_state/machines.py",
        "        self.serve_room()\n        self.call_expiry.expire(now)\n",
        "        self.call_expiry.expire(now)\n",
        "A call is refused for lack of memory at the moment in which the records that hold it end.",
        _ADMISSION,
    ),
    _mutant(
        "waiters-do-not-hurry-half-full-batches",
        "_state/admission/memory_lines.py",
        "if share.waiting == 1:",
        "if False:",
        "Calls wait for memory that half-full batches hold for the length of their linger.",
        "tests/state/admission/test_hurried_waiting.py",
    ),
    _mutant(
        "too-large-a-request",
        "_core/ordinary_draining.pxi",
        "if taken and size > self.max_request_size:",
        "if taken and size < 0:",
        "One request takes all ready batches, however large it becomes, and the broker closes the connection.",
        _ACCUMULATOR,
    ),
    _mutant(
        "too-large-a-batch-never-leaves",
        "_core/ordinary_draining.pxi",
        "if taken and size > self.max_request_size:",
        "if size > self.max_request_size:",
        "A batch above max_request_size is not sent even alone, and blocks its broker without end.",
        _ACCUMULATOR,
    ),
    _mutant(
        "errors-chain-without-end",
        "_net/runtime/engine.py",
        "        reach.last_error, reach.present_error = root_of(self.last_error), root_of(self.present_trouble)",
        "        reach.last_error = reach.present_error = self.last_error",
        "Each expired record has the error of the one before as its cause: an unbounded chain of errors.",
        "tests/net/accepting/test_missing_topics.py::test_the_errors_of_an_unreachable_cluster_do_not_refer_to_each_other",
    ),
    _mutant(
        "room-of-a-limited-topic-is-not-noticed",
        "_core/ordinary_draining.pxi",
        "used = self._budget.used\n",
        "used = 0\n",
        "A withdrawn record frees memory when its batch leaves, and no waiting call is served before the answer.",
        "tests/state/admission/test_topic_limits.py",
    ),
)
