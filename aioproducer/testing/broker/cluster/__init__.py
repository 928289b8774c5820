"""What all brokers agree on: topics, leaders, groups and transactions."""
