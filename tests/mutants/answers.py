"""The mutants of answers: brokers that write more, or less, than the definitions say, and what is concluded from it."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant


def _mutant(name: str, file: str, line: str, instead: str, bug: str, *by: str) -> Mutant:
    return Mutant(name, "answers", file, line, instead, bug, by)


ANSWERS: Final = (
    _mutant(
        "surplus-bytes-refused",
        "_wire/codec.py",
        "    response, end = plan.body.decode_prefix(data, start)",
        "    response, end = plan.body.decode(data, start), len(data)",
        "A response with bytes behind its last field ends the connection: the producer never starts on librdkafka's mock cluster.",
        "tests/wire/test_codec.py",
    ),
    _mutant(
        "answers-without-a-question-refused",
        "_net/connection.py",
        "            self._newest_unasked = correlation_id",
        "            pass",
        "A broker answers Produce with acks=0: the connection ends, and what is buffered in it is lost.",
        "tests/connection/test_pairing.py",
    ),
)
