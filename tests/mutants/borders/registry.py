"""The mutants of the registry: requests that are not shared, not repeated, or that tell secrets."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Kind

_FLIGHTS: Final = "tests/registry/test_single_flight.py"
_REQUESTS: Final = "tests/registry/test_requests.py"
_SECRETS: Final = "tests/registry/test_secrets.py"
_PRODUCERS: Final = "tests/registry/test_producers.py"

_mutant = Kind("registry")

REGISTRY: Final = (
    _mutant(
        "request-in-the-context-of-a-call",
        "registry/asking/single_flight.py",
        "        task = Context().run(loop.create_task, self._outcome(work), name=NAME)\n",
        "        task = loop.create_task(self._outcome(work), name=NAME)\n",
        "The spans of a request belong to one of many records, and what its context refers to stays in memory.",
        f"{_FLIGHTS}::test_a_request_keeps_no_context_of_a_call",
    ),
    _mutant(
        "time-of-the-first-caller-for-all",
        "registry/asking/single_flight.py",
        "            self.until = until\n",
        "            pass\n",
        "A call that joins a request in its last second fails after one second.",
        f"{_FLIGHTS}::test_attempts_go_on_for_a_caller_that_joins_late",
    ),
    _mutant(
        "dead-server-is-asked-again",
        "registry/asking/conversation.py",
        "                self._at = _next(at, rested, now + pause)\n",
        "                self._at = at\n",
        "The second server of a registry is of no use.",
        f"{_REQUESTS}::test_some_answers_are_repeated",
    ),
    _mutant(
        "refusals-are-shown-with-secrets",
        "registry/asking/answers.py",
        "refused the request: {hide(message)}",
        "refused the request: {message}",
        "A registry that repeats the token in its refusal puts it into the log of the program.",
        f"{_SECRETS}::test_no_text_has_credentials",
    ),
    _mutant(
        "password-of-a-url-in-a-frame",
        "registry/formats/avro.py",
        "        del registry\n",
        "",
        "A schema with a typing error: the report of the error shows the password of the registry.",
        f"{_SECRETS}::test_no_error_of_a_serializer_keeps_the_password_of_its_url",
    ),
    _mutant(
        "new-version-without-a-preparation",
        "registry/serializing.py",
        "            if self._registry.serving(self._subject) != self._latest:\n",
        "            if self._registry.serving(self._subject) is None:\n",
        "A program encodes with the version that was the latest at its start for as long as it runs.",
        f"{_PRODUCERS}::test_a_new_version_is_noticed",
    ),
    _mutant(
        "server-that-rests-holds-up-another",
        "registry/asking/conversation.py",
        "    return next((other for other in others if rested[other] <= soon), min(others, key=rested.__getitem__))\n",
        "    return others[0]\n",
        "One server asks for a minute of rest, and the other one fails once: no call succeeds for that minute.",
        f"{_REQUESTS}::test_a_server_that_rests_holds_up_no_other",
    ),
    _mutant(
        "reference-without-an-end",
        "registry/serializing.py",
        "        seen.add(reference.name)\n        if len(seen)",
        "        if len(seen)",
        "A schema that refers to itself: a program asks the registry without end.",
        f"{_REQUESTS}::test_each_reference_is_asked_for_once",
    ),
    _mutant(
        "attempt-that-has-ended-is-prolonged",
        "registry/asking/single_flight.py",
        "            if self.limit is not None and not self.limit.expired():\n",
        "            if self.limit is not None:\n",
        "A registry is silent: a call that joins in the wrong turn raises a RuntimeError, and its record becomes a dead letter.",
        f"{_FLIGHTS}::test_a_caller_that_joins_in_the_turn_of_the_last_attempt",
    ),
    _mutant(
        "iterator-that-was-read-already",
        "registry/formats/to_dict.py",
        "            return _refused if self._again else self._of_list\n",
        "            return self._of_list\n",
        "A record with a generator beside an object of a class is written without the items of the generator.",
        "tests/registry/test_avro.py::test_an_iterator_is_never_read_twice",
    ),
    _mutant(
        "registry-of-a-failed-start",
        "_calls/lifecycle.py",
        "            self._intake.serializing.close_made()\n",
        "            pass\n",
        "A program that begins before its Kafka repeats the start: the connections to the registry are never closed.",
        f"{_PRODUCERS}::test_a_start_that_failed_leaves_no_registry_open",
    ),
)
