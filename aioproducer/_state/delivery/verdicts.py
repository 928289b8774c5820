"""What a broker's error code means for a batch (or for a producer id), as a table.

Two questions are answered per code: what to do next, and whether the code proves that this attempt appended nothing.
The second decides what may be told in the end: NOT_WRITTEN is a promise, so whatever is not proven is UNKNOWN.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from types import MappingProxyType

import attrs

from aioproducer._wire.error_codes import ERRORS, describe
from aioproducer.outcome import Outcome

UNKNOWN_SERVER_ERROR = -1


class Kind(enum.Enum):
    """What to do with a batch after its answer."""

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
    """The decision about one batch, and what to tell its owner if it is the last one."""

    code: int
    name: str
    kind: Kind
    refresh_metadata: bool
    proves_not_appended: bool
    advice: str

    @property
    def outcome(self) -> Outcome:
        """What became of the records if this answer is the only one there was."""
        if self.kind is Kind.ACK:
            return Outcome.ACKED
        return Outcome.NOT_WRITTEN if self.proves_not_appended else Outcome.UNKNOWN


class IdentityKind(enum.Enum):
    """What to do after an answer to InitProducerId."""

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


# Codes that a partition's look-up gives. Before the append they prove that nothing was written. But a leader that loses
# its office while it waits for its followers answers with the same codes *after* it has appended (DelayedProduce
# replaces the error of a response that already has its base offset): only an answer without an offset is a proof.
LOOK_UP_CODES = frozenset({3, 5, 6, 9, 72, 74, 100, 103})

# The broker refuses these before the log is touched: authorization and request checks of KafkaApis, LogValidator,
# ProducerAppendInfo, and the in-sync check in front of the append (Partition.appendRecordsToLeader).
# Not among them on purpose: 7 and 20 (appended, not replicated), 13 (stands for a connection that broke),
# 56 (the disk failed while appending: recovery may find the batch), -1 (anything).
REFUSED_BEFORE_APPEND = frozenset(
    {
        2,
        10,
        14,
        15,
        16,
        17,
        18,
        19,
        21,
        29,
        31,
        32,
        35,
        42,
        43,
        44,
        45,
        47,
        48,
        49,
        51,
        53,
        59,
        76,
        87,
        89,
        90,
        120,
    }
)

_KINDS = {
    0: Kind.ACK,
    46: Kind.ACK,  # DUPLICATE_SEQUENCE_NUMBER: an earlier attempt was appended, its offset is forgotten (S:700)
    10: Kind.SPLIT,
    18: Kind.SPLIT,
    45: Kind.NEW_IDENTITY,
    47: Kind.NEW_IDENTITY,
    59: Kind.NEW_IDENTITY,
    53: Kind.FATAL,
    90: Kind.FATAL,
}

_ADVICE = {
    -1: "the broker failed in an unexpected way while it handled the batch; its log tells more",
    0: "the batch is in the log",
    2: "the broker found the batch corrupt (checksum, size, or no key on a compacted topic)",
    3: "the broker does not have this topic or partition; was it deleted, or is auto-creation off?",
    5: "the partition has no leader; look at the brokers of its replicas",
    6: "the broker is not the leader of the partition any more",
    7: "the in-sync replicas did not confirm in time",
    9: "the broker has no usable replica of the partition",
    10: "the batch is larger than the topic allows; raise max.message.bytes of the topic or lower batch_size",
    13: "the connection to the broker broke before it answered",
    17: "the broker does not accept this topic name",
    18: "the batch is larger than a segment of the topic; raise segment.bytes of the topic or lower batch_size",
    19: "fewer replicas are in sync than min.insync.replicas of the topic asks for",
    20: "the batch was appended, but fewer replicas are in sync than min.insync.replicas of the topic asks for",
    21: "the broker does not accept this value of acks",
    29: "not authorized to write to the topic; grant the principal WRITE on it",
    31: "not authorized on the cluster; grant the principal IDEMPOTENT_WRITE on it, or set enable_idempotence=False",
    32: "the timestamp is outside of what the topic allows (message.timestamp.before.max.ms and after.max.ms)",
    35: "the broker does not support this version of the request",
    42: "the broker takes the request for malformed; its log tells more",
    43: "the message format of the topic on this broker does not support the batch",
    44: "a policy of the broker forbids the batch",
    45: "the broker expects another sequence number for this producer",
    46: "an earlier attempt of the batch is in the log; the broker no longer knows its offset",
    47: "the epoch of this producer is older than the one that the broker knows",
    48: "the broker has no open transaction of this producer for the partition",
    49: "the producer id does not belong to the transactional id any more",
    51: "the previous transaction of this producer is still being completed",
    53: "not authorized for the transactional id; grant the principal WRITE on it",
    56: "the disk of the broker failed while it handled the batch",
    59: "the broker has forgotten this producer, because its records are older than what it keeps",
    74: "the broker knows a newer leader of the partition",
    76: "the broker does not support this compression_type for the topic",
    87: "the broker refuses a record of the batch; was it sent without a key to a compacted topic?",
    89: "a quota of the broker is used up",
    90: "another producer with the same transactional_id has taken over",
    100: "the broker does not know this topic id; was the topic deleted?",
    103: "the topic was deleted and created again",
    120: "the transaction can only be aborted",
}


def _advice(code: int) -> str:
    known = ERRORS.get(code)
    return _ADVICE.get(code) or (
        known.message if known else "a code that this version of the library does not know"
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
_REFUSED_AT_LOOK_UP = {code: _verdict(code, proof=True) for code in LOOK_UP_CODES}


def verdict(code: int, base_offset: int | None = None) -> Verdict:
    """What to do with a batch that was answered with `code` (and, where the answer has one, a base offset).

    A code that Kafka does not know is taken for an unknown server error: it is final, and the outcome is UNKNOWN.
    """
    if code in _REFUSED_AT_LOOK_UP and base_offset is not None and base_offset < 0:
        return _REFUSED_AT_LOOK_UP[code]
    return VERDICTS.get(code) or _verdict(code, proof=False)


_IDENTITY_KINDS = {
    0: IdentityKind.OBTAINED,
    15: IdentityKind.LOOK_UP,
    16: IdentityKind.LOOK_UP,
}

_IDENTITY_ADVICE = {
    -1: "the broker failed in an unexpected way; its log tells more",
    0: "the producer has an identity",
    31: "not authorized for an idempotent producer; grant the principal IDEMPOTENT_WRITE on the cluster (or WRITE on "
    "a topic), or set enable_idempotence=False",
    35: "the broker is too old for an idempotent producer; set enable_idempotence=False",
    47: "another producer with the same transactional_id has taken over",
    50: "transaction_timeout_ms is larger than transaction.max.timeout.ms of the broker",
    53: "not authorized for the transactional id; grant the principal WRITE on it",
    90: "another producer with the same transactional_id has taken over",
}


def identity_verdict(code: int) -> IdentityVerdict:
    """What to do after InitProducerId was answered with `code`.

    What is not known to pass is fatal, as in Java. But a code without a meaning is no reason to end: asking again does no harm.
    """
    known = ERRORS.get(code)
    passes = known is None or known.retriable or code == UNKNOWN_SERVER_ERROR
    otherwise = IdentityKind.RETRY if passes else IdentityKind.FATAL
    kind = _IDENTITY_KINDS.get(code, otherwise)
    return IdentityVerdict(code, describe(code), kind, _IDENTITY_ADVICE.get(code) or _advice(code))
