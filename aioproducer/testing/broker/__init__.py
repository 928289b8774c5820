"""The brokers of the embedded Kafka: sockets, requests, and injected faults."""
