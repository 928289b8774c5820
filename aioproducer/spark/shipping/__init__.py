"""The rows of one task on their way to Kafka."""
