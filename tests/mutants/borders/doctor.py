"""The mutants of examinations: advice that misleads, and examinations that do harm."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Kind

_ADVERTISED: Final = "tests/state/diagnosing/test_advertised.py"
_CREDENTIALS: Final = "tests/doctor/test_credentials.py"
_EXAMINATION: Final = "tests/doctor/test_examination.py"

_mutant = Kind("doctor")

DOCTOR: Final = (
    _mutant(
        "refused-credentials-at-every-broker",
        "_net/diagnosing/opening.py",
        "            if not self._logins.begin():\n",
        "            if self._logins.begin() is None:\n",
        "A wrong password is tried at each of fifty brokers, and the account is locked.",
        f"{_CREDENTIALS}::test_credentials_that_are_refused",
    ),
    _mutant(
        "credentials-at-all-brokers-at-once",
        "_net/diagnosing/opening.py",
        "            self._present = asyncio.Event()\n",
        "            pass\n",
        "Each of fifty brokers is asked before the first one has refused the password, and the account is locked.",
        f"{_CREDENTIALS}::test_refused_credentials_are_tried_once_however_long_that_takes",
    ),
    _mutant(
        "answers-of-other-questions",
        "_net/diagnosing/servers.py",
        "        connection = self._next_idle() or await",
        "        connection = self._idle[0] if self._idle else await",
        "One question without an answer ends the connection, and with it all later steps.",
        f"{_EXAMINATION}::test_one_question_without_an_answer",
    ),
    _mutant(
        "probe-under-the-transactional-id",
        "doctor/probe.py",
        "        transactional_id=None,\n",
        "",
        "The record of an examination is sent by a producer with the transactional id of the settings: its owner is fenced.",
        f"{_EXAMINATION}::test_a_probe_of_a_transactional_producer",
    ),
    _mutant(
        "examination-creates-topics",
        "_state/connecting/topic_question.py",
        "allow_auto_topic_creation=False",
        "allow_auto_topic_creation=True",
        "A misspelled topic exists after its examination, and the next one finds nothing wrong.",
        f"{_EXAMINATION}::test_a_missing_topic",
    ),
    _mutant(
        "loopback-is-a-closed-port",
        "_state/diagnosing/advertised.py",
        "not any(map(_is_own_machine, broker.came_by))",
        "broker.host == ''",
        "A broker that advertises localhost to clients elsewhere is reported as down.",
        f"{_ADVERTISED}::test_loopback_for_a_client_that_came_from_elsewhere",
    ),
    _mutant(
        "any-broker-at-the-address",
        "_state/diagnosing/advertised.py",
        "    if identity.node_code == ErrorCode.INVALID_REQUEST:\n",
        "    if identity.node_code is None:\n",
        "Each broker advertises the address of one load balancer, and all of them are reported as reachable.",
        f"{_EXAMINATION}::test_an_address_that_leads_to_another_broker",
    ),
    _mutant(
        "all-addresses-at-once",
        "doctor/reaching.py",
        "AT_ONCE: Final = 20\n",
        "AT_ONCE: Final = 2000\n",
        "An examination of a large cluster opens a thousand connections in one moment.",
        f"{_EXAMINATION}::test_many_brokers_are_examined_at_most_20_at_once",
    ),
)
