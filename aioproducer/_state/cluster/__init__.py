"""The known brokers, topics and partitions, and the times of metadata requests."""
