"""One record per topic, sent by a producer of its own, with the way that it took."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from aioproducer._state.diagnosing.probing import ProbeFacts, failed_probe, probe_finding
from aioproducer.errors import KafkaError
from aioproducer.producer import Producer

if TYPE_CHECKING:
    from aioproducer._state.diagnosing.finding import Finding
    from aioproducer.config import ProducerConfig
    from aioproducer.listeners import BatchReport

__all__ = ["probe"]

_VALUE: Final = b"aioproducer doctor"
_HEADER: Final = "aioproducer.doctor"
_SHARE: Final = 0.95


class _Witness:
    """A listener that keeps the report of the one batch."""

    def __init__(self) -> None:
        self.report: BatchReport | None = None

    def on_batch(self, report: BatchReport) -> None:
        """Keep it."""
        self.report = report


async def probe(config: ProducerConfig, topic: str, limit: float, *, needs_key: bool) -> Finding:
    """Send one record to this topic, and wait for its acknowledgement, at most `limit` seconds in all."""
    # The rest is for the end: the error of the producer has the outcome, and that of a time limit around it has none.
    limit *= _SHARE
    loop, witness = asyncio.get_running_loop(), _Witness()
    producer: Producer[Any, Any] = Producer.from_config(_configured(config, witness, limit))
    try:
        async with producer:
            began = loop.time()
            delivery = await producer.send(
                topic, _VALUE, key=_VALUE if needs_key else None, headers=[(_HEADER, b"")], timeout=limit
            )
            accepted = loop.time()
            metadata = await delivery
            answered = loop.time()
            throttled = sum(each.throttle_seconds for each in producer.stats().connections)
    except KafkaError as error:
        return failed_probe(error)
    report = witness.report
    written = accepted if report is None or report.written_at is None else report.written_at
    offset = metadata.offset if metadata.offset >= 0 else None
    return probe_finding(
        ProbeFacts(
            metadata.partition,
            offset,
            accepted - began,
            max(0.0, written - accepted),
            max(0.0, answered - written),
            throttled,
        )
    )


def _configured(config: ProducerConfig, witness: _Witness, limit: float) -> ProducerConfig:
    """The settings of the user for one plain record. Without a transactional id: to initialize it would fence its owner."""
    milliseconds = max(1, int(limit * 1000))
    return config.evolve(
        transactional_id=None,
        transaction_timeout_ms=60_000,
        # One record needs no producer id, and the broker that is asked for one may be frozen.
        enable_idempotence=False,
        gapless=False,
        key_serializer=None,
        value_serializer=None,
        interceptors=(),
        listeners=(witness,),
        tracing=None,
        enable_metrics_push=False,
        topics=(),
        partitioner="default",
        acks=cast("Literal[-1, 1]", config.acks or 1),
        linger_ms=0,
        max_block_ms=milliseconds,
        request_timeout_ms=min(config.request_timeout_ms, milliseconds),
        delivery_timeout_ms=milliseconds,
        close_timeout_ms=0,
    )
