"""Reading a partition's log onward for one batch, also where its leader changes meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from aioproducer._net.cluster.leaders import EARLIEST, FIRST_BY_ID, LATEST
from aioproducer._state.cluster.facts import NO_TOPIC_ID
from aioproducer._state.resolving.known import STILL_SENT, known_verdict
from aioproducer._state.resolving.search import NAMED_ONLY, NO_ANCHOR, OTHER_TOPIC, Search, Verdict, Wanted
from aioproducer._wire.apis import FETCH
from aioproducer._wire.error_codes import ErrorCode, describe
from aioproducer._wire.heads import heads_of
from aioproducer.errors import KafkaError
from aioproducer.outcome import Outcome

if TYPE_CHECKING:
    from aioproducer._net.cluster.leaders import Leaders
    from aioproducer._net.cluster.metadata_task import Cluster
    from aioproducer._net.cluster.session import Session
    from aioproducer._net.connecting.connection.connection import Connection
    from aioproducer._state.cluster.facts import Node, TopicFacts
    from aioproducer._state.queues.batches import QueuedBatch

NO_LEADER: Final = "the partition has no known leader"
MAY_NOT_READ: Final = "the principal of this producer may not read the topic (READ)"
# Without an acknowledged record to begin at, a log of at most so many records is read from its first one on.
READ_WHOLE: Final = 100_000
# Clocks differ: the batch is looked for from so long before its newest timestamp on.
EARLIER_MS: Final = 60_000


class Reading:
    """One step at a time: the next batches, or the reason why they could not be read."""

    def __init__(self, session: Session, cluster: Cluster, leaders: Leaders, batch: QueuedBatch) -> None:
        self._session = session
        self._cluster = cluster
        self._leaders = leaders
        self._batch = batch
        self._search = self._begun()
        # The connection to the leader and its leader epoch, of all that was read.
        self._source: tuple[Connection, int] | None = None
        self._has_read_on = False
        self._trouble = ""
        # No later attempt helps.
        self.is_hopeless = False

    def _begun(self) -> Search:
        batch = self._batch
        assert batch.identity is not None  # noqa: S101  # the resolver looked
        return Search(Wanted(*batch.identity, batch.sequence, batch.anchor))

    @property
    def has_more(self) -> bool:
        """Whether the next step is worth no pause."""
        return self._has_read_on and not self._trouble and not self._search.is_at_the_end

    def verdict(self, now_ms: int) -> Verdict:
        """The outcome, as far as the log was read."""
        known = known_verdict(self._batch)
        if known is not None:
            return known
        if self._trouble:
            return Verdict(Outcome.UNKNOWN, reason=self._trouble)
        found = self._search.verdict(now_ms)
        is_early = not self._batch.settled or self._has_other_numbers
        return STILL_SENT if found.outcome is Outcome.NOT_WRITTEN and is_early else found

    async def step(self) -> None:
        """Read on, or find the place to begin at."""
        facts = self._session.view.topic(self._batch.topic)
        node = None if facts is None else self._leader(facts)
        if facts is None or node is None:
            self._retry(NO_LEADER)
            return
        epoch = facts.partitions.leader_epochs[self._batch.partition]
        self._has_read_on = False
        try:
            connection = await self._leaders.connection(node)
            self._trouble = ""
            if self._has_other_numbers or self._source != (connection, epoch):
                # An unclean election replaces records that were read: the search begins again with another log.
                self._search, self._source = self._begun(), (connection, epoch)
            if self._search.position is None:
                await self._find_the_place(connection)
            if self._search.position is not None and not self._trouble:
                await self._read(connection, epoch, self._topic_id(facts))
        except KafkaError as error:
            self._retry(str(error))

    @property
    def _has_other_numbers(self) -> bool:
        """Whether the batch was numbered anew since the search began: of its records, one had ended before the others."""
        wanted, batch = self._search.wanted, self._batch
        return ((wanted.producer_id, wanted.epoch), wanted.sequence) != (batch.identity, batch.sequence)

    def _leader(self, facts: TopicFacts) -> Node | None:
        at = self._batch.partition
        leader = facts.partitions.leaders[at] if at < len(facts.partitions) else -1
        return self._session.view.brokers.node(leader)

    def _topic_id(self, facts: TopicFacts) -> bytes:
        """The id of the topic that the batch was sent to; of requests by name, that of the present one."""
        batch = self._batch
        # Another attempt may have named the topic, and reached the former one.
        is_older = batch.owner is not None and batch.nth <= batch.queue.numbered_before
        if is_older or (batch.owner is None and batch.sent_to == NO_TOPIC_ID):
            self._search.cannot_prove_absence(OTHER_TOPIC)
        return facts.topic_id if batch.sent_to == NO_TOPIC_ID else batch.sent_to

    def _retry(self, trouble: str) -> None:
        self._trouble = trouble
        self._cluster.want(self._batch.topic)

    def _refused(self, code: int) -> None:
        if code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            self._trouble, self.is_hopeless = MAY_NOT_READ, True
        elif code == ErrorCode.UNKNOWN_TOPIC_ID:
            self._retry(OTHER_TOPIC)
        else:
            self._retry(f"the leader answered {describe(code)}")

    async def _find_the_place(self, connection: Connection) -> None:
        """The whole log where it is short; otherwise from the first record on that is not older than the batch."""
        earliest = await self._offset(connection, EARLIEST)
        latest = await self._offset(connection, LATEST)
        if earliest is None or latest is None:
            return
        if earliest == 0 and latest <= READ_WHOLE:
            self._search.begin(0, whole=True)
            return
        moment = max(0, self._batch.max_timestamp - EARLIER_MS)
        found = await self._offset(connection, moment)
        if found is not None:
            self._search.begin(found if found >= 0 else latest, whole=False)

    async def _offset(self, connection: Connection, moment: int) -> int | None:
        answer = await self._leaders.offset(connection, self._batch.topic, self._batch.partition, moment)
        if answer.error_code:
            self._refused(answer.error_code)
            return None
        return answer.offset

    async def _read(self, connection: Connection, leader_epoch: int, topic_id: bytes) -> None:
        search, position = self._search, self._search.position
        assert position is not None  # noqa: S101  # step() looked
        if topic_id == NO_TOPIC_ID or connection.versions.choose(FETCH) < FIRST_BY_ID:
            search.cannot_prove_absence(NAMED_ONLY)
        data = await self._leaders.batches(
            connection, self._batch.topic, topic_id, self._batch.partition, position, leader_epoch
        )
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            # The records there were deleted, or an unclean election lost them.
            search.cannot_prove_absence(NO_ANCHOR)
            search.position = None
        elif data.error_code:
            self._refused(data.error_code)
        else:
            search.read(heads_of(data.records), data.high_watermark)
            self._has_read_on = search.position != position
