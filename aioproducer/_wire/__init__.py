"""What the bytes mean: Kafka's messages, headers and error codes. Stateless, and without I/O."""
