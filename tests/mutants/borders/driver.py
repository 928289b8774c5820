"""The mutants of Spark's driver and options: the audit's picture, the check before a job, the interpreter, secrets."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Kind

_PICTURE: Final = "tests/spark/auditing/test_picture.py"
_PREFLIGHT: Final = "tests/spark/test_preflight.py"
_FILES: Final = "tests/vocabulary/test_file_secrets.py"

_mutant = Kind("errors")

DRIVER: Final = (
    _mutant(
        "damage-called-clean",
        "spark/auditing/picture.py",
        "{NOTHING_WRONG if verdict.is_clean else 'NOT CLEAN'}",
        "{NOTHING_WRONG}",
        "The picture of a topic that has lost records says that nothing is wrong.",
        f"{_PICTURE}::test_what_is_lost_and_doubled_is_drawn",
    ),
    _mutant(
        "rate-of-a-moment",
        "spark/auditing/picture.py",
        "    if seconds < SECONDS_OF_A_RATE:",
        "    if False:",
        "Twelve records within four milliseconds are drawn as a rate of 3,000 a second.",
        f"{_PICTURE}::test_a_small_topic",
    ),
    _mutant(
        "empty-partitions-left-out",
        "spark/auditing/picture.py",
        "    known = {(topic, at) for topic, count in verdict.partitions.items() for at in range(count)}",
        "    known: set[tuple[str, int]] = set()",
        "Partitions without records are not in the picture, which hides that a key leads to none of them.",
        f"{_PICTURE}::test_partitions_without_records",
    ),
    _mutant(
        "losses-not-drawn",
        "spark/auditing/picture.py",
        "    shown = verdict.damages[:MOST_SOURCES]",
        "    shown = verdict.damages[:0]",
        "Lost records have no offset, and are in no part of the picture.",
        f"{_PICTURE}::test_what_is_lost_and_doubled_is_drawn",
    ),
    _mutant(
        "nothing-wrong-above-the-damage",
        "spark/auditing/picture.py",
        "    if not found:\n        _say(axes, NOTHING_WRONG)",
        "    if True:\n        _say(axes, NOTHING_WRONG)",
        "Places with damage are drawn under the words that nothing is wrong.",
        f"{_PICTURE}::test_what_is_lost_and_doubled_is_drawn",
    ),
    _mutant(
        "nothing-wrong-not-shown",
        "spark/auditing/picture.py",
        "    if not found:\n        _say(axes, NOTHING_WRONG)",
        "    if False:\n        _say(axes, NOTHING_WRONG)",
        "A part of the picture of a sound topic is empty, without a word whether it was examined.",
        f"{_PICTURE}::test_a_sound_topic",
    ),
    _mutant(
        "hidden-sources-not-mentioned",
        "spark/auditing/picture.py",
        '        + (f" ({hidden} more sources are not shown)" if hidden else ""),',
        '        + "",',
        "The first twenty of many damaged sources are drawn, as if there were no others.",
        f"{_PICTURE}::test_many_damaged_sources",
    ),
    _mutant(
        "missing-right-called-a-missing-topic",
        "spark/preflight.py",
        "    if isinstance(error, AuthorizationError):",
        "    if False:",
        "A user without the right to write a topic is advised to create it.",
        f"{_PREFLIGHT}::test_a_missing_right_is_not_a_missing_topic",
    ),
    _mutant(
        "missing-topic-called-a-missing-right",
        "spark/preflight.py",
        "    if isinstance(error, AuthorizationError):",
        "    if True:",
        "A user who misspells a topic is advised to ask for the right to write it.",
        f"{_PREFLIGHT}::test_a_missing_right_is_not_a_missing_topic",
    ),
    _mutant(
        "dead-letters-not-looked-at",
        "spark/preflight.py",
        "    topics = [options.topic, options.dead_letters]",
        "    topics = [options.topic]",
        "A missing topic for dead letters is found by the first bad row, hours later.",
        _PREFLIGHT,
    ),
    _mutant(
        "marker-topic-not-looked-at",
        "spark/preflight.py",
        "        if marks is not None and marks not in topics:",
        "        if False:",
        "A missing topic for marks is found by each task after it has written all of its rows.",
        f"{_PREFLIGHT}::test_a_missing_topic_for_marks_is_told_as_well",
    ),
    _mutant(
        "another-python-not-mentioned",
        "spark/interpreter.py",
        "    if another is not None:",
        "    if False:",
        "Spark's workers run another Python than the program, and fail with a bare ModuleNotFoundError.",
        _PREFLIGHT,
    ),
    _mutant(
        "environment-taken-for-its-python",
        "spark/interpreter.py",
        "    same = Path(found).resolve() == Path(own).resolve() and Path(found).parent == Path(own).parent",
        "    same = Path(found).resolve() == Path(own).resolve()",
        "Two virtual environments of one Python are taken for the same, though only one has the library.",
        f"{_PREFLIGHT}::test_another_python_is_named",
    ),
    _mutant(
        "clusters-warned-of-their-paths",
        "spark/interpreter.py",
        '    if context is None or not context.master.startswith("local"):',
        "    if context is None:",
        "On a cluster, where other paths are expected, each job begins with a warning.",
        _PREFLIGHT,
    ),
    _mutant(
        "password-read-once",
        "spark/options.py",
        "        config = reading_files_again(made, properties, providers)",
        "        config = made",
        "A task that begins while a password changes presents the former one until its time is over: a minute.",
        "tests/spark/test_password_files.py",
    ),
    _mutant(
        "password-of-jaas-read-once",
        "config/file_secrets.py",
        "    if config.sasl_jaas_config is None or config.sasl_mechanism not in PASSWORD_MECHANISMS:",
        "    if True:",
        "The same where the password stands in a JAAS string, as in most files of Java programs.",
        f"{_FILES}::test_an_option_of_a_jaas_string_is_read_again",
    ),
    _mutant(
        "password-not-trimmed",
        "config/file_secrets.py",
        "found.strip(BLANKS) if self.is_trimmed else found",
        "found",
        "A blank behind a password in a file, which the first reading leaves out, is a part of it from then on.",
        f"{_FILES}::test_a_property_is_read_again",
    ),
)
