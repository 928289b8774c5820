"""`aioproducer demo`, run as a user runs it."""

from __future__ import annotations

import signal

from tests.cli.program import COLOUR, ESCAPE, ended, run, run_in_terminal, start


async def test_demo_sends_reads_back_and_verifies() -> None:
    """The table says, in plain text, that all was acknowledged, read back and verified; exit code 0."""
    done = await run("demo", "--records", "2000", "--tasks", "7")
    assert (done.code, done.err) == (0, "")
    assert ESCAPE not in done.out
    assert all(line == line.rstrip() for line in done.out.splitlines())
    facts, histogram = done.out.split("\n\n")
    table = dict(line.split(maxsplit=1) for line in facts.splitlines())
    assert table["records"] == "2,000 of 100 bytes, from 7 tasks"
    assert table["acked"] == table["read"].removeprefix("back").strip() == "2,000"
    assert table["verified"] == "yes: content, place and order"
    assert all(line.lstrip().startswith("up to ") for line in histogram.splitlines())


async def test_demo_in_a_terminal_shows_a_bar() -> None:
    """In a terminal a bar goes to the full, and is gone at the end."""
    code, drawn = await run_in_terminal("demo", "--records", "20000")
    assert code == 0
    assert COLOUR.search(drawn)
    assert "100%" in drawn
    assert "20,000 acked" in drawn
    assert drawn.index("100%") < drawn.rindex("\x1b[2K") < drawn.index("verified")


async def test_demo_without_colour_is_without_colour() -> None:
    """With NO_COLOR a terminal gets its bar, and nothing in colour."""
    _, drawn = await run_in_terminal("demo", "--records", "500", NO_COLOR="1")
    assert "100%" in drawn
    assert not COLOUR.search(drawn)


async def test_interrupted_demo_leaves_no_traceback() -> None:
    """Ctrl-C during the demo ends it with exit code 1 and one line on stderr."""
    process = await start("demo", "--records", "5000000", "--tasks", "3")
    assert process.stdout is not None
    assert (await process.stdout.readline()).startswith(b"sending")
    process.send_signal(signal.SIGINT)
    done = await ended(process)
    assert (done.code, done.err) == (1, "aioproducer: interrupted\n")
