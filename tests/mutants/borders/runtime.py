"""The mutants of the program around a producer: forks, threads, loops, and leftovers of a closed producer."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Kind

_NO_TIMERS: Final = "tests/net/runtime/test_no_timers.py"
_WHO_MAY_SEND: Final = "tests/core/test_who_may_send.py"

_mutant = Kind("runtime")

RUNTIME: Final = (
    _mutant(
        "tasks-without-their-library",
        "_net/tasks.py",
        "    if sniffio is not None:",
        "    if False:",
        "Where sniffio is installed, a sender that is started in a callback of the loop ends the producer.",
        "tests/net/cluster/test_leaders.py",
    ),
    _mutant(
        "imports-in-the-event-loop",
        "_calls/lifecycle.py",
        "        await load(*engine_modules(self.config))\n",
        "",
        "The first start() of a process imports the engine in the event loop.",
        "tests/repo/test_imports.py::test_the_event_loop_goes_on_while_start_imports",
    ),
    _mutant(
        "forked-child-may-send",
        "_calls/lifecycle.py",
        "os.register_at_fork(after_in_child=_core.forked) if hasattr",
        "os.register_at_fork(after_in_child=bool) if hasattr",
        "A forked child sends over its parent's connections.",
        "tests/runtime/processes/test_forks.py::test_f09_every_use_in_a_forked_child",
    ),
    _mutant(
        "forked-child-is-ready",
        "producer.py",
        "unusable = None if self._same_process() else FORKED",
        "unusable = None",
        "The probe of a forked worker says that the producer of its parent is ready, while each send is refused.",
        "tests/api/lifecycle/test_misuse.py::test_health_after_fork",
    ),
    _mutant(
        "ready-without-a-loop",
        "producer.py",
        "        if engine.loop.is_closed():\n            unusable",
        "        if False:\n            unusable",
        "The thread with the event loop has died, and the probe of another thread says that the producer is ready.",
        "tests/api/lifecycle/test_loops.py::test_health_after_the_loop",
    ),
    _mutant(
        "forked-child-waits-for-a-scrape",
        "_metrics/locks.py",
        "            self._lock = threading.RLock()\n\n\n_locks",
        "            pass\n\n\n_locks",
        "A worker that was forked during a scrape waits without end for the lock of that scrape.",
        "tests/api/prometheus/test_forks.py::test_a_fork_while_another_thread_reads_the_metrics",
    ),
    _mutant(
        "full-stack-is-read-again",
        "_callers/copied.py",
        "        except RecursionError:",
        "        except KeyboardInterrupt:",
        "A look at a producer where the stack has no room is repeated without end.",
        "tests/api/lifecycle/test_any_thread.py::test_a_look_without_room_on_the_stack",
    ),
    _mutant(
        "other-thread-may-send",
        "_core/accept.pyx",
        "return (self._accepting and PyThread_get_thread_ident() == self._thread",
        "return (self._accepting",
        "A send from another thread changes queues while the loop changes them.",
        _WHO_MAY_SEND,
    ),
    _mutant(
        "other-loop-may-send",
        "_core/accept.pyx",
        "            if not self._in_its_loop():",
        "            if False:",
        "A send from another loop of the thread is accepted, and wakes the wrong loop.",
        _WHO_MAY_SEND,
    ),
    _mutant(
        "sends-starve-the-loop",
        "_core/accept.pyx",
        "return now - self._turn >= YIELD_INTERVAL and self._must_yield(now)",
        "return False",
        "A loop of accepted sends never lets another task run.",
        "tests/api/sending/test_fairness.py::test_a_loop_of_sends_lets_others_run",
    ),
    _mutant(
        "ten-thousand-are-woken-at-once",
        "_core/records_waiting.pxi",
        "    AT_ONCE = 256",
        "    AT_ONCE = 1000000",
        "All waiters of one batch wake in one turn of the loop, which holds up every other task.",
        "tests/core/test_delivery.py::test_many_are_woken_in_slices_and_in_order",
    ),
    _mutant(
        "timer-left-after-close",
        "_net/runtime/engine.py",
        "        self.wakeup.silence()",
        "        pass",
        "A closed producer leaves a timer in the loop.",
        _NO_TIMERS,
    ),
    _mutant(
        "connections-left-after-close",
        "_net/connecting/addresses.py",
        "        for connection in list(self._open):\n            connection.close()\n",
        "",
        "A closed producer leaves its sockets open.",
        "tests/net/runtime/test_closing.py::test_many_producers_leave_nothing",
    ),
    _mutant(
        "trouble-that-no-attempt-confirms",
        "_net/connecting/addresses.py",
        "        return trouble if self._loop.time() < seen + TROUBLE_IS_PRESENT else None",
        "        return trouble",
        "A program whose probe says that it is not ready gets no requests, sends nothing, and stays as it is for good.",
        "tests/simulation/observing/test_reach.py",
    ),
    _mutant(
        "connection-opened-behind-a-close",
        "_net/connecting/addresses.py",
        "        self._require_open()\n        with anyio",
        "        with anyio",
        "A call for other producers' transactions opens a connection of a closed producer, and goes on to its time limit.",
        "tests/simulation/transactions/test_calls_beside_a_close.py",
    ),
    _mutant(
        "task-in-a-cancelled-group",
        "_net/transactions/operations.py",
        "host.tasks is None or host.tasks.are_cancelled",
        "host.tasks is None",
        "A call behind an operation that broke starts a task that is never cancelled: it keeps a core busy for ever.",
        "tests/simulation/transactions/test_operations_that_break.py",
    ),
    _mutant(
        "alarm-of-a-closed-connection-left",
        "_net/connecting/connection/connection.py",
        "        self._alarm.stop()",
        "        pass",
        "A connection that has ended leaves its timer in the loop.",
        _NO_TIMERS,
    ),
    _mutant(
        "interceptors-closed-before-their-reports",
        "_net/accepting/intake.py",
        "            self.reports.make()\n",
        "",
        "An interceptor that writes to a file misses the records that close() has given up.",
        "tests/api/settings/test_interceptors_at_once.py::test_an_interceptor_is_closed_behind_its_last_report",
    ),
    _mutant(
        "no-import-without-a-thread",
        "_callers/loading.py",
        "    except RuntimeError:\n",
        "    except MemoryError:\n",
        "A function that atexit calls cannot start the first producer of its process.",
        "tests/runtime/processes/test_end_of_the_program.py::test_a_producer_that_starts_at_the_end_of_the_program",
    ),
    _mutant(
        "reports-lost-with-an-interrupt",
        "_net/accepting/reports.py",
        "            if self._settled:\n",
        "            if not self._settled:\n",
        "An interceptor that ends the program in a report takes the reports of other records with it.",
        "tests/api/settings/test_interceptors_at_once.py",
    ),
)
