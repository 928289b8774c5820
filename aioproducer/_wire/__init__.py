"""The meaning of bytes: Kafka's messages, headers and error codes. Stateless, and without I/O."""
