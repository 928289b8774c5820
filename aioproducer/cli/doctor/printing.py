"""A report for people: a line for each step, those that need an action with it."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final

from rich.text import Text

from aioproducer.doctor import Check, Report, Status

__all__ = ["lines"]

_SIGNS: Final = {Status.OK: "✓", Status.WARN: "!", Status.FAIL: "✗", Status.SKIP: "-"}
_WORDS: Final = {Status.OK: "ok", Status.WARN: "warn", Status.FAIL: "FAIL", Status.SKIP: "skip"}
_STYLES: Final = {Status.OK: "green", Status.WARN: "yellow", Status.FAIL: "red", Status.SKIP: "dim"}
_FROM_BEST_TO_WORST: Final = tuple(Status)
_TITLE: Final = 12
# Beyond this, those that are fine are counted only.
_MOST_SHOWN: Final = 10
_NAMED: Final = ("topic", "probe")


def lines(report: Report, *, has_signs: bool, width: int) -> Iterator[Text | str]:
    """The lines of a report; with signs and colours, or with plain words."""
    form = _Form(has_signs=has_signs, width=width)
    for skipped, groups in groupby(_groups(report.checks), lambda group: _reason_to_skip(group[1])):
        found = list(groups)
        if skipped is None or sum(len(checks) for _, checks in found) == 1:
            for title, checks in found:
                yield from form.group(title, checks)
        else:
            yield from form.skipped(", ".join(dict.fromkeys(title for title, _ in found)), skipped)
    yield _summary(report)


def _summary(report: Report) -> str:
    warnings = report.count(Status.WARN)
    parts = [
        f"{report.count(Status.FAIL)} failed",
        f"{warnings} warning{'' if warnings == 1 else 's'}",
        f"{report.count(Status.OK)} fine",
    ]
    skipped = report.count(Status.SKIP)
    parts += [f"{skipped} skipped"] if skipped else []
    text = f"{', '.join(parts)} in {report.seconds:.1f} s"
    return text if report.finished else f"{text}; it was interrupted"


def _groups(checks: Sequence[Check]) -> Iterator[tuple[str, list[Check]]]:
    """The checks by step; the look-up and the connections on one line where nothing is wrong with them."""
    by_id = {kind: list(each) for kind, each in groupby(checks, lambda check: check.id)}
    reached = by_id.get("dns", []) + by_id.get("tcp", [])
    if "tcp" in by_id and all(check.status is Status.OK for check in reached):
        del by_id["dns"]
        by_id = {"dns, tcp" if kind == "tcp" else kind: each for kind, each in by_id.items()}
        by_id["dns, tcp"] = reached
    for kind, each in by_id.items():
        if kind in _NAMED:
            for _, one in groupby(each, lambda check: check.target):
                yield kind, list(one)
        else:
            yield kind, each


def _reason_to_skip(checks: Sequence[Check]) -> str | None:
    """The one reason for which all of these checks were skipped; None if there is no such reason."""
    reasons = {check.summary if check.status is Status.SKIP else None for check in checks}
    return reasons.pop() if len(reasons) == 1 else None


def _examined(checks: list[Check]) -> list[Check]:
    """The checks that decide on the state of a step: skipped ones do so only where there are no others."""
    return [check for check in checks if check.status is not Status.SKIP] or checks


class _Form:
    """The form of the lines: signs or words, and the width."""

    def __init__(self, *, has_signs: bool, width: int) -> None:
        self._has_signs = has_signs
        self._width = width

    def group(self, title: str, checks: list[Check]) -> Iterator[Text | str]:
        """One step: its line, then what it consists of, as far as that says more."""
        status = max((check.status for check in _examined(checks)), key=_FROM_BEST_TO_WORST.index)
        text, children = _content(title, checks)
        yield from self._line(status, f"{title:<{_TITLE - 1}} {text}", indent=0, hanging=_TITLE)
        if len(checks) == 1 and not children:
            yield from self._advice(checks[0].advice)
        for advice, alike in groupby(children, lambda check: check.advice):
            for check in alike:
                yield from self._line(check.status, _of_child(title, check), indent=2, hanging=0)
            yield from self._advice(advice)

    def skipped(self, titles: str, reason: str) -> Iterator[Text | str]:
        """Steps that were skipped for the same reason."""
        text = f"{titles:<{_TITLE - 1}} {reason}" if len(titles) < _TITLE else f"{titles}: {reason}"
        return self._line(Status.SKIP, text, indent=0, hanging=_TITLE)

    def _line(self, status: Status, text: str, *, indent: int, hanging: int) -> Iterator[Text | str]:
        sign = _SIGNS[status] if self._has_signs else f"{_WORDS[status]:<4}"
        first = f"{' ' * indent}{sign} "
        later = " " * (len(first) + hanging)
        pieces = textwrap.wrap(
            text,
            self._width,
            initial_indent=first,
            subsequent_indent=later,
            break_long_words=False,
            break_on_hyphens=False,
            replace_whitespace=False,
            drop_whitespace=True,
        )
        for number, piece in enumerate(pieces):
            yield self._coloured(piece, status, indent, len(sign)) if number == 0 else piece

    def _coloured(self, line: str, status: Status, indent: int, length: int) -> Text | str:
        if not self._has_signs:
            return line
        text = Text(line)
        text.stylize(_STYLES[status], indent, indent + length)
        return text

    def _advice(self, advice: str | None) -> Iterator[str]:
        if advice is not None:
            margin = " " * (6 if self._has_signs else 9)
            yield from textwrap.wrap(
                advice,
                self._width,
                initial_indent=margin,
                subsequent_indent=margin,
                break_long_words=False,
                break_on_hyphens=False,
            )


def _content(title: str, checks: list[Check]) -> tuple[str, list[Check]]:
    """The text behind the title, and the checks that have lines of their own."""
    if title == "dns, tcp":
        return _reached(checks), []
    if title == "brokers" and checks[0].target is not None:
        return _brokers(checks)
    if title in _NAMED:
        return _one_topic(checks)
    if len(checks) == 1:
        return _with_target(title, checks[0]), []
    return _several(checks)


def _brokers(checks: list[Check]) -> tuple[str, list[Check]]:
    bad = [check for check in checks if check.status is not Status.OK]
    reached = [check for check in checks if check.status in (Status.OK, Status.WARN)]
    shown = checks if len(checks) <= _MOST_SHOWN else bad
    return f"{len(reached)} of {len(checks)} reachable", shown


def _one_topic(checks: list[Check]) -> tuple[str, list[Check]]:
    """The line of a topic as a whole, above its failures and warnings."""
    whole = checks[-1]
    name = "" if whole.target is None else f"{whole.target}: "
    return f"{name}{whole.summary}", [check for check in checks if check is not whole]


def _several(checks: list[Check]) -> tuple[str, list[Check]]:
    fine = [check for check in checks if check.status is Status.OK]
    first = checks[0]
    if first.id == "config":
        return f"{len(checks)} problems", checks
    if len(fine) == len(checks):
        return f"{first.summary}; {len(checks) - 1} more alike", []
    return f"{len(fine)} of {len(checks)} fine", checks


def _with_target(title: str, check: Check) -> str:
    is_clear = check.status is Status.OK and title != "dns"
    has_its_own = check.target is None or title == "transactions" or check.target in check.summary
    return check.summary if is_clear or has_its_own else f"{check.target}: {check.summary}"


def _of_child(title: str, check: Check) -> str:
    if title in _NAMED or check.target is None or check.target in check.summary:
        return check.summary
    # The reason of a failure stands behind a colon, as in "3 localhost:9092: connection refused".
    is_place = title == "brokers" and check.status is not Status.FAIL
    return f"{check.target}{'' if is_place else ':'} {check.summary}"


def _reached(checks: Sequence[Check]) -> str:
    """`kafka.example: 192.0.2.10:9092 (4 ms)`."""
    names = {
        address: str(check.target)
        for check in checks
        if check.id == "dns"
        for address in _addresses(check.detail)
    }
    texts: dict[str, list[str]] = {}
    for check in checks:
        if check.id == "tcp":
            address = str(check.detail.get("address"))
            name = names.get(address, address)
            texts.setdefault("" if name == address else f"{name}: ", []).append(check.summary)
    return "; ".join(f"{name}{', '.join(each)}" for name, each in texts.items())


def _addresses(detail: Mapping[str, object]) -> list[str]:
    found = detail.get("addresses")
    return [str(each) for each in found] if isinstance(found, list) else []
