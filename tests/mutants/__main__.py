"""Plant each mutant in a copy of the tree, and report which test fails by it.

    python -m tests.mutants                     all of them, two at a time
    python -m tests.mutants --only NAME ...     some
    python -m tests.mutants --jobs N

A mutant that no test notices is a hole in the suite: the exit code is 1. It is also 1 when the reported test fails
without the mutant too. A mutant of a newer Python than any on this machine is listed, and not planted.
"""

from __future__ import annotations

import argparse
import queue
import sys
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Final

import attrs

from tests.mutants.copies import Copy
from tests.mutants.mutant import Mutant
from tests.mutants.pythons import pythons_for
from tests.mutants.runs import WIDER, failures, first_failure
from tests.mutants.table import MUTANTS

NAMED_SECONDS: Final = 180.0
WIDER_SECONDS: Final = 900.0
# A suite in which this many tests fail without a mutant proves nothing about mutants.
MOST_ROUNDS: Final = 4
SURVIVED: Final = "SURVIVED"


@attrs.frozen
class Finding:
    """The result of one mutant."""

    mutant: Mutant
    killer: str | None
    seconds: float
    wider: bool = False
    """No test that the table names failed; another one did."""
    proven: bool = True
    """The killer passes without the mutant."""
    planted: bool = True
    """This machine has a Python on which the mutant is a defect."""

    @property
    def is_killed(self) -> bool:
        """Whether a test failed by the defect, and passes without it."""
        return self.killer is not None and self.proven

    @property
    def words(self) -> str:
        """The result column of the report."""
        if not self.planted:
            return f"not planted: there is no Python {self.mutant.since} here"
        if self.killer is None:
            return SURVIVED
        if not self.proven:
            return f"{self.killer} (which fails without it too)"
        return f"{self.killer} (not named for it)" if self.wider else self.killer


# -------------------------------------------------------------------------------------------- asking
def killed(copy: Copy, mutant: Mutant, without: Collection[str]) -> Finding:
    """Plant the mutant and run the tests that it names, then all others that may notice it."""
    began = time.monotonic()
    with copy.planted(mutant):
        killer = first_failure(copy, mutant.by, NAMED_SECONDS, without)
        wider = killer is None
        if wider:
            killer = first_failure(copy, WIDER, WIDER_SECONDS, without)
    return Finding(mutant, killer, time.monotonic() - began, wider=wider)


def findings(
    mutants: Sequence[Mutant], copies: Sequence[Copy], without: Collection[str]
) -> Iterator[Finding]:
    """The result of each mutant as soon as it is known; each copy has one mutant at a time."""
    free: queue.SimpleQueue[Copy] = queue.SimpleQueue()
    for copy in copies:
        free.put(copy)

    def one(mutant: Mutant) -> Finding:
        copy = free.get()
        try:
            return killed(copy, mutant, without)
        finally:
            free.put(copy)

    # Compiled mutants take longest, so they go first.
    order = sorted(mutants, key=lambda mutant: mutant.module is None)
    with ThreadPoolExecutor(len(copies)) as threads:
        asked = [threads.submit(one, mutant) for mutant in order]
        try:
            for done in as_completed(asked):
                yield done.result()
        finally:
            threads.shutdown(cancel_futures=True)


def fail_anyway(found: Iterable[Finding], copy: Copy) -> set[str]:
    """The killers that fail in a sound copy too."""
    killers = sorted({finding.killer for finding in found if finding.killer is not None})
    return failures(copy, killers, WIDER_SECONDS) if killers else set()


def settled(mutants: Sequence[Mutant], copies: Sequence[Copy]) -> list[Finding]:
    """The results of all mutants; a mutant that an unsound test killed runs again without that test."""
    found: dict[str, Finding] = {}
    without: set[str] = set()
    left = list(mutants)
    for _ in range(MOST_ROUNDS):
        for finding in findings(left, copies, without):
            print(f"{finding.seconds:>6.1f} s  {finding.mutant.name}: {finding.words}", flush=True)
            found[finding.mutant.name] = finding
        known = fail_anyway(found.values(), copies[0])
        left = [mutant for mutant in mutants if found[mutant.name].killer in known]
        if not left:
            break
        without |= known
        print(f"these fail without any mutant: {', '.join(sorted(known))}", flush=True)
    for mutant in left:
        found[mutant.name] = attrs.evolve(found[mutant.name], proven=False)
    return list(found.values())


def on_their_pythons(mutants: Sequence[Mutant], jobs: int) -> Iterator[Finding]:
    """The results of all mutants, each on a Python on which it is a defect, if this machine has one."""
    for since, python in pythons_for(mutants).items():
        group = [mutant for mutant in mutants if mutant.since == since]
        if python is None:
            yield from (Finding(mutant, None, 0.0, planted=False) for mutant in group)
        else:
            yield from settled(
                group, [Copy.numbered(number, python) for number in range(1, min(jobs, len(group)) + 1)]
            )


# ------------------------------------------------------------------------------------------- telling
def table(found: Sequence[Finding]) -> Iterator[str]:
    """A line for each mutant, in the order of the table of defects."""
    place = {mutant.name: at for at, mutant in enumerate(MUTANTS)}
    name = max(len(finding.mutant.name) for finding in found)
    kind = max(len(finding.mutant.kind) for finding in found)
    yield f"{'mutant':<{name}}  {'kind':<{kind}}  seconds  killed by"
    for each in sorted(found, key=lambda finding: place[finding.mutant.name]):
        yield f"{each.mutant.name:<{name}}  {each.mutant.kind:<{kind}}  {each.seconds:>7.1f}  {each.words}"


def report(found: Sequence[Finding]) -> int:
    """Print the table and the counts; the exit code says whether all were killed."""
    print("\n" + "\n".join(table(found)))
    planted = [finding for finding in found if finding.planted]
    holes = [finding for finding in planted if not finding.is_killed]
    for hole in holes:
        print(f"\n{hole.mutant.name}: {hole.words}\n  {hole.mutant.bug}\n  {hole.mutant.path}")
    print(
        f"\n{len(planted) - len(holes)} mutants killed, {len(holes)} not, {len(found) - len(planted)} not planted"
    )
    return 1 if holes else 0


def chosen(names: Sequence[str] | None) -> list[Mutant]:
    """The mutants of these names, or all."""
    known = {mutant.name: mutant for mutant in MUTANTS}
    unknown = set(names or ()) - known.keys()
    if unknown:
        sys.exit(f"there is no mutant called {', '.join(sorted(unknown))}")
    return [known[name] for name in names] if names else list(MUTANTS)


def main() -> int:
    """Test the chosen mutants, and report."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutants",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", nargs="+", metavar="NAME")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    mutants = chosen(options.only)
    began = time.monotonic()
    code = report(list(on_their_pythons(mutants, max(1, options.jobs))))
    print(f"{time.monotonic() - began:.0f} seconds")
    return code


if __name__ == "__main__":
    sys.exit(main())
