"""Offsets of groups that are committed in transactions."""

from __future__ import annotations

import pytest

from aioproducer._wire.error_codes import ErrorCode
from tests.contract.client import WireClient, until
from tests.contract.transactions.transacting import (
    BUMPING_END,
    PLAIN_END,
    Member,
    Transactor,
    Who,
    read_offset,
)

NOTHING = (0, -1, -1, "", 0)
UNSTABLE = (0, -1, -1, "", int(ErrorCode.UNSTABLE_OFFSET_COMMIT))


@pytest.fixture
async def transactor(client: WireClient, name: str) -> Transactor:
    """A transactional id that is initialized; the group has the name of the topic."""
    await client.create_topic(name)
    made = Transactor(client, f"id-{name}", name)
    await made.init()
    return made


async def _stable(transactor: Transactor) -> int:
    """The group's offset when no transaction can change it any more."""
    found = await until(
        lambda: read_offset(transactor.client, transactor.topic, transactor.topic, stable=True),
        lambda one: one.error_code != ErrorCode.UNSTABLE_OFFSET_COMMIT,
    )
    return found.committed_offset


async def _commit(transactor: Transactor, offset: int) -> None:
    assert await transactor.add_group(transactor.topic) == 0
    assert await transactor.commit_offset(transactor.topic, offset) == 0


@pytest.mark.parametrize("version", range(5))
async def test_every_version_commits(transactor: Transactor, version: int) -> None:
    """In a group without members; the group is added first."""
    assert await transactor.add_group(transactor.topic, version=min(version, 4)) == 0
    assert await transactor.commit_offset(transactor.topic, 7, version=version) == 0
    await transactor.finish()
    assert await _stable(transactor) == 7


async def test_committing_adds_the_group_since_version_5(transactor: Transactor) -> None:
    """No AddOffsetsToTxn is needed."""
    assert await transactor.commit_offset(transactor.topic, 7, version=5) == 0
    await transactor.finish(version=BUMPING_END)
    assert await _stable(transactor) == 7


@pytest.mark.parametrize(
    ("version", "code"), [(3, ErrorCode.INVALID_TXN_STATE), (4, ErrorCode.TRANSACTION_ABORTABLE)]
)
async def test_a_group_that_was_not_added_takes_nothing(
    transactor: Transactor, version: int, code: ErrorCode
) -> None:
    """Up to version 4."""
    assert await transactor.commit_offset(transactor.topic, 7, version=version) == code


async def test_an_offset_is_pending_until_the_transaction_ends(transactor: Transactor) -> None:
    """A request for a stable offset must be repeated; other requests get the old offset."""
    await _commit(transactor, 3)
    assert tuple(await read_offset(transactor.client, transactor.topic, transactor.topic)) == NOTHING
    pending = await read_offset(transactor.client, transactor.topic, transactor.topic, stable=True)
    assert tuple(pending) == UNSTABLE
    await transactor.finish()
    assert await _stable(transactor) == 3


async def test_an_abort_drops_the_offset(transactor: Transactor) -> None:
    """The one from before is in force."""
    await _commit(transactor, 3)
    await transactor.finish()
    await _commit(transactor, 5)
    await transactor.finish(commit=False)
    assert await _stable(transactor) == 3


async def test_init_drops_the_offset_of_an_open_transaction(transactor: Transactor) -> None:
    """It aborts it: fence first, then read."""
    await _commit(transactor, 3)
    await transactor.init()
    assert await _stable(transactor) == -1


async def test_the_note_is_kept(transactor: Transactor) -> None:
    """Metadata of 4096 characters reads back, one more is refused."""
    assert await transactor.add_group(transactor.topic) == 0
    longest = "x" * 4096
    answers = [
        await transactor.commit_offset(transactor.topic, 3, metadata=metadata)
        for metadata in (longest, longest + "x")
    ]
    assert answers == [0, ErrorCode.OFFSET_METADATA_TOO_LARGE]
    await transactor.finish()
    assert await _stable(transactor) == 3
    assert (await read_offset(transactor.client, transactor.topic, transactor.topic)).metadata == longest


async def test_committing_needs_the_present_identity(transactor: Transactor) -> None:
    """Another epoch is refused, another id is unknown."""
    old = transactor.who
    await transactor.init()
    await transactor.add_group(transactor.topic)
    strange = Who(old.producer_id + 100_000, 0)
    answers = [await transactor.commit_offset(transactor.topic, 3, who=who) for who in (old, strange)]
    assert answers == [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_ID_MAPPING]


async def test_a_topic_that_is_not_there_is_refused(transactor: Transactor) -> None:
    """Offsets are kept only for partitions that exist."""
    await transactor.add_group(transactor.topic)
    assert (
        await transactor.commit_offset(transactor.topic, 3, topic=f"{transactor.topic}-none")
        == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    )


async def test_members_of_a_group_that_is_not_there_are_refused(transactor: Transactor) -> None:
    """A generation says that there was a group."""
    await transactor.add_group(transactor.topic)
    member = Member(3, "member")
    assert await transactor.commit_offset(transactor.topic, 3, member=member) == ErrorCode.ILLEGAL_GENERATION


async def test_a_group_needs_a_name(transactor: Transactor) -> None:
    """The empty one is INVALID_GROUP_ID."""
    assert await transactor.commit_offset("", 3) == ErrorCode.INVALID_GROUP_ID


async def test_the_group_is_a_partition_of_the_transaction(transactor: Transactor) -> None:
    """That of the topic in which Kafka keeps the offsets of the group."""
    await transactor.add_group(transactor.topic)
    [topic] = (await transactor.describe()).topics
    assert (topic.topic, len(topic.partitions)) == ("__consumer_offsets", 1)
    assert await transactor.end(commit=False, version=PLAIN_END) == 0
