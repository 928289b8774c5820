"""The readers' view of transactions: markers, the last stable offset, and aborted records."""

from __future__ import annotations

import pytest

from aioproducer._wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from aioproducer.testing.broker.logs.batches import read_header
from aioproducer.testing.broker.logs.markers import Marker, read_marker
from aioproducer.testing.broker.logs.records import split_batches
from tests.contract.batches import plain
from tests.contract.client import WireClient
from tests.contract.transactions.transacting import BUMPING_END, PLAIN_END, Seen, Transactor, fetch, read

LATEST = -1
BOTH_ENDS = pytest.mark.parametrize("end", [PLAIN_END, BUMPING_END])


class Scene:
    """A topic of one partition, two transactional ids that write to it, and a reader."""

    def __init__(self, client: WireClient, topic: str, topic_id: bytes) -> None:
        self.client, self.topic, self.topic_id = client, topic, topic_id
        self.one = Transactor(client, f"one-{topic}", topic)
        self.other = Transactor(client, f"other-{topic}", topic)

    async def seen(self, *, committed: bool = True) -> Seen:
        """The records and offsets that a reader gets."""
        return await read(self.client, self.topic_id, committed=committed)

    async def end(self, *, committed: bool, version: int = 9) -> int:
        """Where ListOffsets says that the partition ends."""
        asked = [ListOffsetsTopic(self.topic, [ListOffsetsPartition(0, -1, LATEST)])]
        answer = await self.client.ask(ListOffsetsRequest(-1, int(committed), asked), version)
        offset: int = answer.topics[0].partitions[0].offset
        return offset


@pytest.fixture
async def scene(client: WireClient, name: str) -> Scene:
    """Both are initialized."""
    made = Scene(client, name, (await client.create_topic(name)).topic_id)
    await made.one.init()
    await made.other.init()
    return made


async def test_an_open_transaction_hides_itself(scene: Scene) -> None:
    """Readers of committed records stop at its first record, the others do not."""
    await scene.client.produce(scene.topic, plain(2))
    await scene.one.add_and_write(3)
    assert await scene.seen() == Seen([0, 1], 2, 5, [])
    assert await scene.seen(committed=False) == Seen([0, 1, 2, 3, 4], 2, 5, None)


async def test_an_open_transaction_hides_what_is_behind_it(scene: Scene) -> None:
    """Also records that others have committed since, and records outside transactions."""
    await scene.one.add_and_write()
    await scene.other.add_and_write()
    await scene.other.finish()
    await scene.client.produce(scene.topic, plain())
    assert await scene.seen() == Seen([], 0, 4, [])
    await scene.one.finish()
    assert await scene.seen() == Seen([0, 1, 3], 5, 5, [])


async def test_a_commit_shows_the_records(scene: Scene) -> None:
    """The marker takes an offset, and is no record."""
    await scene.one.add_and_write(2)
    await scene.one.finish()
    assert await scene.seen() == Seen([0, 1], 3, 3, [])
    assert (await scene.seen(committed=False)).offsets == [0, 1]


async def test_an_abort_is_told_to_the_reader(scene: Scene) -> None:
    """With the producer and the start of its transaction; readers of uncommitted records get no such list."""
    await scene.client.produce(scene.topic, plain())
    await scene.one.add_and_write(2)
    await scene.one.finish(commit=False)
    assert await scene.seen() == Seen([0], 4, 4, [(scene.one.who.producer_id, 1)])
    assert await scene.seen(committed=False) == Seen([0, 1, 2], 4, 4, None)


async def test_only_aborted_transactions_that_were_read_are_told(scene: Scene) -> None:
    """One that ended before the offset asked for is left out; one that reaches over it is not."""
    await scene.one.add_and_write(2)
    await scene.one.finish(commit=False)
    await scene.one.add_and_write(2)
    await scene.one.finish(commit=False)
    told = [
        [
            one.first_offset
            for one in (await fetch(scene.client, scene.topic_id, offset=offset)).aborted_transactions or ()
        ]
        for offset in (0, 2, 3, 4, 5, 6)
    ]
    assert told == [[0, 3], [0, 3], [3], [3], [3], []]


async def test_a_producer_may_commit_behind_its_own_abort(scene: Scene) -> None:
    """Only the aborted one of its transactions is left out."""
    await scene.one.add_and_write()
    await scene.one.finish(commit=False)
    await scene.one.add_and_write()
    await scene.one.finish()
    assert (await scene.seen()).offsets == [2]


@pytest.mark.parametrize("version", range(2, 10))
async def test_the_end_for_readers_of_committed_records(scene: Scene, version: int) -> None:
    """ListOffsets gives them the last stable offset."""
    await scene.client.produce(scene.topic, plain(2))
    await scene.one.add_and_write(3)
    ends = [await scene.end(committed=committed, version=version) for committed in (True, False)]
    assert ends == [2, 5]


@BOTH_ENDS
@pytest.mark.parametrize("commit", [True, False])
async def test_a_marker_is_a_control_batch(scene: Scene, end: int, commit: bool) -> None:
    """One record with the kind in its key; EndTxn 5 writes it under the epoch that it raised."""
    await scene.one.add_and_write()
    await scene.one.finish(commit=commit, version=end)
    part = await fetch(scene.client, scene.topic_id, committed=False)
    _, batch = split_batches(part.records or b"")
    header = read_header(batch)
    assert (header.attributes, header.record_count, header.base_offset, header.base_sequence) == (
        0x30,
        1,
        1,
        -1,
    )
    assert header.has_valid_checksum(batch)
    epoch = scene.one.who.epoch + (end == BUMPING_END)
    found = read_marker(batch)
    assert found == Marker(scene.one.who.producer_id, epoch, commit, found.coordinator_epoch)
    assert len(batch) == 78


async def test_the_marker_of_a_fence_has_the_raised_epoch(scene: Scene) -> None:
    """So that nothing under the old epoch can follow it."""
    await scene.one.add_and_write()
    old = scene.one.who
    await scene.one.init()
    part = await fetch(scene.client, scene.topic_id, committed=False)
    *_, batch = split_batches(part.records or b"")
    marker = read_marker(batch)
    assert (marker.producer_id, marker.epoch, marker.commit) == (old.producer_id, old.epoch + 1, False)


async def test_a_partition_without_records_gets_a_marker_too(scene: Scene) -> None:
    """It was added; nothing in it is called aborted."""
    await scene.one.add()
    await scene.one.finish(commit=False)
    assert await scene.seen() == Seen([], 1, 1, [])
