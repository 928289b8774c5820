"""A relay in a process of its own, which is killed while rows are held; its successor knows nothing of them."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Collection
from typing import Any, Final

import attrs

from aioproducer import KafkaError, Producer, Record
from aioproducer.outbox import ID_HEADER, Relay, Store
from aioproducer.testing import EmbeddedKafka
from tests.net.support import LIMIT, until
from tests.repo.source import ROOT

HELD: Final = range(1, 4)
BEHIND: Final = range(4, 7)
ON_THEIR_WAY: Final = range(7, 27)


@attrs.define(eq=False)
class KilledRelay:
    """Rows 1 to 3 are held, those behind are written, and further ones may be on their way when it is killed."""

    kafka: EmbeddedKafka
    place: str
    """The path of a SQLite database, or the folder of the socket of PostgreSQL."""
    add: Callable[[Collection[int]], Awaitable[None]]
    """Commit the rows with these ids, which are the next ones."""
    left: Callable[[], Awaitable[Collection[int]]]
    """The ids of the rows in the table."""
    letters: list[int] = attrs.Factory(list)

    async def put(self, record: Record[Any, Any], _error: KafkaError) -> None:
        """The outlet of the successor."""
        self.letters.append(int(dict(record.headers or ())[ID_HEADER] or b""))

    async def run(self, *, is_written: bool) -> None:
        """The life of the process. `is_written`: no answer tells that the held rows are written."""
        faults = self.kafka.faults
        # No search can tell.
        unread = faults.error("TOPIC_AUTHORIZATION_FAILED", api="Fetch", times=None)
        lost = faults.error("UNKNOWN_SERVER_ERROR", append=is_written, times=None)
        await self.add(HELD)
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "tests.outbox.relaying", self.kafka.bootstrap_servers, self.place),
            cwd=ROOT,
            stdout=asyncio.subprocess.PIPE,
        )
        assert process.stdout is not None
        try:
            async with asyncio.timeout(LIMIT):
                # They leave together. Refused without an attempt before, a row would get a letter.
                await line_with(process.stdout, f"{len(HELD)} rows were not acknowledged")
                lost.heal()
                refused = faults.error("INVALID_RECORD", times=None)
                for number in HELD:
                    await line_with(process.stdout, f"row {number} is held")
                refused.heal()
                await self.add(BEHIND)
                await self.until_left(HELD)
                await self.add(ON_THEIR_WAY)
        finally:
            process.kill()
            await process.wait()
        assert b"a dead letter" not in await process.stdout.read()
        assert set(HELD) <= set(await self.left())
        unread.heal()

    async def until_left(self, numbers: Collection[int]) -> None:
        """Wait until the table has only these rows."""
        while set(await self.left()) != set(numbers):  # noqa: ASYNC110  # a database has no event for it
            await asyncio.sleep(0)

    async def succeed(self, producer: Producer[Any, Any], store: Store, *, is_refused: bool) -> None:
        """Another relay takes over. `is_refused`: the reason for which the held rows were refused is still there."""
        refused = self.kafka.faults.error("INVALID_RECORD", times=None) if is_refused else None
        async with Relay(producer, store, poll=0.02, dead_letters=self) as relay:
            if refused is not None:
                await until(lambda: set(self.letters) >= set(HELD))
                refused.heal()
            async with asyncio.timeout(LIMIT):
                await self.until_left(())
            assert relay.error is None

    def check(self, *, is_written: bool) -> None:
        """No row is lost, copies have the id of the first one, and first copies are in order but for held rows."""
        log = [int(dict(record.headers)[ID_HEADER] or b"") for record in self.kafka.records("one")]
        values = {(record.value, dict(record.headers)[ID_HEADER]) for record in self.kafka.records("one")}
        everything = {*HELD, *BEHIND, *ON_THEIR_WAY}
        assert {*log, *self.letters} == everything
        assert values == {(b"%d" % one, b"%d" % one) for one in log}
        assert len(self.letters) == len(set(self.letters))
        firsts = list(dict.fromkeys(log))
        if not is_written:
            # Their records are new: the documentation names them as those behind later rows.
            firsts = [one for one in firsts if one not in HELD]
        assert firsts == sorted(firsts)


async def line_with(lines: asyncio.StreamReader, text: str) -> None:
    """Read up to the line of the log that has this text."""
    while text.encode() not in (line := await lines.readline()):
        assert line, f"the relay has ended before the line: {text}"
        assert b"a dead letter" not in line, line
