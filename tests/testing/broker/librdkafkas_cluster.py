"""The mock cluster of librdkafka in its own process: prints its addresses, and runs until its standard input ends."""

from __future__ import annotations

import sys

from confluent_kafka import Producer

if __name__ == "__main__":
    producer = Producer({"test.mock.num.brokers": 3, "log_level": 0})
    brokers = producer.list_topics(timeout=30).brokers.values()
    print(",".join(f"{broker.host}:{broker.port}" for broker in brokers), flush=True)
    sys.stdin.read()
