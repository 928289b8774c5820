"""Interceptors: the chain, and that none of their failures reaches the caller of send()."""

from __future__ import annotations

import logging
from typing import Any

import attrs
import pytest

from aioproducer.errors import DeliveryTimeoutError
from aioproducer.interceptors import Interceptor, run_close, run_on_acknowledgement, run_on_send
from aioproducer.records import Record, RecordMetadata

LOG = logging.getLogger("tests.interceptors")
RECORD: Record[bytes, bytes] = Record("orders", b"v")


class Suffix(Interceptor):
    """Adds a letter to each value, and notes what it hears."""

    def __init__(self, letter: bytes) -> None:
        self.letter = letter
        self.heard: list[object] = []

    def on_send(self, record: Record[Any, Any], /) -> Record[Any, Any]:
        return attrs.evolve(record, value=(record.value or b"") + self.letter)

    def on_acknowledgement(self, metadata: RecordMetadata | None, error: BaseException | None, /) -> None:
        self.heard.append((metadata, error))

    def close(self) -> None:
        self.heard.append("closed")


class Failing(Interceptor):
    """Fails at everything."""

    def on_send(self, record: Record[Any, Any], /) -> Record[Any, Any]:
        raise LookupError("on send")

    def on_acknowledgement(self, metadata: RecordMetadata | None, error: BaseException | None, /) -> None:
        raise LookupError("on acknowledgement")

    def close(self) -> None:
        raise LookupError("on close")


class Returning(Interceptor):
    """Returns something that is no record."""

    def __init__(self, result: Any) -> None:
        self.result = result

    def on_send(self, record: Record[Any, Any], /) -> Record[Any, Any]:
        return self.result()  # type: ignore[no-any-return]


async def _coroutine() -> None: ...


def test_chain_runs_in_order() -> None:
    """Each interceptor gets what the one before it returned."""
    assert run_on_send([Suffix(b"1"), Suffix(b"2")], RECORD, LOG).value == b"v12"


def test_empty_chain_is_the_record() -> None:
    """Without interceptors the record is untouched."""
    assert run_on_send([], RECORD, LOG) is RECORD


def test_interceptor_that_only_derives_changes_nothing() -> None:
    """The base class is an interceptor that does nothing."""
    assert run_on_send([Interceptor()], RECORD, LOG) is RECORD
    run_on_acknowledgement([Interceptor()], None, None, LOG)
    run_close([Interceptor()], LOG)


def test_failure_is_logged_and_the_chain_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    """After an exception the next interceptor gets the last good record, and the log has the exception."""
    assert run_on_send([Suffix(b"1"), Failing(), Suffix(b"2")], RECORD, LOG).value == b"v12"
    (entry,) = caplog.records
    assert "on_send() of Failing failed" in entry.getMessage()
    assert entry.exc_info is not None
    assert isinstance(entry.exc_info[1], LookupError)


@pytest.mark.parametrize("result", [lambda: None, lambda: b"v", _coroutine])
def test_result_that_is_no_record_is_left_out(result: Any, caplog: pytest.LogCaptureFixture) -> None:
    """A result that is not a Record counts as a failure; a coroutine as the result causes no warning."""
    assert run_on_send([Returning(result), Suffix(b"1")], RECORD, LOG).value == b"v1"
    assert "not a Record" in caplog.text


def test_log_has_no_values(caplog: pytest.LogCaptureFixture) -> None:
    """The log of a failure does not have the record's key or value in it."""
    run_on_send([Failing(), Returning(lambda: None)], Record("t", b"canary", key=b"canary"), LOG)
    assert caplog.records
    assert not any("canary" in entry.getMessage() for entry in caplog.records)


def test_every_interceptor_hears_every_fate(caplog: pytest.LogCaptureFixture) -> None:
    """A failing interceptor does not keep the others from hearing of acknowledgements, errors and the end."""
    first, last = Suffix(b""), Suffix(b"")
    chain = [first, Failing(), last]
    metadata, error = RecordMetadata("t", 0, 1, 2), DeliveryTimeoutError()
    run_on_acknowledgement(chain, metadata, None, LOG)
    run_on_acknowledgement(chain, None, error, LOG)
    run_close(chain, LOG)
    assert first.heard == last.heard == [(metadata, None), (None, error), "closed"]
    assert [entry.getMessage() for entry in caplog.records] == [
        "on_acknowledgement() of Failing failed",
        "on_acknowledgement() of Failing failed",
        "close() of Failing failed",
    ]


def test_cancellation_is_not_swallowed() -> None:
    """An exception outside Exception, such as a keyboard interrupt, passes through."""

    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_on_send([Returning(interrupted)], RECORD, LOG)
