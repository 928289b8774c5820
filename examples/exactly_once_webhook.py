"""Webhooks, each written exactly once: a sender repeats a hook until the answer is 201 or 200.

Run it with FastAPI, uvicorn and aiokafka: uvicorn --app-dir examples exactly_once_webhook:app
Then, twice: curl -i localhost:8000/hooks -H 'Idempotency-Key: 17' --json '{"paid": 3}'

A hook goes to the topic `hooks` and its key to the topic `hooks-seen`, in one transaction: both are committed, or
neither. The application reads the known keys from Kafka. So it may be killed at any time:

* Before the commit: neither is written, and the sender has no answer. The sender repeats the hook, which is written then.
* After the commit, before the answer: both are written. The next start reads the key, and the repetition is answered 200.
* During the commit: the next start waits in `init_transactions()` until the coordinator has ended the transaction, and
  then reads the keys.

After an error the application repeats the steps of its start. A second instance fences the first, which can write
nothing from then on and answers 503. Run one instance, or several with their own topics and transactional id, each for
a part of the senders.

Set cleanup.policy=compact,delete for `hooks-seen`, and keep keys for longer than senders repeat hooks. Hooks are
written one after the other, each in its own transaction.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

from aiokafka import AIOKafkaConsumer
from aiokafka.errors import KafkaError as ConsumerError
from fastapi import Depends, FastAPI, Header, HTTPException, Request, Response
from fastapi.responses import JSONResponse

from aioproducer import KafkaError, Producer, ProducerFencedError

KAFKA = os.environ.get("KAFKA", "localhost:9092")
ANSWER_TIMEOUT = 10.0
"""Seconds within which a hook is answered."""
LARGEST = 500_000
log = logging.getLogger("uvicorn.error")


class Once:
    """Writes a hook unless its key was seen."""

    def __init__(self, servers: str) -> None:
        self.servers = servers
        self.producer: Producer | None = None
        self.seen: set[bytes] = set()
        # One hook at a time: the check of a key and its writing must not be interleaved with another hook.
        self.lock = asyncio.Lock()

    async def write(self, key: bytes, hook: bytes) -> bool:
        """Write the hook; False if it was written before."""
        async with self.lock:
            producer = self.producer or await self.begin()
            if key in self.seen:
                return False
            try:
                async with producer.transaction():
                    await producer.send("hooks", hook, key=key)
                    await producer.send("hooks-seen", b"", key=key)
            except ProducerFencedError:
                raise  # another instance has taken over: a new start would fence it
            except BaseException:
                await self.close()
                raise
            self.seen.add(key)
            return True

    async def begin(self) -> Producer:
        """Called at the start, and after an error: ends an open transaction, and reads the committed keys."""
        producer = Producer(
            self.servers,
            transactional_id="hooks",
            max_block_ms=4_000,
            request_timeout_ms=2_000,
            delivery_timeout_ms=4_000,
        )
        try:
            await producer.start()
            # First: from here on no other producer can add a key.
            await producer.init_transactions()
            self.seen = await self.keys()
        except BaseException:
            await producer.close(timeout=1)
            raise
        self.producer = producer
        return producer

    async def keys(self) -> set[bytes]:
        """The keys of all committed hooks."""
        found: set[bytes] = set()
        async with AIOKafkaConsumer(
            "hooks-seen",
            bootstrap_servers=self.servers,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
        ) as consumer:
            ends = await consumer.end_offsets(consumer.assignment())
            for place, end in ends.items():
                while await consumer.position(place) < end:
                    some = await consumer.getmany(place, timeout_ms=1_000)
                    found.update(record.key for record in some.get(place, ()))
        return found

    async def close(self) -> None:
        """Close the producer; the next hook starts a new one."""
        producer, self.producer = self.producer, None
        if producer is not None:
            await producer.close(timeout=1)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[dict[str, Once]]:
    """One `Once` for the whole application. The application starts also without a running Kafka."""
    once = Once(KAFKA)
    yield {"once": once}
    await once.close()


def once_of(request: Request) -> Once:
    """The application's `Once`; tests replace it with `app.dependency_overrides`."""
    once: Once = request.state.once
    return once


app = FastAPI(lifespan=lifespan)


@app.post("/hooks")
async def take(
    request: Request,
    response: Response,
    once: Annotated[Once, Depends(once_of)],
    idempotency_key: Annotated[str, Header(min_length=1, max_length=200)],
) -> dict[str, str]:
    """Answer when the hook is committed: 201 for a new hook, 200 for a repeated one."""
    hook = await request.body()
    if len(hook) > LARGEST:
        raise HTTPException(413, "the hook is too large")
    async with asyncio.timeout(ANSWER_TIMEOUT):
        is_new = await once.write(idempotency_key.encode(), hook)
    response.status_code = 201 if is_new else 200
    return {"hook": "written" if is_new else "was written before"}


@app.exception_handler(KafkaError)
@app.exception_handler(ConsumerError)
@app.exception_handler(TimeoutError)
async def tell_failure(request: Request, error: Exception) -> JSONResponse:
    """After any error, and for any outcome of the hook, the sender can repeat it safely."""
    log.error("%s %s: %s", request.method, request.url.path, error)
    return JSONResponse({"detail": "repeat the hook"}, 503, {"Retry-After": "2"})
