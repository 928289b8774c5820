"""Transactions: the producers that may write, the ends, and the answers to repeated requests."""

from __future__ import annotations

import pytest

from aioproducer._wire.error_codes import ErrorCode
from aioproducer._wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from tests.contract.client import WireClient, until
from tests.contract.transactions.transacting import (
    ADDED,
    BUMPING_END,
    IMPLICIT,
    PLAIN_END,
    Transactor,
    Who,
    read,
)

BOTH_ENDS = pytest.mark.parametrize("end", [PLAIN_END, BUMPING_END])


@pytest.fixture
async def transactor(client: WireClient, name: str) -> Transactor:
    """A transactional id that is initialized, and a topic of two partitions."""
    await client.create_topic(name, 2)
    made = Transactor(client, f"id-{name}", name)
    await made.init()
    return made


def bumped(who: Who, by: int = 1) -> Who:
    """The same producer with another epoch."""
    return who._replace(epoch=who.epoch + by)


# ----- InitProducerId


async def test_each_init_raises_the_epoch(transactor: Transactor) -> None:
    """The first epoch is 0; the producer id stays."""
    first = transactor.who
    assert first.epoch == 0
    assert [await transactor.init(), await transactor.init()] == [bumped(first), bumped(first, 2)]


@pytest.mark.parametrize("version", range(6))
async def test_every_version_initializes(transactor: Transactor, version: int) -> None:
    """All versions answer with id and epoch."""
    answer = await transactor.ask_init(version=version)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (
        0,
        transactor.who.producer_id,
        1,
    )


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
async def test_a_time_limit_out_of_range_is_refused(transactor: Transactor, timeout_ms: int) -> None:
    """It must be positive and not over transaction.max.timeout.ms."""
    answer = await transactor.ask_init(timeout_ms)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (
        ErrorCode.INVALID_TRANSACTION_TIMEOUT,
        -1,
        -1,
    )


async def test_init_over_an_open_transaction_aborts_it(transactor: Transactor) -> None:
    """The answer is to ask again; the epoch is then two higher."""
    old = transactor.who
    await transactor.add_and_write(2)
    assert (await transactor.ask_init()).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    assert await transactor.init() == bumped(old, 2)
    described = await transactor.client.describe(transactor.topic)
    seen = await read(transactor.client, described.topic_id)
    assert (seen.offsets, seen.end) == ([], 3)


async def test_a_producer_may_ask_for_its_next_epoch(transactor: Transactor) -> None:
    """With the present id and epoch it gets the next one; a repeated request gets the same one again (KIP-360)."""
    old = transactor.who
    for _ in range(2):
        answer = await transactor.ask_init(expected=old)
        assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (0, old.producer_id, 1)


@pytest.mark.parametrize(
    ("version", "code"), [(3, ErrorCode.INVALID_PRODUCER_EPOCH), (4, ErrorCode.PRODUCER_FENCED)]
)
async def test_a_superseded_producer_gets_no_next_epoch(
    transactor: Transactor, version: int, code: ErrorCode
) -> None:
    """After another init the old epoch is fenced, by the name that the version has for it."""
    old = transactor.who
    await transactor.init()
    assert (await transactor.ask_init(expected=old, version=version)).error_code == code


async def test_another_producer_id_gets_no_next_epoch(transactor: Transactor) -> None:
    """An id that is not that of the transactional id is fenced."""
    strange = Who(transactor.who.producer_id + 100_000, 0)
    assert (await transactor.ask_init(expected=strange)).error_code == ErrorCode.PRODUCER_FENCED


async def test_a_transactional_id_that_is_new_gives_a_new_identity(client: WireClient, name: str) -> None:
    """Whatever identity is expected: its coordinator may have forgotten it."""
    known = Transactor(client, f"id-{name}", name)
    first = await known.init()
    answer = await Transactor(client, f"other-{name}", name).ask_init(expected=bumped(first, 7))
    assert (answer.error_code, answer.producer_epoch) == (0, 0)
    assert answer.producer_id != first.producer_id


# ----- AddPartitionsToTxn


@pytest.mark.parametrize("version", range(4))
async def test_every_version_adds_partitions(transactor: Transactor, version: int) -> None:
    """Each partition has its own answer."""
    assert await transactor.add(0, 1, version=version) == {0: 0, 1: 0}


async def test_partitions_are_added_all_or_none(transactor: Transactor) -> None:
    """If one is unknown, the others are not even tried."""
    errors = await transactor.add(0, 7)
    assert errors == {0: ErrorCode.OPERATION_NOT_ATTEMPTED, 7: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert (await transactor.describe()).transaction_state == "Empty"


async def test_adding_needs_the_present_identity(transactor: Transactor) -> None:
    """Another id is unknown, a lower or a higher epoch is fenced; old versions have the old name for that."""
    strange = Who(transactor.who.producer_id + 100_000, 0)
    assert await transactor.add(who=strange) == {0: ErrorCode.INVALID_PRODUCER_ID_MAPPING}
    assert await transactor.add(who=bumped(transactor.who)) == {0: ErrorCode.PRODUCER_FENCED}
    old = transactor.who
    await transactor.init()
    assert await transactor.add(who=old) == {0: ErrorCode.PRODUCER_FENCED}
    assert await transactor.add(who=old, version=1) == {0: ErrorCode.INVALID_PRODUCER_EPOCH}


async def test_a_transactional_id_that_nobody_initialized_adds_nothing(
    client: WireClient, transactor: Transactor
) -> None:
    """Its producer id cannot be right."""
    nobody = Transactor(client, f"nobody-{transactor.id}", transactor.topic)
    assert await nobody.add(who=transactor.who) == {0: ErrorCode.INVALID_PRODUCER_ID_MAPPING}


async def _many(transactor: Transactor, who: Who, *, verify: bool, version: int) -> dict[int, int]:
    """The error codes of AddPartitionsToTxn as between brokers, for one transaction and both partitions."""
    topics = [AddPartitionsToTxnTopic(transactor.topic, [0, 1])]
    asked = [AddPartitionsToTxnTransaction(transactor.id, *who, verify, topics)]
    answer = await transactor.client.ask(AddPartitionsToTxnRequest(asked), version)
    [result] = answer.results_by_transaction
    assert (answer.error_code, result.transactional_id) == (0, transactor.id)
    return {
        one.partition_index: one.partition_error_code for one in result.topic_results[0].results_by_partition
    }


@pytest.mark.parametrize("version", [4, 5])
async def test_brokers_ask_whether_partitions_were_added(transactor: Transactor, version: int) -> None:
    """Each has its answer; asking adds none."""
    await transactor.add(1)
    for _ in range(2):
        answers = await _many(transactor, transactor.who, verify=True, version=version)
        assert answers == {0: ErrorCode.TRANSACTION_ABORTABLE, 1: 0}
    old = bumped(transactor.who, -1)
    fenced = await _many(transactor, old, verify=True, version=version)
    assert fenced == dict.fromkeys((0, 1), ErrorCode.PRODUCER_FENCED)


@pytest.mark.parametrize("version", [4, 5])
async def test_brokers_add_partitions(transactor: Transactor, version: int) -> None:
    """For producers that only write to them."""
    assert await _many(transactor, transactor.who, verify=False, version=version) == {0: 0, 1: 0}
    described = await transactor.describe()
    assert [(one.topic, sorted(one.partitions)) for one in described.topics] == [(transactor.topic, [0, 1])]


# ----- writing


@pytest.mark.parametrize(
    ("version", "code"), [(10, ErrorCode.INVALID_TXN_STATE), (ADDED, ErrorCode.TRANSACTION_ABORTABLE)]
)
async def test_a_partition_that_was_not_added_takes_nothing(
    transactor: Transactor, version: int, code: ErrorCode
) -> None:
    """Produce up to version 11 is verified (KIP-890), also when the transaction has other partitions."""
    assert await transactor.write(version=version) == (code, -1)
    await transactor.add(1)
    assert await transactor.write(version=version) == (code, -1)


async def test_writing_adds_the_partition_since_version_12(transactor: Transactor) -> None:
    """No request for it is needed."""
    assert await transactor.write(2, version=IMPLICIT) == (0, 0)
    described = await transactor.describe()
    assert [(one.topic, list(one.partitions)) for one in described.topics] == [(transactor.topic, [0])]
    assert described.transaction_state == "Ongoing"


@pytest.mark.parametrize("version", [ADDED, IMPLICIT])
async def test_writing_needs_the_present_identity(transactor: Transactor, version: int) -> None:
    """Another epoch is INVALID_PRODUCER_EPOCH, which is not fatal to a producer; another id is unknown."""
    old = transactor.who
    await transactor.init()
    strange = Who(old.producer_id + 100_000, 0)
    assert await transactor.write(version=version, who=old) == (ErrorCode.INVALID_PRODUCER_EPOCH, -1)
    assert await transactor.write(version=version, who=strange) == (ErrorCode.INVALID_PRODUCER_ID_MAPPING, -1)


async def test_sequences_begin_with_0_where_writing_adds(transactor: Transactor) -> None:
    """A partition that does not know the producer takes no other sequence from it."""
    assert await transactor.write(version=IMPLICIT, sequence=3) == (
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        -1,
    )


async def test_an_open_transaction_takes_no_other_records_of_its_producer(transactor: Transactor) -> None:
    """Records outside of the transaction are INVALID_TXN_STATE."""
    await transactor.add_and_write()
    assert await transactor.write(transactional=False) == (ErrorCode.INVALID_TXN_STATE, -1)


async def test_sequences_go_on_after_a_plain_end(transactor: Transactor) -> None:
    """The epoch is the same, so the sequences are."""
    await transactor.add_and_write(3)
    await transactor.finish()
    await transactor.add()
    assert await transactor.write(sequence=3) == (0, 4)


async def test_a_refused_first_batch_holds_back_those_behind_it(transactor: Transactor) -> None:
    """The lowest sequence that a transaction tried to begin with in a partition must be the first to be written."""
    await transactor.add_and_write(3)
    await transactor.finish()
    await transactor.add()
    answers = [(await transactor.write(sequence=sequence))[0] for sequence in (5, 0, 3)]
    assert answers == [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER] * 3


async def test_sequences_begin_again_after_an_end_that_raised_the_epoch(transactor: Transactor) -> None:
    """The new epoch begins with 0, and nothing else."""
    assert (await transactor.write(3, version=IMPLICIT))[0] == 0
    await transactor.finish(version=BUMPING_END)
    transactor.take(bumped(transactor.who))
    assert (await transactor.write(version=IMPLICIT, sequence=3))[0] == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert await transactor.write(version=IMPLICIT, sequence=0) == (0, 4)


# ----- the end: the table of Kafka 4.3


@BOTH_ENDS
@pytest.mark.parametrize("write", [ADDED, IMPLICIT])
@pytest.mark.parametrize("commit", [True, False])
async def test_a_transaction_ends(transactor: Transactor, write: int, end: int, commit: bool) -> None:
    """However it was written and ended; from version 5 on the answer has the next epoch."""
    if write == ADDED:
        await transactor.add()
    assert (await transactor.write(version=write))[0] == 0
    answer = await transactor.ask_end(commit=commit, version=end)
    next_one = (-1, -1) if end == PLAIN_END else bumped(transactor.who)
    assert (answer.error_code, (answer.producer_id, answer.producer_epoch)) == (0, next_one)
    assert await transactor.complete() == ("CompleteCommit" if commit else "CompleteAbort")


@pytest.mark.parametrize("version", range(6))
async def test_every_version_ends(transactor: Transactor, version: int) -> None:
    """All versions commit."""
    await transactor.add_and_write()
    assert await transactor.end(version=version) == 0


@BOTH_ENDS
@pytest.mark.parametrize("commit", [True, False])
async def test_the_same_end_may_be_repeated(transactor: Transactor, end: int, commit: bool) -> None:
    """Under the epoch from before the end it gets the same answer, as often as it likes."""
    await transactor.add_and_write()
    answers = [await transactor.ask_end(commit=commit, version=end) for _ in range(3)]
    assert answers == [answers[0]] * 3
    assert answers[0].error_code == 0


async def test_a_repetition_in_a_newer_version_is_illegal(transactor: Transactor) -> None:
    """A commit of version 4 repeated in version 5 would be one of an empty transaction."""
    await transactor.add_and_write()
    await transactor.finish(version=PLAIN_END)
    assert await transactor.end(version=BUMPING_END) == ErrorCode.INVALID_TXN_STATE


async def test_a_repetition_in_an_older_version_is_fenced(transactor: Transactor) -> None:
    """Version 4 does not know that the epoch was raised by the end itself."""
    await transactor.add_and_write()
    await transactor.finish(version=BUMPING_END)
    assert await transactor.end(version=PLAIN_END) == ErrorCode.PRODUCER_FENCED
    assert await transactor.end(version=1) == ErrorCode.INVALID_PRODUCER_EPOCH


@BOTH_ENDS
@pytest.mark.parametrize("commit", [True, False])
async def test_an_end_cannot_be_turned_round(transactor: Transactor, end: int, commit: bool) -> None:
    """Abort after commit and commit after abort are illegal."""
    await transactor.add_and_write()
    await transactor.finish(commit=commit, version=end)
    assert await transactor.end(commit=not commit, version=end) == ErrorCode.INVALID_TXN_STATE


@BOTH_ENDS
async def test_an_empty_transaction_cannot_be_committed(transactor: Transactor, end: int) -> None:
    """Nothing was begun: INVALID_TXN_STATE, also under the next epoch after a commit."""
    assert await transactor.end(version=end) == ErrorCode.INVALID_TXN_STATE
    await transactor.add_and_write()
    await transactor.finish(version=end)
    if end == BUMPING_END:
        assert await transactor.end(version=end, who=bumped(transactor.who)) == ErrorCode.INVALID_TXN_STATE


async def test_an_empty_transaction_cannot_be_aborted_in_version_4(transactor: Transactor) -> None:
    """It is illegal there."""
    assert await transactor.end(commit=False, version=PLAIN_END) == ErrorCode.INVALID_TXN_STATE


async def test_an_empty_transaction_is_aborted_in_version_5(transactor: Transactor) -> None:
    """That raises the epoch: a producer gets rid of its late requests by it."""
    answer = await transactor.ask_end(commit=False, version=BUMPING_END)
    assert (answer.error_code, answer.producer_epoch) == (0, 1)
    answer = await transactor.ask_end(commit=False, version=BUMPING_END, who=bumped(transactor.who))
    assert (answer.error_code, answer.producer_epoch) == (0, 2)


@BOTH_ENDS
async def test_ending_needs_the_present_identity(transactor: Transactor, end: int) -> None:
    """A superseded attempt and a higher epoch are fenced, another id is unknown."""
    old = transactor.who
    await transactor.init()
    await transactor.add_and_write()
    assert await transactor.end(version=end, who=old._replace(epoch=0)) == ErrorCode.PRODUCER_FENCED
    assert await transactor.end(version=end, who=bumped(transactor.who)) == ErrorCode.PRODUCER_FENCED
    strange = Who(old.producer_id + 100_000, 1)
    assert await transactor.end(version=end, who=strange) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert await transactor.end(version=end) == 0


async def test_a_late_write_after_a_plain_end_is_refused_if_partitions_are_added(
    transactor: Transactor,
) -> None:
    """The partition is in no transaction any more."""
    await transactor.add_and_write()
    await transactor.finish(version=PLAIN_END)
    assert await transactor.write() == (ErrorCode.TRANSACTION_ABORTABLE, -1)


async def test_a_late_write_after_a_plain_end_opens_a_transaction_if_writing_adds(
    transactor: Transactor,
) -> None:
    """Never pair Produce 12 with EndTxn 4: the same epoch is still good."""
    assert (await transactor.write(version=IMPLICIT))[0] == 0
    await transactor.finish(version=PLAIN_END)
    assert await transactor.write(version=IMPLICIT) == (0, 2)
    assert (await transactor.describe()).transaction_state == "Ongoing"


@pytest.mark.parametrize("write", [ADDED, IMPLICIT])
async def test_a_late_write_after_an_end_that_raised_the_epoch_is_refused(
    transactor: Transactor, write: int
) -> None:
    """Its epoch is the old one."""
    await transactor.add_and_write()
    await transactor.finish(version=BUMPING_END)
    assert await transactor.write(version=write) == (ErrorCode.INVALID_PRODUCER_EPOCH, -1)


async def test_a_transaction_that_ran_out_of_time_is_aborted(
    client: WireClient, transactor: Transactor
) -> None:
    """Its commit is fenced in version 4, nothing of it is visible, and the epoch is one higher."""
    late = Transactor(client, f"late-{transactor.id}", transactor.topic)
    await late.init(timeout_ms=100)
    await late.add_and_write()
    state = await until(late.describe, lambda one: one.transaction_state != "Ongoing")
    assert state.transaction_state in {"PrepareAbort", "CompleteAbort"}
    await late.complete()
    assert await late.end(version=PLAIN_END) == ErrorCode.PRODUCER_FENCED
    old = late.who
    assert await late.init() == bumped(old, 2)
    topic = await client.describe(transactor.topic)
    assert (await read(client, topic.topic_id)).offsets == []


async def test_the_commit_of_a_transaction_out_of_time_is_illegal_in_version_5(
    client: WireClient, transactor: Transactor
) -> None:
    """The abort has raised the epoch, so the commit looks like a repetition of the end that was none."""
    late = Transactor(client, f"late-{transactor.id}", transactor.topic)
    await late.init(timeout_ms=100)
    assert (await late.write(version=IMPLICIT))[0] == 0
    await until(late.describe, lambda one: one.transaction_state == "CompleteAbort")
    assert await late.end(version=BUMPING_END) == ErrorCode.INVALID_TXN_STATE
    assert await late.end(commit=False, version=BUMPING_END) == 0
