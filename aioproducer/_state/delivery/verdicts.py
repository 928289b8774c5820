"""The meaning of a broker's error code for a batch, and for a producer id, as a table.

Each code answers two questions: what to do next, and whether it proves that this attempt appended nothing. The second
limits the outcome: NOT_WRITTEN is a promise, so an unproven attempt is UNKNOWN.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from types import MappingProxyType

import attrs

from aioproducer._wire.error_codes import ERRORS, ErrorCode, describe
from aioproducer.outcome import Outcome


class Kind(enum.Enum):
    """The next step for a batch after its answer."""

    ACK = "the batch is in the log"
    RETRY = "send it again, under the same identity"
    SPLIT = "send it again in smaller parts; a single record fails"
    FAIL = "it ends; other batches go on"
    NEW_IDENTITY = (
        "its place in the sequence is not what the broker expects: mend the identity, then send again"
    )
    FATAL = "it ends, and this producer may not send again"


@attrs.frozen
class Verdict:
    """The decision about one batch, and the advice for its owner where the decision is final."""

    code: int
    name: str
    kind: Kind
    refresh_metadata: bool
    proves_not_appended: bool
    advice: str

    @property
    def outcome(self) -> Outcome:
        """The outcome of the records if there was no other answer."""
        if self.kind is Kind.ACK:
            return Outcome.ACKED
        return Outcome.NOT_WRITTEN if self.proves_not_appended else Outcome.UNKNOWN


class IdentityKind(enum.Enum):
    """The next step after an answer to InitProducerId."""

    OBTAINED = "the producer has an identity"
    RETRY = "ask again after the backoff"
    LOOK_UP = "find the coordinator again, then ask again"
    FATAL = "this producer gets no identity until something is changed by hand"


@attrs.frozen
class IdentityVerdict:
    """The decision after an answer to InitProducerId."""

    code: int
    name: str
    kind: IdentityKind
    advice: str


# Codes of a failed look-up of a partition. Before the append they prove that nothing was written. But a leader that
# loses its leadership while it waits for its followers answers with the same codes *after* it has appended
# (DelayedProduce replaces the error of a response that already has its base offset): only an answer without an offset
# is a proof.
LOOK_UP_CODES = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.LISTENER_NOT_FOUND,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)

# The broker refuses these before the log is touched: authorization and request checks of KafkaApis, LogValidator,
# ProducerAppendInfo, and the in-sync check in front of the append (Partition.appendRecordsToLeader).
# Not among them on purpose: 7 and 20 (appended, not replicated), 13 (stands for a connection that broke),
# 56 (the disk failed while appending: recovery may find the batch), -1 (anything).
REFUSED_BEFORE_APPEND = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.INVALID_REQUIRED_ACKS,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ErrorCode.POLICY_VIOLATION,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        ErrorCode.INVALID_RECORD,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.TRANSACTION_ABORTABLE,
    }
)

_KINDS: Mapping[int, Kind] = {
    ErrorCode.NONE: Kind.ACK,
    ErrorCode.DUPLICATE_SEQUENCE_NUMBER: Kind.ACK,  # an earlier attempt was appended, its offset is forgotten (S:700)
    ErrorCode.MESSAGE_TOO_LARGE: Kind.SPLIT,
    ErrorCode.RECORD_LIST_TOO_LARGE: Kind.SPLIT,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: Kind.NEW_IDENTITY,
    ErrorCode.INVALID_PRODUCER_EPOCH: Kind.NEW_IDENTITY,
    ErrorCode.UNKNOWN_PRODUCER_ID: Kind.NEW_IDENTITY,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: Kind.FATAL,
    ErrorCode.PRODUCER_FENCED: Kind.FATAL,
}

_ADVICE: Mapping[int, str] = {
    ErrorCode.UNKNOWN_SERVER_ERROR: "the broker failed in an unexpected way while it handled the batch; its log has details",
    ErrorCode.NONE: "the batch is in the log",
    ErrorCode.CORRUPT_MESSAGE: "the broker found the batch corrupt (checksum, size, or no key on a compacted topic)",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "the broker does not have this topic or partition; was it deleted, or is auto-creation off?",
    ErrorCode.LEADER_NOT_AVAILABLE: "the partition has no leader; check the brokers of its replicas",
    ErrorCode.NOT_LEADER_OR_FOLLOWER: "the broker is no longer the leader of the partition",
    ErrorCode.REQUEST_TIMED_OUT: "the in-sync replicas did not confirm in time",
    ErrorCode.REPLICA_NOT_AVAILABLE: "the broker has no usable replica of the partition",
    ErrorCode.MESSAGE_TOO_LARGE: "the batch is larger than the topic allows; raise max.message.bytes of the topic or lower batch_size",
    ErrorCode.NETWORK_EXCEPTION: "the connection to the broker broke before it answered",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "the broker does not accept this topic name",
    ErrorCode.RECORD_LIST_TOO_LARGE: "the batch is larger than a segment of the topic; raise segment.bytes of the topic or lower batch_size",
    ErrorCode.NOT_ENOUGH_REPLICAS: "fewer replicas are in sync than min.insync.replicas of the topic requires",
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: "the batch was appended, but fewer replicas are in sync than min.insync.replicas of the topic requires",
    ErrorCode.INVALID_REQUIRED_ACKS: "the broker does not accept this value of acks",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "not authorized to write to the topic; grant the principal WRITE on it",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "not authorized on the cluster; grant the principal IDEMPOTENT_WRITE on it, or set enable_idempotence=False",
    ErrorCode.INVALID_TIMESTAMP: "the timestamp is outside the range of the topic (message.timestamp.before.max.ms and after.max.ms)",
    ErrorCode.UNSUPPORTED_VERSION: "the broker does not support this version of the request",
    ErrorCode.INVALID_REQUEST: "the broker found the request malformed; its log has details",
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT: "the message format of the topic on this broker does not support the batch",
    ErrorCode.POLICY_VIOLATION: "a policy of the broker forbids the batch",
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: "the broker expects another sequence number for this producer",
    ErrorCode.DUPLICATE_SEQUENCE_NUMBER: "an earlier attempt of the batch is in the log; the broker no longer knows its offset",
    ErrorCode.INVALID_PRODUCER_EPOCH: "the broker knows a newer epoch of this producer",
    ErrorCode.INVALID_TXN_STATE: "the broker has no open transaction of this producer for the partition",
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: "the producer id no longer belongs to the transactional id",
    ErrorCode.CONCURRENT_TRANSACTIONS: "the previous transaction of this producer is still being completed",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "not authorized for the transactional id; grant the principal WRITE on it",
    ErrorCode.KAFKA_STORAGE_ERROR: "the disk of the broker failed while it handled the batch",
    ErrorCode.UNKNOWN_PRODUCER_ID: "the broker has forgotten this producer, because its records are older than the retention",
    ErrorCode.FENCED_LEADER_EPOCH: "the broker knows a newer leader of the partition",
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE: "the broker does not support this compression_type for the topic",
    ErrorCode.INVALID_RECORD: "the broker refuses a record of the batch; was it sent without a key to a compacted topic?",
    ErrorCode.THROTTLING_QUOTA_EXCEEDED: "a quota of the broker is exhausted",
    ErrorCode.PRODUCER_FENCED: "another producer with the same transactional_id has taken over",
    ErrorCode.UNKNOWN_TOPIC_ID: "the broker does not know this topic id; was the topic deleted?",
    ErrorCode.INCONSISTENT_TOPIC_ID: "the topic was deleted and created again",
    ErrorCode.TRANSACTION_ABORTABLE: "the transaction can only be aborted",
}


def _advice(code: int) -> str:
    known = ERRORS.get(code)
    return _ADVICE.get(code) or (
        known.message if known else "an error code that this version of the library does not know"
    )


def _kind(code: int) -> Kind:
    known = ERRORS.get(code)
    return _KINDS.get(code) or (Kind.RETRY if known and known.retriable else Kind.FAIL)


def _verdict(code: int, *, proof: bool) -> Verdict:
    known = ERRORS.get(code)
    refresh = known is not None and known.refreshes_metadata
    return Verdict(code, describe(code), _kind(code), refresh, proof, _advice(code))


VERDICTS: Mapping[int, Verdict] = MappingProxyType(
    {code: _verdict(code, proof=code in REFUSED_BEFORE_APPEND) for code in ERRORS}
)
_REFUSED_AT_LOOK_UP: Mapping[int, Verdict] = {code: _verdict(code, proof=True) for code in LOOK_UP_CODES}


def verdict(code: int, base_offset: int | None = None) -> Verdict:
    """The decision about a batch that was answered with `code` (and, where the answer has one, a base offset).

    An unknown code counts as an unknown server error: it is final, and the outcome is UNKNOWN.
    """
    if code in _REFUSED_AT_LOOK_UP and base_offset is not None and base_offset < 0:
        return _REFUSED_AT_LOOK_UP[code]
    return VERDICTS.get(code) or _verdict(code, proof=False)


_IDENTITY_KINDS: Mapping[int, IdentityKind] = {
    ErrorCode.NONE: IdentityKind.OBTAINED,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: IdentityKind.LOOK_UP,
    ErrorCode.NOT_COORDINATOR: IdentityKind.LOOK_UP,
}

_IDENTITY_ADVICE: Mapping[int, str] = {
    ErrorCode.UNKNOWN_SERVER_ERROR: "the broker failed in an unexpected way; its log has details",
    ErrorCode.NONE: "the producer has an identity",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "not authorized for an idempotent producer; grant the principal IDEMPOTENT_WRITE on the cluster (or WRITE on "
    "a topic), or set enable_idempotence=False",
    ErrorCode.UNSUPPORTED_VERSION: "the broker is too old for an idempotent producer; set enable_idempotence=False",
    ErrorCode.INVALID_PRODUCER_EPOCH: "another producer with the same transactional_id has taken over",
    ErrorCode.INVALID_TRANSACTION_TIMEOUT: "transaction_timeout_ms is larger than transaction.max.timeout.ms of the broker",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "not authorized for the transactional id; grant the principal WRITE on it",
    ErrorCode.PRODUCER_FENCED: "another producer with the same transactional_id has taken over",
}


def identity_verdict(code: int) -> IdentityVerdict:
    """The decision after InitProducerId was answered with `code`.

    A code that is not known to be temporary is fatal, as in Java. An unknown code is not: asking again does no harm.
    """
    known = ERRORS.get(code)
    passes = known is None or known.retriable or code == ErrorCode.UNKNOWN_SERVER_ERROR
    otherwise = IdentityKind.RETRY if passes else IdentityKind.FATAL
    kind = _IDENTITY_KINDS.get(code, otherwise)
    return IdentityVerdict(code, describe(code), kind, _IDENTITY_ADVICE.get(code) or _advice(code))
