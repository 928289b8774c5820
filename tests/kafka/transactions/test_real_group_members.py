"""The checks of a real Kafka on the member of an offset commit in a transaction, and those of the embedded `set_group`."""

from __future__ import annotations

import pytest

from aioproducer._wire.error_codes import ErrorCode
from aioproducer._wire.messages.find_coordinator import FindCoordinatorRequest
from aioproducer._wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from aioproducer._wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.contract.client import WireClient, until
from tests.contract.transactions.transacting import GROUP, Member, Transactor
from tools.kafka_cluster import KafkaCluster

pytestmark = pytest.mark.kafka
INSTANCE = "instance"


async def _join(client: WireClient, group: str) -> Member:
    """Join as the only member of a group, a static one."""
    find = FindCoordinatorRequest(key_type=GROUP, coordinator_keys=[group])
    await until(lambda: client.ask(find, 6), lambda answer: answer.coordinators[0].error_code == 0)
    join = JoinGroupRequest(
        group, 30_000, 30_000, "", INSTANCE, "consumer", [JoinGroupRequestProtocol("range", b"")]
    )
    joined = await until(lambda: client.ask(join, 7), lambda answer: answer.error_code == 0)
    assignment = [SyncGroupRequestAssignment(joined.member_id, b"")]
    sync = SyncGroupRequest(
        group, joined.generation_id, joined.member_id, INSTANCE, "consumer", "range", assignment
    )
    assert (await client.ask(sync, 5)).error_code == 0
    return Member(joined.generation_id, joined.member_id, INSTANCE)


async def test_members_are_checked(real_kafka: KafkaCluster) -> None:
    """A commit without a member is accepted; a named member must match in instance and generation (KIP-447)."""
    topic = real_kafka.create_topic("group-members", 1)
    async with WireClient(real_kafka.bootstrap_servers) as client:
        transactor = Transactor(client, "group-members", topic)
        await transactor.init()
        member = await _join(client, "group-members")
        asked = {
            "nobody": Member(),
            "the member": member,
            "without its instance": member._replace(instance_id=None),
            "an old generation": member._replace(generation=member.generation - 1),
            "a stranger": Member(member.generation, "stranger"),
            "a stranger of its instance": Member(member.generation, "stranger", INSTANCE),
            "of another instance": member._replace(instance_id="nobody"),
            "a member without a generation": member._replace(generation=-1),
        }
        answers = {
            name: await transactor.commit_offset("group-members", 1, version=5, member=who)
            for name, who in asked.items()
        }
    assert answers == {
        "nobody": ErrorCode.NONE,
        "the member": ErrorCode.NONE,
        "without its instance": ErrorCode.NONE,
        "an old generation": ErrorCode.ILLEGAL_GENERATION,
        "a stranger": ErrorCode.UNKNOWN_MEMBER_ID,
        "a stranger of its instance": ErrorCode.FENCED_INSTANCE_ID,
        "of another instance": ErrorCode.UNKNOWN_MEMBER_ID,
        "a member without a generation": ErrorCode.ILLEGAL_GENERATION,
    }
