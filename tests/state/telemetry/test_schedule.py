"""The requests to a broker about metrics and their times; the meaning of each answer."""

from __future__ import annotations

from typing import Any

import pytest

from aioproducer._state.telemetry.schedule import NO_ID, Move, Schedule
from aioproducer._state.telemetry.subscription import Subscription
from aioproducer._wire.error_codes import ErrorCode
from aioproducer._wire.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsResponse

ID = bytes(range(16))
NOW = 100.0
INTERVAL = 60.0


def answer(**facts: Any) -> GetTelemetrySubscriptionsResponse:
    """A subscription of everything, every minute."""
    told = {
        "client_instance_id": ID,
        "subscription_id": 7,
        "accepted_compression_types": (4, 3, 1, 2),
        "push_interval_ms": 60_000,
        "telemetry_max_bytes": 1000,
        "delta_temporality": True,
        "requested_metrics": ("*",),
    }
    return GetTelemetrySubscriptionsResponse(**{**told, **facts})


def subscribed(**facts: Any) -> Schedule:
    """A schedule that has just got its first answer."""
    schedule = Schedule(NOW)
    schedule.asking(NOW)
    schedule.told(answer(**facts), NOW, 0.5)
    return schedule


def next_of(schedule: Schedule) -> tuple[Move, float]:
    return schedule.move, schedule.at


def test_it_asks_at_once_without_an_id() -> None:
    """The first request asks for the subscription, with the id of zeros."""
    schedule = Schedule(NOW)
    assert (next_of(schedule), schedule.client_instance_id) == ((Move.ASK, NOW), NO_ID)
    assert not schedule.owes_a_last_push


@pytest.mark.parametrize(("random", "part"), [(0.0, 0.5), (0.5, 1.0), (1.0, 1.5)])
def test_the_first_push_is_spread(random: float, part: float) -> None:
    """It comes after half an interval to one and a half, then one comes each interval."""
    schedule = Schedule(NOW)
    assert schedule.told(answer(), NOW, random)
    assert next_of(schedule) == (Move.PUSH, NOW + part * INTERVAL)
    assert schedule.pushed(0, 200.0)
    assert next_of(schedule) == (Move.PUSH, 200.0 + INTERVAL)


def test_the_given_id_is_kept() -> None:
    """The id of the first answer is used from then on, also where a later answer names none."""
    schedule = subscribed()
    schedule.told(answer(client_instance_id=NO_ID), NOW, 0.5)
    assert schedule.client_instance_id == ID


def test_nothing_requested() -> None:
    """The subscription is asked for again after the interval; there is nothing to push at the end."""
    schedule = subscribed(requested_metrics=())
    assert next_of(schedule) == (Move.ASK, NOW + INTERVAL)
    assert not schedule.owes_a_last_push
    assert subscribed().owes_a_last_push


@pytest.mark.parametrize("milliseconds", [0, -1, -(2**31)])
def test_an_interval_that_cannot_be(milliseconds: int) -> None:
    """It counts as five minutes."""
    schedule = subscribed(push_interval_ms=milliseconds)
    assert next_of(schedule) == (Move.PUSH, NOW + 300.0)


@pytest.mark.parametrize(("milliseconds", "interval"), [(1, 0.1), (99, 0.1), (100, 0.1), (101, 0.101)])
def test_an_interval_that_is_too_short(milliseconds: int, interval: float) -> None:
    """It counts as the shortest one that Kafka lets operators set: a push a millisecond would fill the event loop."""
    schedule = subscribed(push_interval_ms=milliseconds)
    assert next_of(schedule) == (Move.PUSH, NOW + interval)
    assert schedule.pushed(0, 200.0)
    assert next_of(schedule) == (Move.PUSH, 200.0 + interval)


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE])
def test_an_outdated_subscription_is_asked_for_at_once(code: int) -> None:
    """Within a second of the last request for it, when that second is over."""
    schedule = subscribed()
    assert not schedule.pushed(code, 200.0)
    assert next_of(schedule) == (Move.ASK, 200.0)
    schedule.asking(200.0)
    schedule.told(answer(subscription_id=8), 200.0, 0.5)
    schedule.pushed(code, 200.4)
    assert next_of(schedule) == (Move.ASK, 201.0)
    assert schedule.owes_a_last_push


@pytest.mark.parametrize("code", [ErrorCode.TELEMETRY_TOO_LARGE, ErrorCode.THROTTLING_QUOTA_EXCEEDED])
def test_a_refusal_that_passes(code: int) -> None:
    """The same request comes again after the interval."""
    schedule = subscribed()
    assert not schedule.pushed(code, 200.0)
    assert next_of(schedule) == (Move.PUSH, 200.0 + INTERVAL)
    first = Schedule(NOW)
    first.told(answer(error_code=code), NOW, 0.5)
    assert next_of(first) == (Move.ASK, NOW + 300.0)


@pytest.mark.parametrize(
    "code",
    [
        code
        for code in (*range(-1, 140), 9999)
        if code not in (0, 76, 89, 117, 118)  # none, and the errors of the tests above
    ],
)
def test_any_other_error_ends_it(code: int) -> None:
    """INVALID_REQUEST, INVALID_RECORD, UNSUPPORTED_VERSION and unknown codes: nothing more is sent by this producer."""
    schedule = subscribed()
    assert not schedule.pushed(code, 200.0)
    assert schedule.is_over
    assert not schedule.owes_a_last_push
    asking = Schedule(NOW)
    assert not asking.told(answer(error_code=code), NOW, 0.5)
    assert asking.is_over


def test_no_answer() -> None:
    """The same request comes again after the interval: that of the broker, or five minutes before it is known."""
    schedule = Schedule(NOW)
    schedule.later(NOW)
    assert next_of(schedule) == (Move.ASK, NOW + 300.0)
    schedule = subscribed()
    schedule.later(200.0)
    assert next_of(schedule) == (Move.PUSH, 200.0 + INTERVAL)


def test_only_a_change_is_told() -> None:
    """The same metrics at the same interval are no news; others are, and none are not."""
    schedule = subscribed()
    assert not schedule.told(answer(subscription_id=8), NOW, 0.5)
    assert schedule.told(answer(requested_metrics=("a.",)), NOW, 0.5)
    assert schedule.told(answer(requested_metrics=("a.",), push_interval_ms=1), NOW, 0.5)
    assert not schedule.told(answer(requested_metrics=()), NOW, 0.5)


@pytest.mark.parametrize(
    ("prefixes", "name", "is_wanted"),
    [
        (("",), "a.b", True),
        (("*",), "a.b", True),
        (("*", "c."), "a.b", False),
        (("", "c."), "a.b", True),
        (("a.",), "a.b", True),
        (("c.", "a.b"), "a.b", True),
        (("a.b.c",), "a.b", False),
        ((), "a.b", False),
    ],
)
def test_metrics_are_requested_by_prefix(prefixes: tuple[str, ...], name: str, is_wanted: bool) -> None:
    """The empty prefix and "*", each alone, request everything."""
    assert Subscription(1, prefixes).wants(name) is is_wanted


@pytest.mark.parametrize(
    ("accepted", "codec"), [((4, 3), 4), ((99, 3), 3), ((99,), 0), ((), 0), ((0, 4), 0), ((-1, 1), 1)]
)
def test_the_first_known_codec_is_used(accepted: tuple[int, ...], codec: int) -> None:
    """The broker lists the codecs in its order; without a known one nothing is compressed."""
    assert Subscription.told_by(answer(accepted_compression_types=accepted)).codec == codec


def test_a_subscription_in_words() -> None:
    """The line of the log names the metrics and the interval."""
    assert str(Subscription(1, ("*",), 60.0)) == "all metrics every 60 s"
    assert str(Subscription(1, ("a.", "b"), 0.5)) == "'a.', 'b' every 0.5 s"
    many = str(Subscription(1, tuple(map(str, range(25))), 1.0))
    assert many.endswith("'19' and 5 more every 1 s")
