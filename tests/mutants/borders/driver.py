"""The mutants of what Spark's driver says and draws: the audit's picture, the look at Kafka before a job, the interpreter."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Kind

_PICTURE: Final = "tests/spark/auditing/test_picture.py"
_PREFLIGHT: Final = "tests/spark/test_preflight.py"

_mutant = Kind("telling")

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
        "Partitions without records are not in the picture: nobody sees that a key leads to none of them.",
        f"{_PICTURE}::test_partitions_without_records",
    ),
    _mutant(
        "losses-not-drawn",
        "spark/auditing/picture.py",
        "    shown = verdict.damages[:MOST_SOURCES]",
        "    shown = verdict.damages[:0]",
        "What is lost has no offset, and is in no part of the picture.",
        f"{_PICTURE}::test_what_is_lost_and_doubled_is_drawn",
    ),
    _mutant(
        "nothing-wrong-above-the-damage",
        "spark/auditing/picture.py",
        "    if not found:\n        _say(axes, NOTHING_WRONG)",
        "    if True:\n        _say(axes, NOTHING_WRONG)",
        "Places where something is wrong are drawn under the words that nothing is.",
        f"{_PICTURE}::test_what_is_lost_and_doubled_is_drawn",
    ),
    _mutant(
        "nothing-wrong-not-said",
        "spark/auditing/picture.py",
        "    if not found:\n        _say(axes, NOTHING_WRONG)",
        "    if False:\n        _say(axes, NOTHING_WRONG)",
        "Of a sound topic a part of the picture is empty: nothing wrong, or nothing looked at?",
        f"{_PICTURE}::test_a_sound_topic",
    ),
    _mutant(
        "hidden-sources-not-mentioned",
        "spark/auditing/picture.py",
        '        + (f" ({hidden} more sources are not shown)" if hidden else ""),',
        '        + "",',
        "Of many damaged sources the first twenty are drawn, as if there were no others.",
        f"{_PICTURE}::test_many_damaged_sources",
    ),
    _mutant(
        "missing-right-called-a-missing-topic",
        "spark/preflight.py",
        "    if isinstance(error, AuthorizationError):",
        "    if False:",
        "Who may not write a topic is told to create it.",
        f"{_PREFLIGHT}::test_a_missing_right_is_not_a_missing_topic",
    ),
    _mutant(
        "missing-topic-called-a-missing-right",
        "spark/preflight.py",
        "    if isinstance(error, AuthorizationError):",
        "    if True:",
        "Who has misspelt a topic is told to ask for the right to write it.",
        f"{_PREFLIGHT}::test_a_missing_right_is_not_a_missing_topic",
    ),
    _mutant(
        "dead-letters-not-looked-at",
        "spark/preflight.py",
        "    topics = [options.topic, options.dead_letters]",
        "    topics = [options.topic]",
        "A topic for dead letters that is not there is found out by the first bad row, hours later.",
        _PREFLIGHT,
    ),
    _mutant(
        "marker-topic-not-looked-at",
        "spark/preflight.py",
        "        if marks is not None and marks not in topics:",
        "        if False:",
        "A topic for marks that is not there is found out by each task when it has written all of its rows.",
        f"{_PREFLIGHT}::test_a_missing_topic_for_marks_is_told_as_well",
    ),
    _mutant(
        "another-python-not-mentioned",
        "spark/interpreter.py",
        "    if another is not None:",
        "    if False:",
        "Spark's workers run another Python than the program, and fail with a ModuleNotFoundError of theirs.",
        _PREFLIGHT,
    ),
    _mutant(
        "environment-taken-for-its-python",
        "spark/interpreter.py",
        "    same = Path(found).resolve() == Path(own).resolve() and Path(found).parent == Path(own).parent",
        "    same = Path(found).resolve() == Path(own).resolve()",
        "Two virtual environments of one Python are taken for the same, though the library is in one of them only.",
        f"{_PREFLIGHT}::test_another_python_is_named",
    ),
    _mutant(
        "clusters-warned-of-their-paths",
        "spark/interpreter.py",
        '    if context is None or not context.master.startswith("local"):',
        "    if context is None:",
        "On a cluster, where other paths are what one expects, each job begins with a warning.",
        _PREFLIGHT,
    ),
)
