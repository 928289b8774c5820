"""Follow a file as `tail -f` does: each line becomes a record, at least once, also when this program is killed.

The position in the file is kept beside it, in FILE.position. It never passes a line that is not written.

Run it against a Kafka on this machine: python examples/follow_file.py app.log
(`aioproducer broker` in another terminal runs one; KAFKA=host:port selects another.)
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from aioproducer import CheckpointStoppedError, Producer
from aioproducer.outlets import Checkpoint, DeadLetters

KAFKA = os.environ.get("KAFKA", "localhost:9092")
PAUSE = 0.2
"""Seconds between two looks at the end of the file, and after a failure."""


class Position:
    """The number of bytes of the file that are written, in a file that is replaced as a whole."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._next = path.with_suffix(".next")

    def load(self) -> int:
        """The last saved position, 0 at first."""
        return int(self._path.read_text()) if self._path.exists() else 0

    def save(self, position: int) -> None:
        """A crash leaves the former position or this one."""
        with self._next.open("w") as file:
            file.write(str(position))
            file.flush()
            os.fsync(file.fileno())
        self._next.replace(self._path)


async def lines(path: Path, after: int) -> AsyncIterator[tuple[bytes, int]]:
    """Each complete line behind a position, with the position of its end."""
    with path.open("rb") as file:
        file.seek(after)
        while True:
            line = file.readline()
            if line.endswith(b"\n"):
                yield line[:-1], file.tell()
            else:
                # The rest of the line is not there yet.
                file.seek(-len(line), os.SEEK_CUR)
                await asyncio.sleep(PAUSE)


async def follow(path: Path, producer: Producer, topic: str) -> None:
    """Send the lines until the task is cancelled."""
    position = Position(path.with_name(path.name + ".position"))
    letters = DeadLetters(producer, topic + ".dead")
    async with Checkpoint(producer, position.save, dead_letters=letters) as checkpoint:
        start = position.load()
        while True:
            try:
                async for line, end in lines(path, start):
                    await checkpoint.send(topic, line)
                    checkpoint.mark(end)
            except CheckpointStoppedError as error:
                print(f"a line is not written, going on before it: {error}", file=sys.stderr)
                # None: nothing is written since the start.
                start = await checkpoint.rewind() or start
                await asyncio.sleep(PAUSE)


async def main(path: Path) -> None:
    """Follow the file until SIGTERM or Ctrl-C."""
    async with Producer(KAFKA) as producer:
        task = asyncio.create_task(follow(path, producer, "lines"))
        for how in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(how, task.cancel)
        await asyncio.wait([task])
        if not task.cancelled():
            task.result()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
