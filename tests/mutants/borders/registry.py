"""The mutants of the registry: requests that are not shared, not repeated, or that tell secrets."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Kind

_FLIGHTS: Final = "tests/registry/test_single_flight.py"
_REQUESTS: Final = "tests/registry/test_requests.py"
_SECRETS: Final = "tests/registry/test_secrets.py"
_UNIONS: Final = "tests/registry/test_avro_unions.py"
_UNCHANGED: Final = "tests/registry/test_unchanged.py"
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
        "value-behind-a-name-not-checked",
        "registry/formats/avro_unions.py",
        "                by_name[data[0]].check(data[1])\n",
        "                pass\n",
        '("int", 3.7) in a union is written as 3.',
        f"{_UNCHANGED}::test_a_value_that_would_be_another_one",
    ),
    _mutant(
        "value-of-a-union-not-checked",
        "registry/formats/avro_unions.py",
        "        taken.check(data)\n",
        "        pass\n",
        "A number that is too large for the float of a union is written as infinity.",
        f"{_UNIONS}::test_what_no_type_holds",
    ),
    _mutant(
        "text-becomes-a-date-in-a-union",
        "registry/formats/avro_unions.py",
        "        if better is not None and by_name[better.name] is better:\n",
        "        if False:\n",
        "A text that looks like a date is written as one, and its field may have text.",
        f"{_UNIONS}::test_what_no_type_holds",
    ),
    _mutant(
        "first-record-of-a-union",
        "registry/formats/avro_unions.py",
        "                if fields > most:\n",
        "                if found is None:\n",
        "A record is checked with the types of another one, and becomes a dead letter.",
        f"{_UNIONS}::test_what_a_type_holds",
    ),
    _mutant(
        "minus-zero-of-a-fixed",
        "registry/formats/avro_rules.py",
        "        elif is_fixed and not data and data.is_signed():\n",
        "        elif False:\n",
        "An amount of -0.00 is written as -0.02.",
        f"{_UNIONS}::test_what_no_type_holds",
    ),
    _mutant(
        "first-reference-with-that-end",
        "registry/formats/json_schema.py",
        "resources[max(found, key=len)]",
        "resources[found[0]]",
        "Objects are checked against the schema of another reference, and right ones become dead letters.",
        "tests/registry/test_json.py::test_references",
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
        "none-becomes-false-in-avro",
        "registry/formats/avro_rules.py",
        "    if not bool(data) == data:\n",
        "    if False:\n",
        'A flag that is not known is written as False, and one that is the text "no" as True.',
        f"{_UNCHANGED}::test_a_value_that_would_be_another_one",
    ),
    _mutant(
        "number-is-cut-to-an-integer",
        "registry/formats/avro_rules.py",
        "        is_whole = bool(int(data) == data)\n",
        "        is_whole = int(data) is not None\n",
        "A price of 3.7 in a field of type long is written as 3.",
        f"{_UNCHANGED}::test_a_value_that_would_be_another_one",
    ),
    _mutant(
        "text-becomes-a-list-of-characters",
        "registry/formats/avro_checks.py",
        "        if isinstance(data, _NO_ITEMS):\n",
        "        if False:\n",
        "A tag that is given without its list is written as a list of its characters.",
        f"{_UNCHANGED}::test_a_value_that_would_be_another_one",
    ),
    _mutant(
        "record-of-another-class",
        "registry/formats/to_dict.py",
        "        return convert if convert is None or name is None else _named(convert, name)\n",
        "        return convert\n",
        "Two records of a union have the same fields: an object of the second class is written as the first record.",
        f"{_UNCHANGED}::test_the_record_of_a_class",
    ),
    _mutant(
        "references-at-the-root-are-unknown",
        "registry/formats/avro_schemas.py",
        '"__named_schemas": named if needed else {}',
        '"__named_schemas": {}',
        "A topic with several kinds of events: no record of it is written.",
        f"{_UNCHANGED}::test_references_at_the_root",
    ),
    _mutant(
        "excluded-field-is-written",
        "registry/formats/to_dict.py",
        "        if serializer is None:\n",
        "        if True:\n",
        "A dataclass of pydantic excludes its password, and the record has it.",
        f"{_UNCHANGED}::test_dataclasses_of_pydantic",
    ),
    _mutant(
        "last-field-of-a-oneof",
        "registry/formats/protobuf.py",
        "        if len(given) > 1:\n",
        "        if False:\n",
        "A payment by card whose IBAN is the empty text is written as a payment to an empty IBAN.",
        f"{_UNCHANGED}::test_fields_of_one_oneof",
    ),
    _mutant(
        "private-fields-are-left-out",
        "registry/formats/json_schema.py",
        "option=module.OPT_PASSTHROUGH_DATACLASS",
        "option=0",
        "The fields of a dataclass whose names begin with an underscore are missing, only where it is in a mapping.",
        f"{_UNCHANGED}::test_fields_with_an_underscore",
    ),
    _mutant(
        "place-in-a-file-of-its-own",
        "registry/formats/protobuf.py",
        "        if schema.text == self._text:\n",
        "        if True:\n",
        "The latest schema has another message first: readers that go by the index read that one.",
        "tests/registry/test_protobuf.py::test_the_place_in_the_latest_schema",
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
