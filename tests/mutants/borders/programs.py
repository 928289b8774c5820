"""The mutants of programs around the library: web applications, probes, and the verifiable producer."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Kind

_LIFESPAN: Final = "tests/api/lifecycle/test_lifespan.py"
_PROBES: Final = "tests/api/lifecycle/test_probes.py"
_VERIFIABLE: Final = "tests/cli/verifiable_producer/test_verifiable_producer.py"

_mutant = Kind("programs")

PROGRAMS: Final = (
    _mutant(
        "failed-start-leaves-producers",
        "asgi.py",
        "                stack.push_async_callback(producer.close)\n                started.append(producer)\n",
        "                started.append(producer)\n            for producer in started:\n"
        "                stack.push_async_callback(producer.close)\n",
        "An application whose second producer does not start leaves the first one running (hand-written lifespans).",
        f"{_LIFESPAN}::test_a_start_that_fails_half_way_closes_what_has_started",
    ),
    _mutant(
        "full-disk-loses-lines",
        "cli/verifiable_producer/events.py",
        "            self.failure = error\n",
        "            pass\n",
        "The lines of a run are lost on a full disk, and the run ends with 0: a judge takes its records for lost.",
        f"{_VERIFIABLE}::test_output_that_cannot_be_written_ends_the_run",
    ),
    _mutant(
        "failed-start-closes-a-foreign-producer",
        "asgi.py",
        '        if producer.health().state == "new":',
        "        if True:",
        "A second lifespan over a running producer closes it under the first one.",
        f"{_LIFESPAN}::test_a_running_producer_is_not_closed",
    ),
    _mutant(
        "liveness-follows-kafka",
        "asgi.py",
        "return 200 if facts[path[1:]] else 503",
        'return 200 if facts["ready"] else 503',
        "Kafka that is down makes Kubernetes restart every pod, again and again.",
        f"{_PROBES}::test_status",
    ),
    _mutant(
        "probes-unknown-below-litestar",
        "asgi.py",
        '    return below.removesuffix("/")',
        "    return below",
        "Litestar ends the path of a mounted app with a slash: each probe is answered 404, and no pod is ever ready.",
        f"{_PROBES}::test_where_it_is_mounted",
    ),
    _mutant(
        "signal-drops-a-number",
        "cli/verifiable_producer/run.py",
        "            await stop.asked_or(sending)\n",
        "            await stop.asked_or(sending)\n            sending.cancel()\n",
        "A signal cancels a call that waits: its number was sent, and has no line.",
        f"{_VERIFIABLE}::test_a_signal_while_a_call_waits",
    ),
    _mutant(
        "verifiable-lines-are-buffered",
        "cli/verifiable_producer/events.py",
        ", flush=True)",
        ")",
        "A test that waits for the first acknowledgements before it kills a broker waits without end.",
        f"{_VERIFIABLE}::test_each_line_is_there_at_once",
    ),
)
