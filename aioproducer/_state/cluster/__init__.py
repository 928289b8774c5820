"""The brokers, topics and partitions that are known, and when to ask about them."""
