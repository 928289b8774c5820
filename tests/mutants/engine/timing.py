"""The mutants of time: limits that are exceeded, pauses that are too short, clocks that are confused."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Kind

_BROKERS_DOWN: Final = "tests/net/cluster/test_brokers_down.py"
_SETTLEMENT: Final = "tests/state/delivery/test_settlement.py"
_TIME_LIMITS: Final = "tests/connection/test_time_limits.py"

_mutant = Kind("time")

TIMING: Final = (
    _mutant(
        "wall-clock-for-a-deadline",
        "_net/accepting/intake.py",
        "min(max_block, timeout), now + timeout\n",
        'min(max_block, timeout), __import__("time").time() + timeout\n',
        "The deadline of a record is set by the wall clock and judged by the monotonic one (confluent's _buffer_timeout_manager uses the wall clock for durations).",
        "tests/api/deliveries/test_failures.py::test_timeout_of_one_record",
    ),
    _mutant(
        "pause-where-a-leader-replaces-its-question",
        "_state/delivery/settlement.py",
        "            if repetitions < soon:\n",
        "            if False:\n",
        "A leader refuses a request as it asks the coordinator about the next one, and the transaction waits for a tenth of a second (Kafka's AddPartitionsToTxnManager; so does Java).",
        "tests/state/identity/test_transactional_sequences.py",
    ),
    _mutant(
        "missing-replicas-are-asked-for-without-a-pause",
        "_state/delivery/settlement.py",
        "code == ErrorCode.NOT_ENOUGH_REPLICAS and self.sequences.transactional:",
        "code == ErrorCode.NOT_ENOUGH_REPLICAS:",
        "A producer without transactions repeats a refused batch within milliseconds.",
        "tests/state/identity/test_transactional_sequences.py",
    ),
    _mutant(
        "group-that-loads-is-asked-without-a-pause",
        "_net/transactions/coordinator.py",
        "if answer is Answer.REPLACED and earlier[answer] < SOON:",
        "if answer is Answer.REPLACED:",
        "A coordinator that loads its groups gets ten requests in its first second, as if its question had only been replaced.",
        "tests/simulation/transactions/test_replaced_questions.py",
    ),
    _mutant(
        "delivery-time-begins-again-with-each-retry",
        "_state/delivery/expiry.py",
        "indexes = batch.overdue(now)",
        "indexes = batch.overdue(now - max(0.0, batch.retry_at - batch.opened_at))",
        "Each retry gives a record its whole delivery time again.",
        _SETTLEMENT,
    ),
    _mutant(
        "request-never-times-out",
        "_net/connecting/connection/connection.py",
        "            self._alarm.expect(now + timeout)\n",
        "            pass\n",
        "The wait for a broker that takes requests and does not answer has no end.",
        f"{_TIME_LIMITS}::test_request_without_an_answer_ends_the_connection",
    ),
    _mutant(
        "request-time-begins-again-with-each-byte",
        "_net/connecting/connection/connection.py",
        "        self.reads += 1\n",
        "        self.reads += 1; self._pairing.waiting = type(self._pairing.waiting)(a._replace(deadline=self.loop.time() + a.timeout) for a in self._pairing.waiting)\n",
        "A broker that sends one byte now and then is never overdue.",
        f"{_TIME_LIMITS}::test_trickled_bytes_do_not_buy_time",
    ),
    _mutant(
        "connection-kept-after-a-timeout",
        "_net/connecting/connection/connection.py",
        "        self._end(reason, Ending.GIVEN_UP, overdue_at=now)",
        "        self._pairing.waiting.popleft().handler.failed(self._timed_out(0.0), written=True)",
        "A request times out, its connection stays in use, and its late answer is paired with another request.",
        f"{_TIME_LIMITS}::test_request_without_an_answer_ends_the_connection",
    ),
    _mutant(
        "answers-that-have-arrived-come-too-late",
        "_net/timers/alarm.py",
        "            self._let_arrive(_CATCH_UP_TURNS)\n",
        "            self._watched.overdue(self._loop.time())\n",
        "After the loop was held up, requests time out whose answers are ready to be read.",
        f"{_TIME_LIMITS}::test_answers_that_arrived_during_a_stall_come_before_the_timeout",
    ),
    _mutant(
        "alarm-counts-as-set-without-a-timer",
        "_net/timers/alarm.py",
        "        # First: without memory for it, the former timer stays, or the next request sets one.\n",
        "        self._at = when\n",
        "Without memory for one timer, no later request of the connection becomes overdue.",
        "tests/net/timers/test_alarm.py",
    ),
    _mutant(
        "records-expire-before-their-answers-are-read",
        "_net/runtime/timekeeper.py",
        "                await self._let_answers_arrive()",
        "                pass",
        "After the loop was held up, records expire whose acknowledgement is ready to be read.",
        "tests/scenarios/test_f_runtime.py::test_f01_room_came_back_while_the_loop_was_blocked",
    ),
    _mutant(
        "no-backoff-between-retries",
        "_state/delivery/settlement.py",
        "batch.retry_at = now + self._wait_after(batch.attempts - 1, code)",
        "batch.retry_at = now",
        "A refused batch is sent again at once, for as long as its delivery time lasts.",
        _SETTLEMENT,
    ),
    _mutant(
        "no-backoff-between-connects",
        "_net/connecting/addresses.py",
        "        if pause > 0:\n            await anyio.sleep(pause)",
        "        if pause > 1e9:\n            await anyio.sleep(pause)",
        "Connecting to a broker that is down is repeated as fast as it is refused.",
        f"{_BROKERS_DOWN}::test_calls_to_a_dead_broker_are_bounded",
    ),
    _mutant(
        "backoff-between-connects-does-not-grow",
        "_net/connecting/addresses.py",
        "        address.failures += 1",
        "        pass",
        "Connecting to a broker that is down for an hour is repeated twenty times a second for an hour.",
        f"{_BROKERS_DOWN}::test_calls_to_a_dead_broker_are_bounded",
    ),
    _mutant(
        "half-an-answer-ends-the-backoff",
        "_net/connecting/addresses.py",
        "was_useful = connection.answers > connection.answers_at_opening or",
        "was_useful = connection.reads > connection.answers_at_opening or",
        "Connecting to a peer that cuts every answer in its middle is repeated without backoff.",
        "tests/proxy/test_cuts.py::test_a06_a09_reconnects_follow_the_backoff_when_many_partitions_wait",
    ),
    _mutant(
        "two-pauses-for-one",
        "_net/producing/exchange.py",
        "        if self._version >= _PAUSE_FOLLOWS:",
        "        if True:",
        "A producer pauses as long again as a broker before Kafka 2.0 has paused, and has half of its quota.",
        "tests/net/producing/test_answers.py::test_a_pause_before_the_answer_is_over",
    ),
    _mutant(
        "throttling-ignored",
        "_net/connecting/connection/connection.py",
        "self.muted_until = max(self.muted_until, now + seconds)",
        "self.muted_until = max(self.muted_until, now - seconds)",
        "The throttle time of a broker (KIP-219) is ignored.",
        "tests/net/producing/test_answers.py::test_throttled_broker_is_left_alone",
    ),
    _mutant(
        "throttling-seen-too-late",
        "_net/producing/sender.py",
        "return not (connection.closed or (connection.muted_until > 0 and self._pause(link) > 0))",
        "return not connection.closed",
        "A request that waited for a permit leaves although the answer that freed the permit asked for a pause.",
        "tests/net/producing/test_throttled_permits.py",
    ),
    _mutant(
        "written-while-the-socket-is-full",
        "_net/producing/sender.py",
        "            await link.connection.gate.drained()\n        except",
        "            pass\n        except",
        "Requests accumulate in the transport of a peer that does not read.",
        "tests/net/producing/test_time_limits.py::test_peer_that_stops_reading",
    ),
)
