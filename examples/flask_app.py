"""A producer in a synchronous web application: its event loop has its own thread, requests call send_threadsafe().

Run it with Flask: flask --app examples/flask_app.py run
Then: curl -i localhost:5000/orders --data-binary '2 apples'
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from flask import Flask, request

from aioproducer import KafkaError, Outcome, Producer, RecordTooLargeError

KAFKA = os.environ.get("KAFKA", "localhost:9092")
Answer = tuple[dict[str, str | int], int]


@contextmanager
def producer_in_background(bootstrap_servers: str) -> Iterator[Producer]:
    """A started producer for the threads of a program without an event loop; closed at the end of the block."""
    producer = Producer(bootstrap_servers, topics=["orders"], close_timeout_ms=10_000)
    loop = asyncio.new_event_loop()
    # A daemon thread, because Python waits for other threads before it calls functions registered with atexit.
    thread = threading.Thread(target=loop.run_forever, name="producer", daemon=True)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(producer.start(), loop).result()
        yield producer
    finally:
        asyncio.run_coroutine_threadsafe(producer.close(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def create_app() -> Flask:
    """Make the application. Flask and WSGI servers call this in each worker process, after the fork."""
    app = Flask(__name__)
    resources = ExitStack()
    producer = resources.enter_context(producer_in_background(KAFKA))
    atexit.register(resources.close)

    @app.post("/orders")
    def place_order() -> Answer:
        sent = producer.send_threadsafe("orders", request.get_data(), timeout=5, max_block=1)
        metadata = sent.result()  # bounded by the two limits above
        return {"partition": metadata.partition, "offset": metadata.offset}, 201

    @app.errorhandler(KafkaError)
    def tell_failure(error: KafkaError) -> Answer:
        app.logger.error("the order failed: %s", error)
        if error.outcome is Outcome.UNKNOWN:
            return {"error": "the order may have been taken: check before you repeat it"}, 504
        if isinstance(error, RecordTooLargeError):
            return {"error": "the order is too large"}, 413
        return {"error": "the order was not taken"}, 503 if error.retriable else 500

    return app
