"""The first question of a connection, without any network."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioproducer._state.connecting.dialogue import Ask
from aioproducer._state.connecting.opening import BrokerVersions, ask_versions, negotiated
from aioproducer._wire.codec import encode_response
from aioproducer._wire.messages.api_versions import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
)
from aioproducer.errors import BrokerUnavailableError, KafkaError, ProtocolError
from tests.connection.peer import versions_answer
from tests.state.connecting.driver import play

BROKER = "kafka1:9092 (id 3)"
PRODUCE, METADATA, INIT_PRODUCER_ID = 0, 3, 22


def converse(*answers: bytes) -> tuple[list[Any], BrokerVersions]:
    """Give these answers in turn; the questions that were asked, and the versions that follow."""
    questions, versions = play(ask_versions(BROKER, "1.2"), *answers)
    assert isinstance(versions, BrokerVersions)
    return questions, versions


def answer(response: ApiVersionsResponse, version: int = 4) -> bytes:
    """An answer frame."""
    return encode_response(response, version, 7)


def test_one_question_is_enough_for_a_broker_of_today() -> None:
    """ApiVersions is asked in our newest version, with name and version of this software (KIP-511)."""
    questions, versions = converse(answer(versions_answer()))
    assert questions == [Ask(ApiVersionsRequest("aioproducer", "1.2"), 4)]
    assert versions.choose(PRODUCE) == 13


@pytest.mark.parametrize(
    "rest", [b"", b"\x00\x00\x00\x00", b"\x00\x00\x00\x01\x00\x12\x00\x00\x00\x03", b"?"]
)
def test_old_broker_is_asked_again_in_version_0(rest: bytes) -> None:
    """Error 35 leads to a question in version 0 by its code alone, whatever follows it (B12)."""
    refusal = b"\x00\x00\x00\x07\x00\x23" + rest
    questions, versions = converse(refusal, answer(versions_answer([(0, 0, 8), (3, 0, 8)]), version=0))
    assert [question.version for question in questions] == [4, 0]
    assert versions.choose(PRODUCE) == 8
    assert versions.features_epoch == -1


def test_broker_that_refuses_every_version_is_unavailable() -> None:
    """UNSUPPORTED_VERSION for version 0, or any other error, ends the opening with the broker's and the code's name."""
    refusal = b"\x00\x00\x00\x07\x00\x23\x00\x00\x00\x00"
    with pytest.raises(BrokerUnavailableError, match=r"UNSUPPORTED_VERSION.*kafka1:9092 \(id 3\)"):
        converse(refusal, refusal)
    with pytest.raises(BrokerUnavailableError, match=r"UNKNOWN_ERROR_CODE_999"):
        converse(answer(versions_answer(error_code=999)))


@pytest.mark.parametrize("frame", [b"", b"\x00\x00\x00\x07", b"\x00\x00\x00\x07\x00\x00\xff\xff\xff\xff\x0f"])
def test_garbage_is_a_protocol_error(frame: bytes) -> None:
    """An answer that cannot be decoded raises ProtocolError and nothing else (B04)."""
    with pytest.raises(ProtocolError):
        converse(frame)


@given(st.binary(max_size=60))
def test_random_answers_raise_only_our_errors(frame: bytes) -> None:
    """Whatever bytes are answered, only the library's errors leave the dialogue (B04)."""
    with pytest.raises(KafkaError):
        converse(frame, frame)


@pytest.mark.parametrize(
    ("offered", "version"),
    [((0, 13), 13), ((0, 99), 13), ((9, 11), 11), ((3, 3), 3), ((13, 20), 13)],
)
def test_highest_common_version_is_chosen(offered: tuple[int, int], version: int) -> None:
    """The version of an API is the highest that both sides know."""
    assert negotiated(BROKER, versions_answer([(PRODUCE, *offered)])).choose(PRODUCE) == version


@pytest.mark.parametrize(("api_key", "cap"), [(METADATA, 13), (INIT_PRODUCER_ID, 5), (24, 3), (18, 4)])
def test_our_own_limits_hold_for_a_broker_of_the_future(api_key: int, cap: int) -> None:
    """InitProducerId stays below its unstable version 6, AddPartitionsToTxn below those that are for brokers."""
    assert negotiated(BROKER, versions_answer([(0, 0, 13), (api_key, 0, 99)])).choose(api_key) == cap


@pytest.mark.parametrize("offered", [(0, 2), (14, 20)])
def test_broker_without_a_common_produce_version_is_refused(offered: tuple[int, int]) -> None:
    """Produce below 3 or above 13 only: the error names the broker and both ranges (B12, KAFKA-18659)."""
    low, high = offered
    with pytest.raises(
        ProtocolError, match=rf"Produce v{low}-v{high}; this client needs v3-v13 .*kafka1:9092 \(id 3\)"
    ):
        negotiated(BROKER, versions_answer([(PRODUCE, low, high)]))


def test_broker_without_produce_is_refused() -> None:
    """A listener that takes no Produce requests is probably a controller's, and the error says so (B12)."""
    with pytest.raises(ProtocolError, match=r"no Produce requests .a controller's listener"):
        negotiated(BROKER, versions_answer([(METADATA, 0, 13)]))


def test_brokers_that_list_the_same_share_the_tables() -> None:
    """A thousand connections do not have four kilobytes each for what all brokers of a cluster say."""
    one, other = (negotiated(name, versions_answer([(PRODUCE, 3, 8), (METADATA, 0, 9)])) for name in "ab")
    assert one.broker != other.broker
    assert one.chosen is other.chosen
    assert one.ranges is other.ranges
    assert negotiated("c", versions_answer([(PRODUCE, 3, 9), (METADATA, 0, 9)])).choose(PRODUCE) == 9


def test_range_upside_down_is_refused() -> None:
    """A lowest version above the highest makes no sense for an API that we use, and matters not for others (B12)."""
    with pytest.raises(ProtocolError, match="Metadata from version 9 to 3"):
        negotiated(BROKER, versions_answer([(PRODUCE, 0, 13), (METADATA, 9, 3)]))
    assert negotiated(BROKER, versions_answer([(PRODUCE, 0, 13), (4242, 9, 3)])).choose(PRODUCE) == 13


def test_api_that_the_broker_does_not_have_is_named() -> None:
    """Choosing a version of an API that the broker lacks raises an error with its name."""
    versions = negotiated(BROKER, versions_answer([(PRODUCE, 3, 8)]))
    with pytest.raises(ProtocolError, match="supports no InitProducerId requests"):
        versions.choose(INIT_PRODUCER_ID)


def test_caller_can_ask_for_a_lower_version() -> None:
    """Produce without topic ids is capped at 12; a cap below what both sides know is an error."""
    versions = negotiated(BROKER, versions_answer([(PRODUCE, 5, 13)]))
    assert versions.choose(PRODUCE, 12) == 12
    assert versions.choose(PRODUCE, 99) == 13
    with pytest.raises(ProtocolError, match="this client needs v3-v4"):
        versions.choose(PRODUCE, 4)


def test_finalized_features_are_kept_with_their_epoch() -> None:
    """Features count only with an epoch that is not -1."""
    features = [FinalizedFeatureKey("transaction.version", 2, 1)]
    known = negotiated(BROKER, versions_answer(finalized_features=features, finalized_features_epoch=17))
    assert (dict(known.features), known.features_epoch) == ({"transaction.version": 2}, 17)
    unknown = negotiated(BROKER, versions_answer(finalized_features=features))
    assert (dict(unknown.features), unknown.features_epoch) == ({}, -1)
