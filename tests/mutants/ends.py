"""Mutants of what has to end: whatever came and went is kept for ever."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_ENDS: Final = "tests/simulation/test_everything_ends.py"

ENDS: Final = (
    Mutant(
        name="compression-ratios-kept-for-ever",
        kind="memory",
        file="_state/accumulator.py",
        line="            self.ratios.forget(name)\n",
        instead="",
        bug="What is known of the compression of a topic is kept when the topic is not used any more.",
        by=(_ENDS,),
    ),
    Mutant(
        name="brokers-kept-for-ever",
        kind="memory",
        file="_net/timekeeper.py",
        line="                engine.forget_unused(now)\n",
        instead="",
        bug="Each broker that was ever met keeps a task and a share of the memory, though it has left the cluster.",
        by=(_ENDS,),
    ),
    Mutant(
        name="addresses-kept-for-ever",
        kind="memory",
        file="_net/addresses.py",
        line="                del self._known[place]\n",
        instead="                pass\n",
        bug="Each address that was ever called is remembered.",
        by=(_ENDS,),
    ),
    Mutant(
        name="former-brokers-kept-for-ever",
        kind="memory",
        file="_state/metadata.py",
        line="            past = [(id_, node) for id_, node in past if id_ in leading]\n",
        instead="",
        bug="Brokers that the metadata leaves out and that lead nothing are kept.",
        by=(_ENDS,),
    ),
)
