"""Web hooks, each written exactly once: their senders may repeat them until the answer is 201 or 200.

Run it with FastAPI, uvicorn and aiokafka: uvicorn --app-dir examples exactly_once_webhook:app
Then, twice: curl -i localhost:8000/hooks -H 'Idempotency-Key: 17' --json '{"paid": 3}'

A hook goes to the topic `hooks` and its key to the topic `hooks-seen`, in one transaction: both are there, or neither.
What has been seen is known from Kafka alone. So, whenever the application is killed:

* before the commit: nothing of it is there, and the sender has no answer. It repeats the hook, which is written then.
* after the commit, before the answer: both are there. The next start reads the key, and the repetition is answered 200.
* in between: the next start waits in `init_transactions()` until the coordinator has ended the transaction, either way, and
  reads the keys after that.

After an error the application does what it does at its start, so that there is one way to get it right. A second one that
is started shuts out the first, which can write nothing from then on and answers 503. Run one of them, or several with
topics and a transactional id of their own, each for a part of the senders.

Let `hooks-seen` have cleanup.policy=compact,delete and keep keys for longer than anybody repeats a hook. Hooks are written
one after the other, each in a transaction of its own.
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
PATIENCE = 10.0
"""Seconds within which a hook is answered."""
LARGEST = 500_000
log = logging.getLogger("uvicorn.error")


class Once:
    """Writes a hook unless its key was seen."""

    def __init__(self, servers: str) -> None:
        self.servers = servers
        self.producer: Producer | None = None
        self.seen: set[bytes] = set()
        # One at a time, so that nobody comes between looking for a key and writing it.
        self.turn = asyncio.Lock()

    async def write(self, key: bytes, hook: bytes) -> bool:
        """True when it is written now, False when it was before."""
        async with self.turn:
            producer = self.producer or await self.begin()
            if key in self.seen:
                return False
            try:
                async with producer.transaction():
                    await producer.send("hooks", hook, key=key)
                    await producer.send("hooks-seen", b"", key=key)
            except ProducerFencedError:
                raise  # for ever: to begin anew would shut out the one that has taken over
            except BaseException:
                await self.close()
                raise
            self.seen.add(key)
            return True

    async def begin(self) -> Producer:
        """At the start, and after an error: nothing is left open, and what was committed is known."""
        producer = Producer(
            self.servers,
            transactional_id="hooks",
            max_block_ms=4_000,
            request_timeout_ms=2_000,
            delivery_timeout_ms=4_000,
        )
        try:
            await producer.start()
            # First: from here on nobody else can add a key.
            await producer.init_transactions()
            self.seen = await self.keys()
        except BaseException:
            await producer.close(timeout=1)
            raise
        self.producer = producer
        return producer

    async def keys(self) -> set[bytes]:
        """The keys of all hooks that are committed."""
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
        """The next hook begins anew."""
        producer, self.producer = self.producer, None
        if producer is not None:
            await producer.close(timeout=1)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[dict[str, Once]]:
    """One for the whole application, which starts whether Kafka is up or not."""
    once = Once(KAFKA)
    yield {"once": once}
    await once.close()


def once_of(request: Request) -> Once:
    """The one of the application; tests put another in its place with `app.dependency_overrides`."""
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
    """Answer when the hook is committed: 201 if it is new, 200 if it was there."""
    hook = await request.body()
    if len(hook) > LARGEST:
        raise HTTPException(413, "the hook is too large")
    async with asyncio.timeout(PATIENCE):
        is_new = await once.write(idempotency_key.encode(), hook)
    response.status_code = 201 if is_new else 200
    return {"hook": "written" if is_new else "was written before"}


@app.exception_handler(KafkaError)
@app.exception_handler(ConsumerError)
@app.exception_handler(TimeoutError)
async def tell_failure(request: Request, error: Exception) -> JSONResponse:
    """Whatever went wrong, and whatever became of the hook: to repeat it is right."""
    log.error("%s %s: %s", request.method, request.url.path, error)
    return JSONResponse({"detail": "repeat the hook"}, 503, {"Retry-After": "2"})
