"""The brokers of the embedded Kafka: sockets, requests, and the faults that a test asks for."""
