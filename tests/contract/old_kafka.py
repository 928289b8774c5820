"""How Kafka 3.9 differs from 4.3 in what the contract suite asks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import pytest

from aioproducer._wire.apis import api_of
from tests.contract.client import WireClient

NEWEST: Final[Mapping[int, int]] = {0: 11, 1: 17, 2: 9, 3: 12, 8: 9, 9: 9, 26: 4, 28: 4, 60: 1, 66: 1}
"""The newest version that 3.9 takes of each request (by API key) of which the suite knows a newer one."""

OTHERWISE: Final[Mapping[str, str]] = {
    "test_the_ranges_of_all_apis_are_those_of_kafka": "its ranges are its own: tests/kafka/test_old_broker.py",
    "test_transaction_version_two_is_finalized": "transaction.version came with 4.0",
    "test_every_version_commits[old-10]": "OffsetCommit 10 came with 4.1",
    "test_every_version_reads_back[old-10]": "OffsetFetch 10 came with 4.1",
    "test_offsets_of_what_is_not_there_are_refused": "it asks with OffsetCommit 10",
    "test_version_13_names_topics_by_id": "Produce 13 came with 4.1",
    "test_an_unknown_topic_id_is_refused": "it asks with Produce 13",
    "test_a_deleted_topic_is_unknown_by_name_and_by_id": "it asks with Produce 13",
    "test_a_time_too_far_in_the_future_names_the_record": "timestamps have had that limit since 4.0 (KIP-1030)",
    "test_the_cluster_can_be_described[old-2]": "DescribeCluster 2 came with 4.0",
    "test_writing_adds_the_partition_since_version_12": "Produce 12 came with 4.0",
    "test_sequences_begin_with_0_where_writing_adds": "it asks with Produce 12",
    "test_sequences_begin_again_after_an_end_that_raised_the_epoch": "it asks with Produce 12",
    "test_a_late_write_after_a_plain_end_opens_a_transaction_if_writing_adds": "it asks with Produce 12",
    "test_a_transaction_ends[old-True-11-5]": "EndTxn 5 came with 4.0",
    "test_a_transaction_ends[old-True-12-4]": "it asks with Produce 12",
    "test_a_transaction_ends[old-True-12-5]": "it asks with Produce 12 and EndTxn 5",
    "test_a_transaction_ends[old-False-11-5]": "it asks with EndTxn 5",
    "test_a_transaction_ends[old-False-12-4]": "it asks with Produce 12",
    "test_a_transaction_ends[old-False-12-5]": "it asks with Produce 12 and EndTxn 5",
    "test_a_repetition_in_a_newer_version_is_illegal": "it asks with EndTxn 5",
    "test_a_repetition_in_an_older_version_is_fenced": "it asks with EndTxn 5",
    "test_an_empty_transaction_cannot_be_committed[old-5]": "it asks with EndTxn 5",
    "test_an_empty_transaction_is_aborted_in_version_5": "it asks with EndTxn 5",
    "test_a_late_write_after_an_end_that_raised_the_epoch_is_refused": "it asks with EndTxn 5",
    "test_the_commit_of_a_transaction_out_of_time_is_illegal_in_version_5": "it asks with EndTxn 5",
    "test_a_marker_is_a_control_batch[old-True-5]": "it asks with EndTxn 5",
    "test_a_marker_is_a_control_batch[old-False-5]": "it asks with EndTxn 5",
    "test_committing_adds_the_group_since_version_5": "TxnOffsetCommit 5 came with 4.0",
    "test_members_of_a_group_that_is_not_there_are_refused": "it makes the group first, which has no such member",
    "test_patterns_filter": "ListTransactions 2 came with 4.1",
    "test_a_broken_pattern_is_refused": "it asks with ListTransactions 2",
}
"""The tests that 3.9 does not pass, by name, with the reason. Its own behaviour is in tests/kafka/test_old_broker.py."""


def lowered(request_type: type[tuple[Any, ...]], version: int) -> int:
    """`version`, or the newest that 3.9 takes of this request."""
    return min(version, NEWEST.get(api_of(request_type).key, version))


class OldKafkaClient(WireClient):
    """Asks in the newest version that 3.9 takes where a test asks in a newer one."""

    @staticmethod
    def frame(request: tuple[Any, ...], version: int, correlation_id: int = 1) -> bytes:
        """A request as it is on the wire."""
        return WireClient.frame(request, lowered(type(request), version), correlation_id)

    async def receive(self, request: tuple[Any, ...], version: int) -> tuple[int, Any]:
        """The next answer, taken for one to `request`."""
        return await super().receive(request, lowered(type(request), version))


def not_for_old_kafka(items: list[pytest.Item]) -> Iterator[pytest.Item]:
    """The tests among these whose answer 3.9 cannot give."""
    for item in items:
        if not isinstance(item, pytest.Function) or "contract" not in item.path.parts:
            continue
        old = getattr(item, "callspec", None) is not None and item.callspec.params.get("address") == "old"
        if old and (item.name in OTHERWISE or item.originalname in OTHERWISE):
            yield item
